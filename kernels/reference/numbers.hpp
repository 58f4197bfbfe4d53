// Numbers in double and what rounding to a type may do to them.
// SPDX-License-Identifier: Apache-2.0
// Tests and the self-test compare with the oracle by them.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/dtype.hpp"

namespace trireme::kernels::reference {

using Vector = std::vector<double>;

// Half the distance from 1 to the next number: the relative error of one rounding.
constexpr double roundoff(DType dtype) {
  switch (dtype) {
    case DType::f64: return 0x1p-53;
    case DType::f32: return 0x1p-24;
    case DType::f16: return 0x1p-11;
    case DType::e4m3: return 0x1p-4;
    case DType::e5m2: return 0x1p-3;
    default: return 0x1p-8;
  }
}

// The error of storing `x`: of a normal number, or half the spacing of subnormal halves.
inline double storing(DType dtype, double x) {
  return 1.01 * roundoff(dtype) * std::abs(x) + (dtype == DType::f16 ? 0x1p-25 : 0.0);
}

inline double largest(const Vector& v) {
  double most = 0;
  for (const double x : v) most = std::max(most, std::abs(x));
  return most;
}

inline double norm(const Vector& v) {
  double sum = 0;
  for (const double x : v) sum += x * x;
  return std::sqrt(sum);
}

// b is repeated.
inline Vector added(Vector a, const Vector& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] += b[i % b.size()];
  return a;
}

// `x` as a tensor of the type holds it.
inline Vector rounded(DType dtype, Vector values) {
  visit_floating(dtype, [&]<class T>(T) {
    for (double& x : values)
      x = static_cast<double>(
          static_cast<Accumulator<T>>(T(static_cast<Accumulator<T>>(x))));
  });
  return values;
}

}  // namespace trireme::kernels::reference
