// Cutting blocks into stages.
// SPDX-License-Identifier: Apache-2.0
#include "schedule/stage_cut.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "model/stage.hpp"

namespace trireme::schedule {
namespace {

// FLOPs of the head over those of one block.
double head_in_blocks(const model::ModelConfig& model) {
  model::ModelConfig without = model;
  without.vocabulary = 0;
  without.tie_embeddings = false;
  const double blocks = model::flops_per_token(without).full;
  const double all = model::flops_per_token(model).full;
  const double block =
      blocks / static_cast<double>(std::max<std::int64_t>(model.layers, 1));
  return block > 0 ? (all - blocks) / block : 0;
}

}  // namespace

std::int64_t most_stages(std::int64_t layers) { return layers + 2; }

bool fills_stages(std::span<const std::int64_t> counts) {
  if (counts.size() < 2) return true;
  const auto inner = counts.subspan(1, counts.size() - 2);
  return std::find(inner.begin(), inner.end(), 0) == inner.end();
}

std::vector<Range> cut_stages(const model::ModelConfig& model, int stages,
                              std::span<const std::int64_t> given) {
  require(stages <= most_stages(model.layers), "{} layers cannot fill {} stages",
          model.layers, stages);
  std::vector<std::int64_t> counts(given.begin(), given.end());
  if (counts.empty()) {
    counts.assign(static_cast<std::size_t>(stages), 1);
    if (model.layers < stages) counts.back() = 0;
    if (model.layers + 1 < stages) counts.front() = 0;
    std::vector<double> work(counts.size(), 1.0);
    if (stages > 1 && stages < model.layers) work.back() += head_in_blocks(model);
    for (std::int64_t layer = stages; layer < model.layers; ++layer) {
      const auto least = std::min_element(work.begin(), work.end()) - work.begin();
      counts[static_cast<std::size_t>(least)] += 1;
      work[static_cast<std::size_t>(least)] += 1.0;
    }
  }
  std::vector<Range> ranges;
  std::int64_t begin = 0;
  for (const std::int64_t count : counts) {
    ranges.push_back({begin, begin + count});
    begin += count;
  }
  require(static_cast<int>(ranges.size()) == stages && begin == model.layers &&
              fills_stages(counts),
          "{} stages of {} layers for a pipeline of {} stages and {} layers",
          ranges.size(), begin, stages, model.layers);
  return ranges;
}

}  // namespace trireme::schedule
