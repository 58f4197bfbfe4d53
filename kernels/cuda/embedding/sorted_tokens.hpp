// Tokens sorted by the row of a table that they name.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/device.hpp"
#include "base/tensor_view.hpp"

namespace trireme::kernels::cuda {

// T pairs in ascending order of rows, tokens of one row in ascending order. The row is R
// for tokens that name none of [0, R): they come last.
struct SortedTokens {
  const std::uint32_t* row_T = nullptr;
  const std::int32_t* token_T = nullptr;
};

// Token t names row index_T[t] - first (index_T is i32). The pairs lie in the GPU's
// workspace, hence until it is asked for again. Async: nothing waits for the stream.
// Bytes of workspace that it takes for T tokens.
std::int64_t sort_tokens_workspace(std::int64_t T);
SortedTokens sort_tokens(Stream& stream, const TensorView& index_T, std::int64_t first,
                         std::int64_t R);

}  // namespace trireme::kernels::cuda
