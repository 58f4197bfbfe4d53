// The dynamic type of 8 bits: its numbers, bit for bit those of bitsandbytes.
// SPDX-License-Identifier: Apache-2.0
#include "base/code_book.hpp"

#include <algorithm>
#include <cmath>

namespace trireme {
namespace {

// Point i of `count` from 0.1 to 1, whose step is rounded first and which is counted from
// the nearer end.
float point(int i, int count) {
  constexpr float first = 0.1f, last = 1.0f;
  const float step = (last - first) / static_cast<float>(count - 1);
  if (i < count / 2)
    return static_cast<float>(static_cast<double>(first) + static_cast<double>(step) * i);
  return static_cast<float>(static_cast<double>(last) -
                            static_cast<double>(step) * (count - 1 - i));
}

DynamicMap make_map(bool has_sign) {
  constexpr int exponents = 7;
  DynamicMap map;
  float* to = map.numbers;
  for (int e = 0; e < exponents; ++e) {
    const int means = 1 << (has_sign ? e : e + 1);
    const auto scale = static_cast<float>(std::pow(10.0, e - exponents + 1));
    for (int i = 0; i < means; ++i) {
      const float mean = (point(i, means + 1) + point(i + 1, means + 1)) / 2.0f;
      *to++ = scale * mean;
      if (has_sign) *to++ = -(scale * mean);
    }
  }
  *to++ = 0.0f;
  *to++ = 1.0f;
  std::sort(map.numbers, to);
  return map;
}

}  // namespace

const DynamicMap& dynamic_map(DynamicType type) {
  static const DynamicMap with_sign = make_map(true), without_sign = make_map(false);
  return type == DynamicType::signed_numbers ? with_sign : without_sign;
}

}  // namespace trireme
