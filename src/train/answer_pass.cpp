// AnswerPass: samples are dealt out to the data ranks a microbatch at a time.
// SPDX-License-Identifier: Apache-2.0
#include "train/answer_pass.hpp"

#include <algorithm>

#include "base/split.hpp"
#include "engine/answer_sums.hpp"

namespace trireme::train {
namespace {

std::int64_t tokens_here(const config::RunConfig& config) {
  return config.batch.micro * config.model.sequence / config.parallel.mesh.context;
}

TensorView view_of(const Buffer& ids, std::int64_t i) {
  return ids.view().rows(i, 1).reshape({ids.view().dim(1)});
}

}  // namespace

AnswerPass::AnswerPass(const config::RunConfig& config, const io::SampleSource& source)
    : config_(config),
      source_(source),
      row_(source, config.model.sequence, engine::DocumentRule{{}, config.model.window}),
      answer_rows_(nullptr),
      ids_(Device::host(), DType::i32, {6, tokens_here(config)}, MemoryClass::data,
           "answers' tokens"),
      answers_(Device::host(), DType::f64,
               {nn::most_answers(config.batch.micro, config.model.sequence), 2},
               MemoryClass::data, "answers") {}

// The B samples from `first` on; rows that are left over in the last round have no
// target.
void AnswerPass::fill(std::int64_t first, std::int64_t samples,
                      const std::vector<std::int64_t>& positions) {
  std::ranges::fill(ids_.view().span<std::int32_t>(), 0);
  std::ranges::fill(view_of(ids_, 1).span<std::int32_t>(), io::ignore_index);
  const nn::Documents documents{view_of(ids_, 2), view_of(ids_, 3), view_of(ids_, 4)};
  answer_rows_.begin({view_of(ids_, 5), answers_.view()});
  for (std::int64_t row = 0; row < config_.batch.micro && first + row < samples; ++row) {
    const auto at = static_cast<std::size_t>(row) * positions.size();
    row_.read(first + row);
    row_.put(positions, at, view_of(ids_, 0).span<std::int32_t>(),
             view_of(ids_, 1).span<std::int32_t>(), &documents);
    answer_rows_.add(row_, positions, at);
  }
}

std::int64_t AnswerPass::rounds(std::int64_t samples) const {
  if (samples == 0 || samples > source_.samples()) samples = source_.samples();
  return divide_up(samples, samples_of_round());
}

AnswerTable AnswerPass::run(engine::Engine& engine, comm::Mesh& mesh,
                            std::int64_t samples, const std::function<void()>& beat,
                            const std::function<bool()>& stops) {
  if (samples == 0 || samples > source_.samples()) samples = source_.samples();
  return run(engine, mesh, samples, 0, rounds(samples), beat, stops);
}

AnswerTable AnswerPass::run_rounds(engine::Engine& engine, comm::Mesh& mesh,
                                   std::int64_t first, std::int64_t last,
                                   const std::function<void()>& beat) {
  return run(engine, mesh, source_.samples(), first, last, beat, [] { return false; });
}

AnswerTable AnswerPass::run(engine::Engine& engine, comm::Mesh& mesh,
                            std::int64_t samples, std::int64_t first, std::int64_t last,
                            const std::function<void()>& beat,
                            const std::function<bool()>& stops) {
  const std::int64_t B = config_.batch.micro;
  AnswerTable table;
  table.log_probabilities.resize(static_cast<std::size_t>(source_.answers()));
  table.tokens.resize(table.log_probabilities.size());
  // Of ranks that have the same answers, one writes them down.
  const bool writes = mesh.coordinate(comm::Axis::tensor) == 0 &&
                      mesh.coordinate(comm::Axis::context) == 0;
  const std::int64_t ranks = config_.parallel.mesh.data;
  // As many rounds on every rank, for ranks that share weights or experts work together.
  for (std::int64_t round = first; round < last; ++round) {
    beat();
    if (stops()) return {};
    fill((round * ranks + mesh.coordinate(comm::Axis::data)) * B, samples,
         engine.positions());
    const std::vector<double> values =
        engine.log_probabilities(view_of(ids_, 0), view_of(ids_, 1),
                                 {view_of(ids_, 2), view_of(ids_, 3), view_of(ids_, 4)},
                                 {view_of(ids_, 5), answers_.view()});
    if (!writes || values.empty()) continue;
    const auto places = answers_.view().span<double>();
    for (std::size_t g = 0; g < 2 * static_cast<std::size_t>(answer_rows_.pairs()); ++g) {
      const auto answer = static_cast<std::size_t>(2 * answer_rows_.pair(g / 2)) + g % 2;
      table.log_probabilities[answer] = values[g];
      table.tokens[answer] = places[2 * g + 1];
    }
  }
  engine::sum_answers(mesh, table.log_probabilities);
  engine::sum_answers(mesh, table.tokens);
  return table;
}

}  // namespace trireme::train
