// Batches of documents, encoded by the thread that is free first.
// SPDX-License-Identifier: Apache-2.0
#include "text/parallel_encoder.hpp"

#include <algorithm>
#include <utility>

namespace trireme::text {
namespace {

constexpr std::size_t batch_bytes = std::size_t{256} << 10;
constexpr std::size_t batches_of_a_thread = 4;  // under way at once

}  // namespace

ParallelEncoder::ParallelEncoder(const Tokenizer& tokenizer, int threads, Take take)
    : tokenizer_(tokenizer),
      take_(std::move(take)),
      workspaces_(static_cast<std::size_t>(std::max(threads, 1))) {
  if (workspaces_.size() == 1) return;
  for (Workspace& workspace : workspaces_)
    threads_.emplace_back([this, &workspace] { run(workspace); });
}

ParallelEncoder::~ParallelEncoder() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  more_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ParallelEncoder::encode(Batch& batch, Workspace& workspace) const {
  batch.results.reserve(batch.documents.size());
  try {
    for (Document& document : batch.documents) {
      const std::string text = std::move(document).text();
      Batch::Result result;
      result.text_bytes = std::ssize(text);
      tokenizer_.encode(text, false, result.ids, workspace);
      batch.results.push_back(std::move(result));
    }
  } catch (...) {
    batch.error = std::current_exception();
  }
}

// A thread's life.
void ParallelEncoder::run(Workspace& workspace) {
  std::unique_lock lock(mutex_);
  while (true) {
    more_.wait(lock, [this] { return stopping_ || next_ < under_way_.size(); });
    if (stopping_) return;
    Batch& batch = *under_way_[next_++];
    lock.unlock();
    encode(batch, workspace);
    lock.lock();
    batch.done = true;
    done_.notify_one();
  }
}

void ParallelEncoder::add(Document document) {
  open_.bytes += document.bytes.size();
  open_.documents.push_back(std::move(document));
  if (open_.bytes >= batch_bytes) hand_over();
}

void ParallelEncoder::finish() {
  if (!open_.documents.empty()) hand_over();
  take_done(0);
}

void ParallelEncoder::hand_over() {
  auto batch = std::make_unique<Batch>(std::exchange(open_, Batch()));
  if (threads_.empty()) {
    encode(*batch, workspaces_.front());
    return take(*batch);
  }
  {
    const std::lock_guard lock(mutex_);
    under_way_.push_back(std::move(batch));
  }
  more_.notify_one();
  take_done(batches_of_a_thread * threads_.size());
}

void ParallelEncoder::take_done(std::size_t most) {
  std::unique_lock lock(mutex_);
  while (!under_way_.empty()) {
    if (under_way_.size() > most)
      done_.wait(lock, [this] { return under_way_.front()->done; });
    if (!under_way_.front()->done) return;
    const std::unique_ptr<Batch> batch = std::move(under_way_.front());
    under_way_.pop_front();
    --next_;
    lock.unlock();
    take(*batch);
    lock.lock();
  }
}

void ParallelEncoder::take(const Batch& batch) const {
  for (const Batch::Result& result : batch.results)
    if (result.text_bytes > 0) take_(result.ids, result.text_bytes);
  if (batch.error) std::rethrow_exception(batch.error);
}

}  // namespace trireme::text
