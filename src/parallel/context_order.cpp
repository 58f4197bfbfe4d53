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

std::vector<std::int64_t> context_positions(ContextOrder order, std::int64_t sequence,
                                            int ranks, int rank) {
  const std::int64_t unit = context_unit(order, ranks);
  require(
      sequence % unit == 0,
      "a sequence of {} positions cannot be dealt in {} order to {} ranks: it must be "
      "a multiple of {}",
      sequence, name_of(order), ranks, unit);
  const std::int64_t length = sequence / unit;
  std::vector<std::int64_t> positions;
  positions.reserve(static_cast<std::size_t>(sequence / ranks));
  const auto add_chunk = [&](std::int64_t chunk) {
    for (std::int64_t i = 0; i < length; ++i) positions.push_back(chunk * length + i);
  };
  add_chunk(rank);
  if (order == ContextOrder::zigzag) add_chunk(unit - 1 - rank);
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

std::int64_t context_pairs(ContextOrder order, std::int64_t sequence, int ranks,
                           int rank) {
  std::int64_t pairs = 0;
  for (int source = 0; source < ranks; ++source)
    if (const auto part = visible_part(order, sequence / ranks, rank, source))
      pairs += part->pairs();
  return pairs;
}

}  // namespace trireme::parallel
