// ParallelEncoder: documents to tokens on several threads, in the documents' order.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "text/corpus.hpp"
#include "text/tokenizer.hpp"
#include "text/workspace.hpp"

namespace trireme::text {

class ParallelEncoder {
 public:
  using Take =
      std::function<void(const std::vector<std::int32_t>& ids, std::int64_t text_bytes)>;

  // take() gets the tokens of each document that is not empty on the caller's thread. The
  // tokenizer outlives this object.
  ParallelEncoder(const Tokenizer& tokenizer, int threads, Take take);
  // Encodes when enough text has come together. Throws what encode() and
  // Document::text() do, of the first document where one of them does.
  void add(Document document);
  // The rest.
  void finish();

 private:
  const Tokenizer& tokenizer_;
  Take take_;
  std::vector<Workspace> workspaces_;
  std::vector<Document> documents_;
  std::size_t bytes_ = 0;
};

}  // namespace trireme::text
