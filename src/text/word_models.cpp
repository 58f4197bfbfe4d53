// The models of words, WordPiece (Schuster and Nakajima 2012) and WordLevel; all by name.
// SPDX-License-Identifier: Apache-2.0
#include "text/bpe.hpp"
#include "text/stages.hpp"
#include "text/token_table.hpp"
#include "text/unigram.hpp"
#include "text/utf8.hpp"

namespace trireme::text {

void Model::encode_all(const Pieces& pieces, std::vector<std::int32_t>& ids,
                       Workspace& workspace) const {
  std::vector<Token> tokens;
  for (const Range& piece : pieces.ranges) {
    if (piece.size() == 0) continue;
    tokens.clear();
    encode(pieces.text(piece), tokens, workspace);
    for (const Token& token : tokens) ids.push_back(token.id);
  }
}
namespace {

class WordModel : public Model {
 public:
  explicit WordModel(const ConfigNode& node) : vocabulary_(node.at("vocab")) {
    const auto id = vocabulary_.id_of(node.at("unk_token").text());
    if (!id) node.fail("has an unk_token that is not in its vocabulary");
    unknown_ = *id;
  }
  std::optional<std::int32_t> id_of(std::string_view token) const override {
    return vocabulary_.id_of(token);
  }
  const std::string* token_of(std::int32_t id) const override {
    return vocabulary_.token_of(id);
  }
  std::int64_t size() const override {
    return static_cast<std::int64_t>(vocabulary_.size());
  }
  std::int64_t end() const override { return vocabulary_.highest() + std::int64_t{1}; }

 protected:
  Token unknown(std::string_view piece) const {
    return {unknown_, static_cast<std::uint32_t>(piece.size())};
  }

 private:
  TokenTable vocabulary_;
  std::int32_t unknown_ = -1;
};

class WordLevel final : public WordModel {
 public:
  using WordModel::WordModel;
  void encode(std::string_view piece, std::vector<Token>& out,
              Workspace&) const override {
    Token token = unknown(piece);
    if (const auto id = id_of(piece)) token.id = *id;
    out.push_back(token);
  }
};

// The longest token that the rest of a word begins with, again and again; a word that is
// not made of tokens, or too long, is unknown as a whole.
class WordPiece final : public WordModel {
 public:
  explicit WordPiece(const ConfigNode& node)
      : WordModel(node),
        prefix_(node.text("continuing_subword_prefix", "##")),
        most_(node.has("max_input_chars_per_word")
                  ? node.at("max_input_chars_per_word").integer()
                  : 100) {}
  void encode(std::string_view piece, std::vector<Token>& out,
              Workspace&) const override {
    const std::size_t before = out.size();
    bool whole = std::ssize(code_points(piece)) <= most_;
    for (std::size_t begin = 0; whole && begin < piece.size();) {
      std::size_t end = piece.size();
      std::optional<std::int32_t> id;
      while (end > begin) {
        id = id_of((begin > 0 ? prefix_ : "") +
                   std::string(piece.substr(begin, end - begin)));
        if (id) break;
        end -= code_point_before(piece, end).bytes;
      }
      whole = id.has_value();
      if (!whole) break;
      out.push_back({*id, static_cast<std::uint32_t>(end - begin)});
      begin = end;
    }
    if (whole) return;
    out.resize(before);
    out.push_back(unknown(piece));
  }

 private:
  std::string prefix_;
  std::int64_t most_;
};

}  // namespace

std::unique_ptr<Model> make_model(const ConfigNode& node, bool byte_level) {
  // Files of old writers name no type.
  const std::string type = node.has("type")     ? node.type()
                           : node.has("merges") ? std::string("BPE")
                                                : node.type();
  if (type == "BPE") return make_bpe(node, byte_level);
  if (type == "Unigram") return make_unigram(node);
  if (type == "WordPiece") {
    node.only(
        {"unk_token", "continuing_subword_prefix", "max_input_chars_per_word", "vocab"});
    return std::make_unique<WordPiece>(node);
  }
  if (type == "WordLevel") {
    node.only({"unk_token", "vocab"});
    return std::make_unique<WordLevel>(node);
  }
  node.fail("has the type \"" + type + "\", a model that is not supported");
}

}  // namespace trireme::text
