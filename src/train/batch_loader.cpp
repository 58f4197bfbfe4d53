// BatchLoader: prepares the batches of the next steps in a thread of its own.
// SPDX-License-Identifier: Apache-2.0
// Shapes: B sequences of a microbatch, S tokens of a sequence, P of them here, T = B * P.
#include "train/batch_loader.hpp"

#include <algorithm>
#include <numeric>

#include "base/error.hpp"
#include "base/split.hpp"
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
  const std::int64_t turn = c.micro * c.data_ranks;
  require(c.global % c.micro == 0 && c.microbatches == divide_up(c.global, turn),
          "batch.global = {} is not {} sequences x {} microbatches x {} data ranks",
          c.global, c.micro, c.microbatches, c.data_ranks);
  if (c.stages.empty()) c.stages = config::batch_stages(c.global, c.sequence, {}, {});
  for (const config::BatchStage& stage : c.stages)
    require(
        stage.global % c.micro == 0 && stage.global >= turn && stage.global <= c.global,
        "a stage of {} sequences in a batch of {}", stage.global, c.global);
  return c;
}

std::int64_t views_of(const BatchLoaderConfig& config) {
  return 2 + (config.documents ? 3 : 0) + (config.references != nullptr ? 1 : 0);
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
              {ring_size, views_of(config), config.microbatches,
               config.micro * static_cast<std::int64_t>(config_.positions.size())},
              MemoryClass::data, "batches"),
      answers_(Device::host(), DType::f64,
               {ring_size, config.references != nullptr ? config.microbatches : 0,
                nn::most_answers(config.micro, config.sequence), 2},
               MemoryClass::data, "answers"),
      row_(source, config.sequence, config.documents),
      answer_rows_(config.references) {
  for (engine::Batch& batch : ring_) give_views(batch, memory_.view().dim(3));
  whole_ = ring_;
  if (!reads()) return;
  thread_ = std::thread([this] {
    use_signal_stack();
    work();
  });
}

void BatchLoader::give_views(engine::Batch& batch, std::int64_t tokens_T) {
  const TensorView all = memory_.view();
  const std::int64_t M = config_.microbatches, views = all.dim(1);
  const auto rows = all.reshape({all.elements() / tokens_T, tokens_T});
  const std::int64_t slot = &batch - ring_.data();
  std::int64_t row = slot * views * M;
  const auto next = [&] { return rows.rows(row++, 1).reshape({tokens_T}); };
  for (auto* tensors : {&batch.inputs, &batch.targets})
    for (std::int64_t m = 0; m < M; ++m) tensors->push_back(next());
  for (std::int64_t m = 0; config_.documents && m < M; ++m)
    batch.documents.push_back({next(), next(), next()});
  const std::int64_t G = answers_.view().dim(2);
  for (std::int64_t m = 0; config_.references != nullptr && m < M; ++m) {
    const TensorView places =
        answers_.view().reshape({ring_size * M, 2 * G}).rows(slot * M + m, 1);
    batch.answers.push_back({next(), places.reshape({G, 2})});
  }
}

BatchLoader::~BatchLoader() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

const engine::Batch& BatchLoader::next() {
  if (reads()) {
    engine::Batch& batch = take();
    if (config_.route != nullptr) distribute(batch);
    return batch;
  }
  engine::Batch& batch = slot(taken_);
  batch.step = config_.first_step + taken_++;
  shape(batch);
  distribute(batch);
  return batch;
}

void BatchLoader::distribute(engine::Batch& batch) const {
  const std::int64_t number = &batch - ring_.data();
  const TensorView all = memory_.view();
  batch.valid_tokens = config_.route->distribute(
      all.reshape({ring_size, all.elements() / ring_size}).rows(number, 1), [&] {
        std::int64_t targets = 0;
        for (const TensorView& targets_of_microbatch : batch.targets)
          targets += engine::targets_in(targets_of_microbatch);
        return targets;
      });
}

engine::Batch& BatchLoader::take() {
  std::unique_lock lock(mutex_);
  released_ = taken_;
  changed_.notify_all();
  changed_.wait(lock, [&] { return filled_ > taken_ || error_ != nullptr; });
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

// All but the tokens of the batch of batch.step. Returns how many of its microbatches are
// no stand-ins.
std::int64_t BatchLoader::shape(engine::Batch& batch) {
  const config::BatchStage& stage = config::stage_at(config_.stages, batch.step);
  const std::int64_t turn = config_.micro * config_.data_ranks;
  const std::int64_t microbatches = divide_up(stage.global, turn);
  if (std::ssize(batch.inputs) != microbatches) {
    const engine::Batch& whole = whole_[static_cast<std::size_t>(&batch - ring_.data())];
    batch.inputs.assign(whole.inputs.begin(), whole.inputs.begin() + microbatches);
    batch.targets.assign(whole.targets.begin(), whole.targets.begin() + microbatches);
    if (config_.documents)
      batch.documents.assign(whole.documents.begin(),
                             whole.documents.begin() + microbatches);
    if (config_.references != nullptr)
      batch.answers.assign(whole.answers.begin(), whole.answers.begin() + microbatches);
  }
  batch.valid_tokens = batch.pairs = 0;
  batch.stand_ins = (microbatches * turn - stage.global) / config_.micro;
  batch.ends_with_stand_in = config_.data_rank >= config_.data_ranks - batch.stand_ins;
  return microbatches - (batch.ends_with_stand_in ? 1 : 0);
}

void BatchLoader::fill(engine::Batch& batch) {
  const config::BatchStage& stage = config::stage_at(config_.stages, batch.step);
  const std::int64_t step_begin = stage.sequence_of(batch.step);
  const std::int64_t cut = stage.sequence < config_.sequence ? stage.sequence : 0;
  const std::int64_t own = shape(batch);
  for (std::int64_t m = 0; m < own; ++m) fill_microbatch(batch, m, step_begin, cut);
  if (batch.ends_with_stand_in) stand_in(batch);
}

// Adds what counts of it.
void BatchLoader::fill_microbatch(engine::Batch& batch, std::int64_t m,
                                  std::int64_t step_begin, std::int64_t cut) {
  const auto& positions = config_.positions;
  const auto number = static_cast<std::size_t>(m);
  if (config_.references != nullptr) answer_rows_.begin(batch.answers[number]);
  for (std::int64_t row = 0; row < config_.micro; ++row) {
    const std::int64_t index = step_begin + sequence_of(config_, m, row);
    row_.read(order_.at(index).sample, cut);
    batch.valid_tokens +=
        row_.put(positions, static_cast<std::size_t>(row) * positions.size(),
                 batch.inputs[number].span<std::int32_t>(),
                 batch.targets[number].span<std::int32_t>(),
                 config_.documents ? &batch.documents[number] : nullptr);
    if (config_.references != nullptr)
      answer_rows_.add(row_, positions, static_cast<std::size_t>(row) * positions.size());
  }
  // Ranks that share sequences have the same pairs: one of them counts.
  if (config_.references != nullptr && positions.front() == 0)
    batch.pairs += answer_rows_.pairs();
}

// The last microbatch repeats the first, which spreads over experts as texts do, without
// targets.
void BatchLoader::stand_in(engine::Batch& batch) {
  const auto repeat = [](const TensorView& from, const TensorView& to) {
    std::ranges::copy(from.span<std::int32_t>(), to.span<std::int32_t>().begin());
  };
  repeat(batch.inputs.front(), batch.inputs.back());
  std::ranges::fill(batch.targets.back().span<std::int32_t>(), io::ignore_index);
  if (config_.references != nullptr) answer_rows_.begin(batch.answers.back());
  if (!config_.documents) return;
  const nn::Documents &from = batch.documents.front(), &to = batch.documents.back();
  repeat(from.positions_T, to.positions_T);
  repeat(from.starts_T, to.starts_T);
  repeat(from.window_starts_T, to.window_starts_T);
}

}  // namespace trireme::train
