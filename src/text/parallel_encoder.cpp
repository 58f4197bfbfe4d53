// Batches of documents, shared out among threads one by one.
// SPDX-License-Identifier: Apache-2.0
#include "text/parallel_encoder.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <functional>
#include <thread>

namespace trireme::text {
namespace {

constexpr std::size_t batch_bytes = std::size_t{8} << 20;

}  // namespace

ParallelEncoder::ParallelEncoder(const Tokenizer& tokenizer, int threads, Take take)
    : tokenizer_(tokenizer),
      take_(std::move(take)),
      workspaces_(static_cast<std::size_t>(std::max(threads, 1))) {}

void ParallelEncoder::add(Document document) {
  bytes_ += document.bytes.size();
  documents_.push_back(std::move(document));
  if (bytes_ >= batch_bytes * workspaces_.size()) finish();
}

void ParallelEncoder::finish() {
  struct Result {
    std::vector<std::int32_t> ids;
    std::int64_t text_bytes = 0;
    std::exception_ptr error;
  };
  std::vector<Result> results(documents_.size());
  std::atomic<std::size_t> next{0};
  const auto work = [&](Workspace& workspace) {
    for (std::size_t i = next++; i < documents_.size(); i = next++) try {
        const std::string text = std::move(documents_[i]).text();
        results[i].text_bytes = std::ssize(text);
        tokenizer_.encode(text, false, results[i].ids, workspace);
      } catch (...) {
        results[i].error = std::current_exception();
        return;
      }
  };
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 1; i < workspaces_.size(); ++i)
      threads.emplace_back(work, std::ref(workspaces_[i]));
    work(workspaces_[0]);
  }
  for (const Result& result : results) {
    if (result.error) std::rethrow_exception(result.error);
    if (result.text_bytes > 0) take_(result.ids, result.text_bytes);
  }
  documents_.clear();
  bytes_ = 0;
}

}  // namespace trireme::text
