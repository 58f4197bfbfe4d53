// Batches of documents, shared out among threads one by one.
// SPDX-License-Identifier: Apache-2.0
#include "text/parallel_encoder.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <thread>

namespace trireme::text {
namespace {

constexpr std::size_t batch_bytes = std::size_t{8} << 20;

}  // namespace

ParallelEncoder::ParallelEncoder(const Tokenizer& tokenizer, int threads, Take take)
    : tokenizer_(tokenizer),
      take_(std::move(take)),
      workspaces_(static_cast<std::size_t>(std::max(threads, 1))) {}

void ParallelEncoder::add(std::string document) {
  bytes_ += document.size();
  documents_.push_back(std::move(document));
  if (bytes_ >= batch_bytes * workspaces_.size()) finish();
}

void ParallelEncoder::finish() {
  std::vector<std::vector<std::int32_t>> ids(documents_.size());
  std::vector<std::exception_ptr> errors(workspaces_.size());
  std::atomic<std::size_t> next{0};
  const auto work = [&](std::size_t thread) {
    try {
      for (std::size_t i = next++; i < documents_.size(); i = next++)
        tokenizer_.encode(documents_[i], false, ids[i], workspaces_[thread]);
    } catch (...) {
      errors[thread] = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 1; i < workspaces_.size(); ++i) threads.emplace_back(work, i);
    work(0);
  }
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
  for (const auto& document : ids) take_(document);
  documents_.clear();
  bytes_ = 0;
}

}  // namespace trireme::text
