// Where the rows that a rank's experts get arrive, in one exchange or in rounds.
// SPDX-License-Identifier: Apache-2.0
// Legend: P source ranks, L experts of this rank, M = L + 1, R rows.
#pragma once

#include <cstdint>

#include "base/device.hpp"
#include "base/split.hpp"
#include "base/tensor_view.hpp"

namespace trireme::kernels {

// Rows arrive sorted by source rank and then expert. Experts have them by expert and then
// source rank, and in that order each row has a place. rows_PL (i32): how many each
// source rank sends to each expert.

// places_PM (i32, written): the place where the rows of each rank for each expert begin,
// and in the last column of every rank that behind the last of all. A round has `bound`
// places, and ends within the rows of one rank for one expert only between blocks of
// `block` of them, for which places are left out.
void place_arrivals(Stream& stream, const TensorView& rows_PL, std::int64_t bound,
                    std::int64_t block, const TensorView& places_PM);

// order_R (i32, written): of each of the R rows, in the order of experts, where it lies
// among those that arrive. Without places_PM (empty) all rows arrive at once; with it
// those whose places are in `window`.
void order_arrivals(Stream& stream, const TensorView& rows_PL,
                    const TensorView& places_PM, Range window, const TensorView& order_R);

}  // namespace trireme::kernels
