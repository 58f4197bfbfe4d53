// ParallelEncoder: documents to tokens on several threads, in the documents' order.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "text/tokenizer.hpp"
#include "text/workspace.hpp"

namespace trireme::text {

class ParallelEncoder {
 public:
  using Take = std::function<void(const std::vector<std::int32_t>&)>;

  // take(ids) gets each document's tokens on the caller's thread. The tokenizer outlives
  // this object.
  ParallelEncoder(const Tokenizer& tokenizer, int threads, Take take);
  // Encodes when enough text has come together. Throws what encode() does.
  void add(std::string document);
  // The rest.
  void finish();

 private:
  const Tokenizer& tokenizer_;
  Take take_;
  std::vector<Workspace> workspaces_;
  std::vector<std::string> documents_;
  std::size_t bytes_ = 0;
};

}  // namespace trireme::text
