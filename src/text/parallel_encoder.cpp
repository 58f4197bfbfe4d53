// Batches of documents, encoded by the thread that is free first.
// SPDX-License-Identifier: Apache-2.0
#include "text/parallel_encoder.hpp"

#include <algorithm>
#include <utility>

namespace trireme::text {
namespace {

constexpr std::size_t batch_bytes = std::size_t{256} << 10;
// What a document has in memory besides its text: its names, and a place for its tokens.
constexpr std::size_t document_bytes = 256;

}  // namespace

ParallelEncoder::ParallelEncoder(const Tokenizer& tokenizer, int threads, Take take)
    : tokenizer_(tokenizer),
      take_(std::move(take)),
      workspaces_(static_cast<std::size_t>(std::max(threads, 1))),
      open_(std::make_shared<Batch>()),
      work_(threads) {}

void ParallelEncoder::encode(Batch& batch, Workspace& workspace) const {
  batch.results.reserve(batch.documents.size());
  try {
    for (Document& document : batch.documents) {
      const std::string text = std::move(document).text();
      Batch::Result result;
      result.text_bytes = std::ssize(text);
      tokenizer_.encode(text, SpecialTokens::leave_out, result.ids, workspace);
      batch.results.push_back(std::move(result));
    }
  } catch (...) {
    batch.error = std::current_exception();
  }
}

void ParallelEncoder::add(Document document) {
  open_->bytes += document_bytes + document.bytes.size();
  open_->documents.push_back(std::move(document));
  if (open_->bytes >= batch_bytes) hand_over();
}

void ParallelEncoder::in_turn(std::function<void()> turn) {
  open_->bytes += document_bytes;
  open_->turns.push_back({open_->documents.size(), std::move(turn)});
  if (open_->bytes >= batch_bytes) hand_over();
}

void ParallelEncoder::add_file(const std::string& path,
                               const std::optional<std::string>& field) {
  try {
    read_documents(path, field, [this](Document document) { add(std::move(document)); });
  } catch (...) {
    finish();
    throw;
  }
}

void ParallelEncoder::finish() {
  hand_over();
  work_.finish();
}

void ParallelEncoder::hand_over() {
  const auto batch = std::exchange(open_, std::make_shared<Batch>());
  if (batch->documents.empty() && batch->turns.empty()) return;
  work_.add(batch->bytes, [this, batch](std::size_t thread) {
    encode(*batch, workspaces_[thread]);
    return [this, batch] { take(*batch); };
  });
}

void ParallelEncoder::take(const Batch& batch) const {
  auto turn = batch.turns.begin();
  const auto take_turns = [&](std::size_t document) {
    for (; turn != batch.turns.end() && turn->before <= document; ++turn) turn->run();
  };
  for (std::size_t i = 0; i < batch.results.size(); ++i) {
    take_turns(i);
    const Batch::Result& result = batch.results[i];
    if (result.text_bytes > 0) take_(result.ids, result.text_bytes);
  }
  take_turns(batch.results.size());
  if (batch.error) std::rethrow_exception(batch.error);
}

}  // namespace trireme::text
