// ParallelEncoder: documents to tokens on several threads, in the documents' order.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "text/corpus.hpp"
#include "text/ordered_work.hpp"
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

  // Encodes when enough text has come together. Throws what encode() and
  // Document::text() do, of the first document where one of them does, after take() got
  // those before it; nothing can be added then, and finish() does nothing.
  void add(Document document);
  // Runs `turn` on the caller's thread, behind the take() of all documents added before
  // and before that of those added later: to say where documents belong that are taken
  // from then on. It may throw as take() may.
  void in_turn(std::function<void()> turn);
  // Adds the documents of a file (see read_documents). What cannot be read is thrown
  // behind all that was added before it, so that the first error is the one that is told.
  void add_file(const std::string& path, const std::optional<std::string>& field);
  // The rest.
  void finish();

 private:
  // Documents that one thread encodes, and their tokens.
  struct Batch {
    struct Result {
      std::vector<std::int32_t> ids;
      std::int64_t text_bytes = 0;
    };
    struct Turn {
      std::size_t before = 0;  // this document
      std::function<void()> run;
    };
    std::vector<Document> documents;
    std::vector<Turn> turns;
    std::size_t bytes = 0;
    std::vector<Result> results;  // of the documents before the first that throws
    std::exception_ptr error;     // what that one throws
  };

  void encode(Batch& batch, Workspace& workspace) const;
  void hand_over();
  void take(const Batch& batch) const;

  const Tokenizer& tokenizer_;
  Take take_;
  std::vector<Workspace> workspaces_;
  std::shared_ptr<Batch> open_;  // is being filled
  OrderedWork work_;
};

}  // namespace trireme::text
