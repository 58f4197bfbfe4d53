// CUDA's qualifiers, for a host compiler that knows none of them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#define __global__
#define __device__
#define __host__
#define __constant__
#define __grid_constant__
#define __launch_bounds__(...)
#define __shared__ static  // blocks run one at a time, so one copy serves them all
#define __forceinline__ __inline__ __attribute__((always_inline))
#define __align__(bytes) __attribute__((aligned(bytes)))
