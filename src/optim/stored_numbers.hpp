// Stored numbers: weights, gradients and moments in types of little range.
// SPDX-License-Identifier: Apache-2.0
// Scales bring them into that range; here is the way to and from the arithmetic's type.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "base/device.hpp"
#include "base/memory.hpp"
#include "base/recipe.hpp"
#include "kernels/fp8.hpp"

namespace trireme::optim {

// fp16 and FP8 carry one scale for each tensor; other types are their own value.
constexpr bool has_scale(DType type) { return type == DType::f16 || is_fp8(type); }

// Why numbers of a class cannot be kept, or sent, as the recipe says; "" if they can.
std::string_view cannot_keep(const Recipe& recipe, TensorClass what);

// The least power of two s with amax <= s * the largest number of `type`: a stored number
// is value / s, which loses nothing but what rounding to the type loses. `previous` where
// amax is 0, infinite or NaN. Between 2^-100 and 2^100, so that every product with a code
// is a normal number of f32.
float power_scale(float amax, DType type, float previous);

// The same for numbers that are made anew each time, gradients and weights in use: 1 for
// amax = 0; NaN where amax is infinite or NaN, so that every number of the tensor is NaN
// and the gradient's norm, or the loss, tells.
float scale_or_nan(float amax, DType type);

// Scales, mostly one for each tensor, on the device for its kernels and on the host.
class Scales {
 public:
  Scales() = default;
  // All 1. Nothing, with at() = 1, for a type that needs none.
  Scales(Device device, DType type, std::size_t count, std::string_view label);

  bool empty() const { return values_.empty(); }
  float at(std::size_t tensor) const { return empty() ? 1.0f : values_[tensor]; }
  TensorView view(std::size_t tensor) const;  // [1] f32, on the device
  // Of `count` scales from one on.
  TensorView view(std::size_t first, std::int64_t count) const;
  void set(Stream& stream, std::size_t tensor, float scale);
  void set_all(Stream& stream, std::vector<float> scales);
  // Takes what was written on the device, by a checkpoint that was loaded.
  void receive(Stream& stream);
  std::size_t bytes() const { return memory_.bytes(); }

 private:
  Buffer memory_;
  std::vector<float> values_;
};

// values = codes * scale of the tensor, both dense and of one length; values f32, f64 or
// what modules compute in.
void decode(Stream& stream, const TensorView& codes, const Scales& scales,
            std::size_t tensor, const TensorView& values);
// codes = values / scale, rounded to nearest, saturating in FP8. `values` is unchanged,
// except for fp16 with a scale other than 1, where it is left scaled.
void encode(Stream& stream, const TensorView& values, const Scales& scales,
            std::size_t tensor, const TensorView& codes);

// The FP8 format of a type.
kernels::Fp8Format fp8_format(DType type);

// Largest |x| of the dense x; NaN if one is NaN. memory: [1] f32 on the device of x.
// Waits for the stream; on meta 0.
float amax_of(Stream& stream, const TensorView& x, const TensorView& memory);

// The same of the numbers that are finite, so that one that is not leaves the others
// their scale. x f32 or f64.
float finite_amax_of(Stream& stream, const TensorView& x, const TensorView& memory);

// Zeros in every element, of any type; a multiple of 32 elements.
void clear(Stream& stream, const TensorView& x);

// The first `elements` elements of the memory of `x` as another type.
TensorView memory_as(const TensorView& x, DType type, std::int64_t elements);

}  // namespace trireme::optim
