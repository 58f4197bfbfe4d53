// How numbers of a block become codes, and codes numbers, for hosts and GPUs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/host_device.hpp"

namespace trireme {

// A block of zeros has no scale: this stands in its place.
inline constexpr float least_absmax = 1e-38f;

// What brings the numbers of a block into -1 to 1: whole blocks are multiplied by an
// inverse, and the rest behind the last whole one is divided, as bitsandbytes does.
struct BlockScale {
  float absmax = 0, inverse = 0;
  bool whole = true;

  TRIREME_HOST_DEVICE float scaled(float x) const {
    const float y = whole ? x * inverse : x / absmax;
    return y < -1.0f ? -1.0f : (y > 1.0f ? 1.0f : y);
  }
};

// Of a block whose largest magnitude is `absmax`.
TRIREME_HOST_DEVICE BlockScale block_scale(float absmax, bool whole) {
  const float most = absmax < least_absmax ? least_absmax : absmax;
  return {most, 1.0f / most, whole};
}

// What is kept of a block's largest magnitude: that of a whole block may be 0.
TRIREME_HOST_DEVICE float kept_absmax(const BlockScale& scale, float absmax) {
  return scale.whole ? absmax : scale.absmax;
}

// A largest magnitude that was quantized itself. Product and sum are rounded each: what
// is volatile, no compiler makes one operation of, as they do of a product in double,
// too.
TRIREME_HOST_DEVICE float nested_absmax(float number, float scale, float offset) {
#ifdef __CUDA_ARCH__
  return __fadd_rn(__fmul_rn(number, scale), offset);
#else
  const volatile float product = number * scale;
  return product + offset;
#endif
}

}  // namespace trireme
