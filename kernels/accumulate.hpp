// Whether a kernel writes its result or adds to it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace trireme::kernels {

enum class Accumulate : bool { no, yes };  // C = ..., C += ...

}  // namespace trireme::kernels
