// Validation: sequences are dealt out to the data ranks a microbatch at a time.
// SPDX-License-Identifier: Apache-2.0
#include "train/validation.hpp"

#include <algorithm>
#include <chrono>

namespace trireme::train {

Validation::Validation(const config::RunConfig& config) : config_(config) {
  if (config.metrics.validate_every == 0) return;
  source_ = io::open_source(config.validation);
  const std::int64_t S = config.model.sequence;
  batch_ = Buffer(Device::host(), DType::i32,
                  {2 * config.batch.micro * S / config.parallel.mesh.context + S + 1},
                  MemoryClass::data, "validation batch");
}

bool Validation::due(std::int64_t step) const {
  const std::int64_t every = config_.metrics.validate_every;
  return every > 0 && (step == config_.run.steps || step % every == 0);
}

std::int64_t Validation::sequences() const {
  const std::int64_t all = source_->windows(), limit = config_.metrics.validate_sequences;
  return limit > 0 ? std::min(limit, all) : all;
}

// Inputs and targets of the B sequences from `first` on; returns the targets that count.
// Rows that are left over in the last round are ignored.
double Validation::fill(std::int64_t first, const std::vector<std::int64_t>& positions) {
  const auto P = static_cast<std::int64_t>(positions.size());
  const std::int64_t B = config_.batch.micro, T = B * P;
  const TensorView all = batch_.view();
  auto inputs = all.rows(0, T).span<std::int32_t>();
  auto targets = all.rows(T, T).span<std::int32_t>();
  auto sample = all.rows(2 * T, config_.model.sequence + 1).span<std::int32_t>();
  std::fill(inputs.begin(), inputs.end(), 0);
  std::fill(targets.begin(), targets.end(), -100);
  for (std::int64_t row = 0; row < B && first + row < sequences(); ++row) {
    source_->sample(first + row, sample);
    for (std::int64_t i = 0; i < P; ++i) {
      const auto p = static_cast<std::size_t>(positions[static_cast<std::size_t>(i)]);
      const auto at = static_cast<std::size_t>(row * P + i);
      inputs[at] = std::max(sample[p], 0);
      targets[at] = sample[p + 1];
    }
  }
  return static_cast<double>(
      std::count_if(targets.begin(), targets.end(), [](auto t) { return t >= 0; }));
}

Validation::Loss Validation::run(engine::Engine& engine, comm::Mesh& mesh,
                                 const std::function<void()>& beat) {
  const auto begin = std::chrono::steady_clock::now();
  const auto& positions = engine.positions();
  const std::int64_t B = config_.batch.micro;
  const std::int64_t T = B * static_cast<std::int64_t>(positions.size());
  const std::int64_t ranks = config_.parallel.mesh.data;
  double loss = 0, valid = 0;
  // As many rounds on every rank, for ranks that share weights or experts work together:
  // in the last one some may have nothing but ignored rows.
  for (std::int64_t round = 0; round * ranks * B < sequences(); ++round) {
    beat();
    valid += fill((round * ranks + mesh.coordinate(comm::Axis::data)) * B, positions);
    loss += engine.evaluate(batch_.view().rows(0, T), batch_.view().rows(T, T));
  }
  engine.totals().sum_validation(loss, valid);
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
  return {loss / std::max(valid, 1.0), time.count()};
}

}  // namespace trireme::train
