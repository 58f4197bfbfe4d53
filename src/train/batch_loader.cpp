// BatchLoader: prepares the batches of the next steps in a thread of its own.
// SPDX-License-Identifier: Apache-2.0
// Shapes: B sequences of a microbatch, S tokens of a sequence, P of them here, T = B * P.
#include "train/batch_loader.hpp"

#include <algorithm>
#include <chrono>
#include <numeric>

#include "base/error.hpp"
#include "base/thread_signals.hpp"

namespace trireme::train {
namespace {

BatchLoaderConfig checked(BatchLoaderConfig c) {
  if (c.positions.empty()) {
    c.positions.resize(static_cast<std::size_t>(c.sequence));
    std::iota(c.positions.begin(), c.positions.end(), 0);
  }
  require(c.micro >= 1 && c.microbatches >= 1 && c.sequence >= 1 && c.first_step >= 1,
          "a batch of {} microbatches of {} sequences of {} from step {}", c.microbatches,
          c.micro, c.sequence, c.first_step);
  require(c.data_rank >= 0 && c.data_rank < c.data_ranks, "data rank {} of {}",
          c.data_rank, c.data_ranks);
  require(c.global == c.micro * c.microbatches * c.data_ranks,
          "batch.global = {} is not {} sequences x {} microbatches x {} data ranks",
          c.global, c.micro, c.microbatches, c.data_ranks);
  if (c.stages.empty()) c.stages = config::batch_stages(c.global, c.sequence, {}, {});
  for (const config::BatchStage& stage : c.stages)
    require(stage.global % (c.micro * c.data_ranks) == 0 && stage.global <= c.global,
            "a stage of {} sequences in a batch of {}", stage.global, c.global);
  return c;
}

}  // namespace

std::int64_t sequence_of(const BatchLoaderConfig& config, std::int64_t microbatch,
                         std::int64_t row) {
  return (microbatch * config.data_ranks + config.data_rank) * config.micro + row;
}

BatchLoader::BatchLoader(const io::SampleSource& source, const BatchLoaderConfig& config)
    : config_(checked(config)),
      order_(source, config.seed),
      memory_(Device::host(), DType::i32,
              {ring_size, config.documents ? 5 : 2, config.microbatches,
               config.micro * static_cast<std::int64_t>(config_.positions.size())},
              MemoryClass::data, "batches"),
      row_(source, config.sequence, config.documents) {
  const std::int64_t tokens_T = memory_.view().dim(3);
  const auto rows =
      memory_.view().reshape({memory_.view().elements() / tokens_T, tokens_T});
  std::int64_t row = 0;
  const auto next = [&] { return rows.rows(row++, 1).reshape({tokens_T}); };
  for (auto& batch : ring_) {
    for (auto* views : {&batch.inputs, &batch.targets})
      for (std::int64_t m = 0; m < config.microbatches; ++m) views->push_back(next());
    for (std::int64_t m = 0; config.documents && m < config.microbatches; ++m)
      batch.documents.push_back({next(), next(), next()});
  }
  whole_ = ring_;
  thread_ = std::thread([this] {
    use_signal_stack();
    work();
  });
}

BatchLoader::~BatchLoader() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

const engine::Batch& BatchLoader::next() {
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
    engine::Batch& batch = slot(number);
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

void BatchLoader::fill(engine::Batch& batch) {
  const auto& positions = config_.positions;
  const config::BatchStage& stage = config::stage_at(config_.stages, batch.step);
  const std::int64_t step_begin = stage.sequence_of(batch.step);
  const std::int64_t cut = stage.sequence < config_.sequence ? stage.sequence : 0;
  const std::int64_t microbatches = stage.global / (config_.micro * config_.data_ranks);
  if (std::ssize(batch.inputs) != microbatches) {
    const engine::Batch& whole = whole_[static_cast<std::size_t>(&batch - ring_.data())];
    batch.inputs.assign(whole.inputs.begin(), whole.inputs.begin() + microbatches);
    batch.targets.assign(whole.targets.begin(), whole.targets.begin() + microbatches);
    if (config_.documents)
      batch.documents.assign(whole.documents.begin(),
                             whole.documents.begin() + microbatches);
  }
  batch.valid_tokens = 0;
  for (std::int64_t m = 0; m < microbatches; ++m) {
    const auto number = static_cast<std::size_t>(m);
    for (std::int64_t row = 0; row < config_.micro; ++row) {
      const std::int64_t index = step_begin + sequence_of(config_, m, row);
      row_.read(order_.at(index).sample, cut);
      batch.valid_tokens +=
          row_.put(positions, static_cast<std::size_t>(row) * positions.size(),
                   batch.inputs[number].span<std::int32_t>(),
                   batch.targets[number].span<std::int32_t>(),
                   config_.documents ? &batch.documents[number] : nullptr);
    }
  }
}

}  // namespace trireme::train
