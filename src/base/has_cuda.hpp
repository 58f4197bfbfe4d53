// What this build can compute on.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace trireme {

// Whether this build can compute on CUDA devices: real ones, or the emulated one of
// TRIREME_CUDA=EMULATED. Code for them stands behind `if constexpr (has_cuda)`, so that a
// build without them needs no stand-ins. For source files: what a header says must not
// depend on it.
inline constexpr bool has_cuda = TRIREME_HAS_CUDA != 0;

}  // namespace trireme
