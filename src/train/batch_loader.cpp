// BatchLoader: prepares the batches of the next steps in a thread of its own.
// SPDX-License-Identifier: Apache-2.0
// Shapes: B sequences of a microbatch, S tokens of a sequence, T = B * S.
#include "train/batch_loader.hpp"

#include <algorithm>
#include <chrono>

#include "base/error.hpp"
#include "train/sample_order.hpp"

namespace trireme::train {
namespace {

const BatchLoaderConfig& checked(const BatchLoaderConfig& c) {
  require(c.micro >= 1 && c.microbatches >= 1 && c.sequence >= 1 && c.first_step >= 1,
          "a batch of {} microbatches of {} sequences of {} from step {}", c.microbatches,
          c.micro, c.sequence, c.first_step);
  require(c.data_rank >= 0 && c.data_rank < c.data_ranks, "data rank {} of {}",
          c.data_rank, c.data_ranks);
  require(c.global == c.micro * c.microbatches * c.data_ranks,
          "batch.global = {} is not {} sequences x {} microbatches x {} data ranks",
          c.global, c.micro, c.microbatches, c.data_ranks);
  return c;
}

}  // namespace

std::int64_t sequence_of(const BatchLoaderConfig& config, std::int64_t microbatch,
                         std::int64_t row) {
  return (microbatch * config.data_ranks + config.data_rank) * config.micro + row;
}

BatchLoader::BatchLoader(const io::SampleSource& source, const BatchLoaderConfig& config)
    : source_(source),
      config_(checked(config)),
      memory_(Device::host(), DType::i32,
              {ring_size, 2, config.microbatches, config.micro * config.sequence},
              MemoryClass::data, "batches"),
      sample_(Device::host(), DType::i32, {config.sequence + 1}, MemoryClass::data,
              "sample") {
  const std::int64_t tokens_T = config.micro * config.sequence;
  const auto rows =
      memory_.view().reshape({ring_size * 2 * config.microbatches, tokens_T});
  std::int64_t row = 0;
  for (auto& batch : ring_)
    for (auto* views : {&batch.inputs, &batch.targets})
      for (std::int64_t m = 0; m < config.microbatches; ++m)
        views->push_back(rows.rows(row++, 1).reshape({tokens_T}));
  thread_ = std::thread([this] { work(); });
}

BatchLoader::~BatchLoader() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

const Batch& BatchLoader::next() {
  std::unique_lock lock(mutex_);
  released_ = taken_;
  changed_.notify_all();
  const auto ready = [&] { return filled_ > taken_ || error_ != nullptr; };
  if (!ready()) {
    const auto start = std::chrono::steady_clock::now();
    changed_.wait(lock, ready);
    seconds_waited_ +=
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  // Batches read before the error are still good.
  if (filled_ == taken_) std::rethrow_exception(error_);
  return slot(taken_++);
}

void BatchLoader::work() {
  for (std::int64_t number = 0;; ++number) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stopping_ || number < released_ + ring_size; });
      if (stopping_) return;
    }
    Batch& batch = slot(number);
    std::exception_ptr error;
    try {
      batch.step = config_.first_step + number;
      fill(batch);
    } catch (...) {
      error = std::current_exception();
    }
    const std::lock_guard lock(mutex_);
    error_ = error;
    if (!error_) filled_ = number + 1;
    changed_.notify_all();
    if (error_) return;
  }
}

void BatchLoader::fill(Batch& batch) {
  const auto S = static_cast<std::size_t>(config_.sequence);
  const auto tokens = sample_.view().span<std::int32_t>();
  const std::int64_t step_begin = (batch.step - 1) * config_.global;
  batch.valid_tokens = 0;
  for (std::int64_t m = 0; m < config_.microbatches; ++m) {
    const auto inputs_T = batch.inputs[static_cast<std::size_t>(m)].span<std::int32_t>();
    const auto targets_T =
        batch.targets[static_cast<std::size_t>(m)].span<std::int32_t>();
    for (std::int64_t row = 0; row < config_.micro; ++row) {
      const std::int64_t index = step_begin + sequence_of(config_, m, row);
      source_.sample(sample_at(config_.seed, index, source_.samples()), tokens);
      const auto begin = static_cast<std::size_t>(row) * S;
      // A missing token is negative, which no embedding has.
      std::transform(tokens.begin(), tokens.end() - 1, inputs_T.begin() + begin,
                     [](std::int32_t token) { return std::max(token, 0); });
      std::copy(tokens.begin() + 1, tokens.end(), targets_T.begin() + begin);
      batch.valid_tokens += std::count_if(tokens.begin() + 1, tokens.end(),
                                          [](std::int32_t token) { return token >= 0; });
    }
  }
}

}  // namespace trireme::train
