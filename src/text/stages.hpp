// The stages of a tokenizer as interfaces: each does one step of encoding or decoding.
// SPDX-License-Identifier: Apache-2.0
// Every stage is made from its part of tokenizer.json by a make_... function, which
// refuses what it does not understand. Stages are constant: threads share them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/aligned_text.hpp"
#include "text/config_node.hpp"

namespace trireme::text {

// A token of a piece, and how many of the piece's bytes it stands for.
struct Token {
  std::int32_t id;
  std::uint32_t bytes;
};

class Normalizer {
 public:
  virtual ~Normalizer() = default;
  virtual void apply(AlignedText& text) const = 0;
};

class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  // Cuts pieces into smaller ones, and may rewrite the text.
  virtual void apply(Pieces& pieces) const = 0;
};

// Working memory of one thread, which models and encoders keep between calls.
struct Workspace;

class Model {
 public:
  virtual ~Model() = default;
  // Adds the tokens of a piece.
  virtual void encode(std::string_view piece, std::vector<Token>& out,
                      Workspace& workspace) const = 0;
  // Adds the ids of all pieces' tokens.
  virtual void encode_all(const Pieces& pieces, std::vector<std::int32_t>& ids,
                          Workspace& workspace) const;
  virtual std::optional<std::int32_t> id_of(std::string_view token) const = 0;
  // Null for an id that no token has.
  virtual const std::string* token_of(std::int32_t id) const = 0;
  virtual std::int64_t size() const = 0;  // tokens, as the reference counts them
  // One more than the highest id: more than size() where ids are left out.
  virtual std::int64_t end() const { return size(); }
  // The tokens are of letters that stand for bytes each; encode() then takes the bytes.
  virtual bool takes_bytes() const { return false; }
};

class PostProcessor {
 public:
  virtual ~PostProcessor() = default;
  // Adds special tokens; they stand for no bytes.
  virtual void apply(std::vector<std::int32_t>& ids,
                     std::vector<Range>& offsets) const = 0;
};

class Decoder {
 public:
  virtual ~Decoder() = default;
  virtual void apply(std::vector<std::string>& tokens) const = 0;
};

std::unique_ptr<Normalizer> make_normalizer(const ConfigNode& node);
// `bytes`: the model takes bytes, so that ByteLevel leaves them as they are.
std::unique_ptr<PreTokenizer> make_pre_tokenizer(const ConfigNode& node, bool bytes);
std::unique_ptr<Model> make_model(const ConfigNode& node, bool byte_level);
std::unique_ptr<PostProcessor> make_post_processor(const ConfigNode& node);
std::unique_ptr<Decoder> make_decoder(const ConfigNode& node);

}  // namespace trireme::text
