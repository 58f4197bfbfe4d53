// Dropout: numbers set to zero at random, the same ones on every mesh.
// SPDX-License-Identifier: Apache-2.0
// Legend: T tokens here, D width.
#pragma once

#include <cstdint>

#include "base/device.hpp"
#include "base/tensor_view.hpp"

namespace trireme::kernels {

// What the mask belongs to. Token t of this call is number t + first_token of the
// microbatch, whose sequences have `here` positions on this rank, of `sequence`. Its row
// in the run is (first_sequence + (t + first_token) / here) sequence + positions_T[t].
struct DropoutKey {
  std::uint64_t seed = 0;
  std::uint64_t stream = 0;         // a layer and a use
  std::int64_t first_sequence = 0;  // of the microbatch, counted through all steps
  std::int64_t first_token = 0, here = 1, sequence = 1;
  // Column j of this call is number j + first_column of `columns`; 0: it has them all.
  std::int64_t first_column = 0, columns = 0;
  // f64 [1] in the memory of the device that computes, or empty: where a kernel reads
  // first_sequence when it runs, so that it may be another one each time work is run that
  // was recorded once.
  TensorView first_sequence_1{};
};

// y_TD (written; may be x_TD) = x_TD / (1 - rate) where it is kept, else 0. An element is
// dropped where 32 random bits of (seed, stream, row, column) are below rate 2^32: the
// same decision on every device. positions_T (i32): of each token in its whole sequence.
// rate in [0, 1). The adjoint is the same call on the gradient.
// Source: Srivastava et al., "Dropout", 2014.
void dropout(Stream& stream, const DropoutKey& key, double rate,
             const TensorView& positions_T, const TensorView& x_TD,
             const TensorView& y_TD);

}  // namespace trireme::kernels
