// Validation: sequences are dealt out to the data ranks a microbatch at a time.
// SPDX-License-Identifier: Apache-2.0
#include "train/validation.hpp"

#include <algorithm>
#include <chrono>

#include "base/log.hpp"
#include "train/answer_pass.hpp"

namespace trireme::train {
namespace {

void warn_of_no_targets() {
  log::warn(
      "this validation has no loss: none of its tokens is a target; look at the masks of "
      "data.validation_paths, or raise metrics.validate_sequences");
}

}  // namespace

Validation::Validation(const config::RunConfig& config, const engine::SampleRoute& route,
                       const io::OpenSource& open)
    : config_(config), route_(route) {
  if (config.metrics.validate_every == 0) {
    if (!config.validation.paths.empty())
      log::warn(
          "data.validation_paths is given, but nothing is validated: write "
          "metrics.validate_every = 100 or so");
    return;
  }
  source_ = open(config.validation);
  documents_ = engine::document_rule(config.validation, *source_, config.model.window);
  if (has_pairs()) return;  // AnswerPass has a microbatch of its own
  const std::int64_t S = config.model.sequence;
  row_.emplace(*source_, S, documents_);
  batch_ = Buffer(
      Device::host(), DType::i32,
      {(documents_ ? 5 : 2) * config.batch.micro * S / config.parallel.mesh.context},
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

// Where rows that are left over stand, all is one text.
nn::Documents Validation::documents_of(std::int64_t T) const {
  if (!documents_) return {};
  const TensorView all = batch_.view();
  return {all.rows(2 * T, T), all.rows(3 * T, T), all.rows(4 * T, T)};
}

// Inputs and targets of the B sequences from `first` on. Rows that are left over in the
// last round are ignored.
void Validation::fill(std::int64_t first, const std::vector<std::int64_t>& positions) {
  const auto P = static_cast<std::int64_t>(positions.size());
  const std::int64_t B = config_.batch.micro, T = B * P;
  const TensorView all = batch_.view();
  auto inputs = all.rows(0, T).span<std::int32_t>();
  auto targets = all.rows(T, T).span<std::int32_t>();
  const nn::Documents documents = documents_of(T);
  std::fill(inputs.begin(), inputs.end(), 0);
  std::fill(targets.begin(), targets.end(), io::ignore_index);
  for (const TensorView& view :
       {documents.positions_T, documents.starts_T, documents.window_starts_T})
    if (documents_) std::ranges::fill(view.span<std::int32_t>(), 0);
  for (std::int64_t row = 0; row < B && first + row < sequences(); ++row) {
    row_->read(first + row);
    row_->put(positions, static_cast<std::size_t>(row * P), inputs, targets, &documents);
  }
}

std::optional<Validation::Loss> Validation::run_pairs(
    engine::Engine& engine, comm::Mesh& mesh, const std::function<void()>& beat,
    const std::function<bool()>& stops) const {
  const AnswerTable answers =
      AnswerPass(config_, *source_)
          .run(engine, mesh, config_.metrics.validate_sequences, beat, stops);
  if (answers.tokens.empty()) return {};
  double loss = 0, right = 0, pairs = 0;
  const auto score = [&](std::size_t i) {
    return nn::AnswerScore{answers.log_probabilities[i], references_[i],
                           static_cast<std::int64_t>(answers.tokens[i])};
  };
  for (std::size_t i = 0; i < references_.size(); i += 2) {
    if (answers.tokens[i] == 0) continue;
    const nn::PairLoss pair = nn::pair_loss(config_.train.pairs, score(i), score(i + 1));
    loss += pair.loss;
    right += pair.rewards[0] > pair.rewards[1] ? 1 : 0;
    pairs += 1;
  }
  if (pairs == 0) {
    warn_of_no_targets();
    return {};
  }
  return Loss{.mean = loss / pairs, .right = right / pairs};
}

std::optional<Validation::Loss> Validation::run(engine::Engine& engine, comm::Mesh& mesh,
                                                const std::function<void()>& beat,
                                                const std::function<bool()>& stops) {
  const auto begin = std::chrono::steady_clock::now();
  if (has_pairs()) {
    std::optional<Loss> loss = run_pairs(engine, mesh, beat, stops);
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
    if (loss) loss->seconds = time.count();
    return loss;
  }
  const auto& positions = engine.positions();
  const std::int64_t B = config_.batch.micro;
  const std::int64_t T = B * static_cast<std::int64_t>(positions.size());
  const std::int64_t ranks = config_.parallel.mesh.data;
  double loss = 0, valid = 0;
  // As many rounds on every rank, for ranks that share weights or experts work together:
  // in the last one some may have nothing but ignored rows.
  for (std::int64_t round = 0; round * ranks * B < sequences(); ++round) {
    beat();
    if (stops()) return {};
    if (route_.reads())
      fill((round * ranks + mesh.coordinate(comm::Axis::data)) * B, positions);
    valid += static_cast<double>(route_.distribute(
        batch_.view(), [&] { return engine::targets_in(batch_.view().rows(T, T)); }));
    loss += engine.evaluate(batch_.view().rows(0, T), batch_.view().rows(T, T), {},
                            documents_of(T));
  }
  engine.totals().sum_validation(loss, valid);
  if (valid == 0) {
    warn_of_no_targets();
    return {};
  }
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
  return Loss{loss / valid, time.count()};
}

}  // namespace trireme::train
