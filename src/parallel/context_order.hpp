// How the positions of a sequence are dealt to the ranks of the context axis.
// SPDX-License-Identifier: Apache-2.0
// What attention each rank then computes follows from it.
// Legend: S positions of a sequence, n ranks, L = S / n rows of a sequence on a rank.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "kernels/attention.hpp"

namespace trireme::parallel {

// contiguous: rank r holds positions [r L, (r + 1) L). Of causal attention the last rank
//   then has the most to do. S must be a multiple of n.
// zigzag: the sequence is cut into 2 n chunks, and rank r holds chunks r and 2 n - 1 - r,
//   so that all ranks have the same to do. S must be a multiple of 2 n.
enum class ContextOrder : std::uint8_t { contiguous, zigzag };
std::string_view name_of(ContextOrder order);

// `sequence` must be a multiple of this.
std::int64_t context_unit(ContextOrder order, int ranks);

// The positions of rank `rank`'s rows of a sequence, as ascending ranges. Throws
// Error(internal) unless `sequence` is a multiple of context_unit().
std::vector<Range> context_chunks(ContextOrder order, std::int64_t sequence, int ranks,
                                  int rank);

// The same one by one, in the order of the rows.
std::vector<std::int64_t> context_positions(ContextOrder order, std::int64_t sequence,
                                            int ranks, int rank);

// What the queries of `rank` see of the keys of `source`, as rows of the two ranks' L
// rows; nothing if all those keys come later. One part always suffices: between two ranks
// of the zigzag order, either all queries see the first half of the keys, or the second
// half of the queries sees all keys. On its own keys a rank's part is causal, because
// rows are in the order of positions. new_queries and new_keys are set for that part.
std::optional<kernels::AttentionPart> visible_part(ContextOrder order, std::int64_t rows,
                                                   int rank, int source);

}  // namespace trireme::parallel
