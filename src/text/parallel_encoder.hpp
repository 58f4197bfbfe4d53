// ParallelEncoder: documents to tokens on several threads, in the documents' order.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "text/corpus.hpp"
#include "text/tokenizer.hpp"
#include "text/workspace.hpp"

namespace trireme::text {

// One thread encodes on the caller's. More encode beside it, while the caller reads
// further documents and takes what is done.
class ParallelEncoder {
 public:
  using Take =
      std::function<void(const std::vector<std::int32_t>& ids, std::int64_t text_bytes)>;

  // take() gets the tokens of each document that is not empty on the caller's thread. The
  // tokenizer outlives this object.
  ParallelEncoder(const Tokenizer& tokenizer, int threads, Take take);
  ParallelEncoder(const ParallelEncoder&) = delete;
  ParallelEncoder& operator=(const ParallelEncoder&) = delete;
  ~ParallelEncoder();

  // Encodes when enough text has come together. Throws what encode() and
  // Document::text() do, of the first document where one of them does, after take() got
  // those before it; nothing can be added then.
  void add(Document document);
  // The rest.
  void finish();

 private:
  // Documents that one thread encodes, and their tokens.
  struct Batch {
    struct Result {
      std::vector<std::int32_t> ids;
      std::int64_t text_bytes = 0;
    };
    std::vector<Document> documents;
    std::size_t bytes = 0;
    std::vector<Result> results;  // of the documents before the first that throws
    std::exception_ptr error;     // what that one throws
    bool done = false;            // under mutex_
  };

  void encode(Batch& batch, Workspace& workspace) const;
  void run(Workspace& workspace);
  void hand_over();
  // Takes batches that are done, in their order, and waits for the first as long as more
  // than `most` are under way.
  void take_done(std::size_t most);
  void take(const Batch& batch) const;

  const Tokenizer& tokenizer_;
  Take take_;
  std::vector<Workspace> workspaces_;
  Batch open_;  // is being filled
  std::mutex mutex_;
  std::condition_variable more_, done_;
  std::deque<std::unique_ptr<Batch>> under_way_;  // under mutex_
  std::size_t next_ = 0;                          // of them that nobody encodes yet
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace trireme::text
