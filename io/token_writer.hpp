// TokenWriter: token files of several formats, written whole or not at all.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/tensor_view.hpp"

namespace trireme::io {

enum class TokenFormat : std::uint8_t {
  hdf5,      // ours: datasets "tokens" and "documents"
  megatron,  // Megatron-LM's PATH.bin and PATH.idx, a sequence for each document
  llmc,      // llm.c's file: a header of 1,024 bytes, then the tokens
};

struct TokenFileInfo {
  std::string tokenizer_digest;
  std::int64_t vocabulary = 0;
  std::int32_t end_token = 0;
};

// The type of the tokens in a file: u16 where the format takes it for this vocabulary,
// else i32, whose bits are those of llm.c's u32.
DType token_dtype(TokenFormat format, std::int64_t vocabulary);

// Tokens in order, then close(). Without close() nothing bears the name, and temporary
// files are removed.
class TokenWriter {
 public:
  virtual ~TokenWriter() = default;
  // Tokens of token_dtype(), the next ones. Throws Error(io).
  virtual void add(const TensorView& tokens) = 0;
  // `ends`: 0, then the end of each document in tokens. Syncs, and gives the files their
  // names. Throws Error(io), Error(cannot_create).
  virtual void close(const std::vector<std::int64_t>& ends) = 0;
};

// Of `tokens` tokens altogether. Throws Error(cannot_create), and Error(bad_content) for
// 2^31 tokens or more in llm.c's format.
std::unique_ptr<TokenWriter> make_token_writer(TokenFormat format,
                                               const std::string& path,
                                               const TokenFileInfo& info,
                                               std::int64_t tokens);

}  // namespace trireme::io
