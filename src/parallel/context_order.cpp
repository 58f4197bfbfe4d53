// Positions and parts of the orders of context parallelism.
// SPDX-License-Identifier: Apache-2.0
#include "parallel/context_order.hpp"

#include "base/error.hpp"

namespace trireme::parallel {

std::string_view name_of(ContextOrder order) {
  return order == ContextOrder::zigzag ? "zigzag" : "contiguous";
}

std::int64_t context_unit(ContextOrder order, int ranks) {
  return order == ContextOrder::zigzag ? 2 * std::int64_t{ranks} : ranks;
}

std::vector<Range> context_chunks(ContextOrder order, std::int64_t sequence, int ranks,
                                  int rank) {
  const std::int64_t unit = context_unit(order, ranks);
  require(
      sequence % unit == 0,
      "a sequence of {} positions cannot be dealt in {} order to {} ranks: it must be "
      "a multiple of {}",
      sequence, name_of(order), ranks, unit);
  if (order == ContextOrder::contiguous) return {split_range(sequence, unit, rank)};
  return {split_range(sequence, unit, rank),
          split_range(sequence, unit, unit - 1 - rank)};
}

std::vector<std::int64_t> context_positions(ContextOrder order, std::int64_t sequence,
                                            int ranks, int rank) {
  std::vector<std::int64_t> positions;
  positions.reserve(static_cast<std::size_t>(sequence / ranks));
  for (const Range& chunk : context_chunks(order, sequence, ranks, rank))
    for (std::int64_t i = chunk.begin; i < chunk.end; ++i) positions.push_back(i);
  return positions;
}

std::optional<kernels::AttentionPart> visible_part(ContextOrder order, std::int64_t rows,
                                                   int rank, int source) {
  const Range all{0, rows};
  if (source == rank) return kernels::AttentionPart::whole(rows);
  if (order == ContextOrder::contiguous) {
    if (source > rank) return {};
    return kernels::AttentionPart{all, all};
  }
  const std::int64_t half = rows / 2;
  if (source < rank) return kernels::AttentionPart{all, {0, half}};
  return kernels::AttentionPart{{half, rows}, all};
}

}  // namespace trireme::parallel
