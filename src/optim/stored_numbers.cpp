// Stored numbers.
// SPDX-License-Identifier: Apache-2.0
#include "optim/stored_numbers.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/device_memory.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/quantize.hpp"

namespace trireme::optim {
namespace {

float largest_of(DType type) {
  return type == DType::f16 ? 65504.0f : kernels::fp8_max(fp8_format(type));
}

TensorView row_of(const TensorView& x) { return x.reshape({1, x.elements()}); }

kernels::Fp8Matrix codes_of(const TensorView& x, const TensorView& scale) {
  return {row_of(memory_as(x, DType::u8, x.elements())), fp8_format(x.dtype()),
          kernels::Fp8Scaling::tensor, scale};
}

constexpr std::string_view one_scale =
    "FP8 state and traffic have one scale for each tensor";

}  // namespace

kernels::Fp8Format fp8_format(DType type) {
  return type == DType::e5m2 ? kernels::Fp8Format::e5m2 : kernels::Fp8Format::e4m3;
}

std::string_view cannot_keep(const Recipe& recipe, TensorClass what) {
  const auto [type, scaling] = recipe[what];
  const DType weight = recipe[TensorClass::weight].type;
  const bool scaled_alone = scaling == Scaling::current || scaling == Scaling::delayed;
  switch (what) {
    case TensorClass::master:
      if (is_fp8(type)) return "master weights have 16 or more bits";
      return "";
    case TensorClass::weight_traffic:
      return type == weight ? "" : "weights travel in the type in which they are kept";
    case TensorClass::pipeline_traffic:
    case TensorClass::tensor_traffic:
      return recipe[what] == recipe[TensorClass::activation]
                 ? ""
                 : "activations travel in their own type";
    case TensorClass::gradient_traffic:
      if (type == DType::f16) return "fp16 gradients would overflow on their way";
      return is_fp8(type) && !scaled_alone ? one_scale : "";
    case TensorClass::weight:
      return is_fp8(type) && !scaled_alone && scaling != Scaling::blocks
                 ? "weights have one scale for each tensor, or for each 128 x 128"
                 : "";
    case TensorClass::moment1:
    case TensorClass::moment2:
      if (scaling == Scaling::dynamic)
        return accumulator_of(recipe[TensorClass::activation].type) == DType::f32 &&
                       recipe[TensorClass::moment1] == recipe[TensorClass::moment2]
                   ? ""
                   : "the dynamic type is for both moments, with sums in fp32";
      [[fallthrough]];
    case TensorClass::gradient:
    case TensorClass::gradient_sum: return is_fp8(type) && !scaled_alone ? one_scale : "";
    default: return "";
  }
}

float power_scale(float amax, DType type, float previous) {
  if (!(amax > 0.0f) || std::isinf(amax)) return previous;
  int exponent = 0;
  const double mantissa = std::frexp(double{amax} / largest_of(type), &exponent);
  if (mantissa == 0.5) --exponent;
  return std::ldexp(1.0f, std::clamp(exponent, -100, 100));
}

float scale_or_nan(float amax, DType type) {
  if (!std::isfinite(amax)) return std::numeric_limits<float>::quiet_NaN();
  return power_scale(amax, type, 1.0f);
}

Scales::Scales(Device device, DType type, std::size_t count, std::string_view label) {
  if (!has_scale(type) || count == 0) return;
  memory_ = Buffer(device, DType::f32, {static_cast<std::int64_t>(count)},
                   MemoryClass::workspace, label);
  Stream stream(device);
  set_all(stream, std::vector<float>(count, 1.0f));
}

TensorView Scales::view(std::size_t tensor) const {
  return memory_.view().rows(static_cast<std::int64_t>(tensor), 1);
}

TensorView Scales::view(std::size_t first, std::int64_t count) const {
  return memory_.view().rows(static_cast<std::int64_t>(first), count);
}

void Scales::set(Stream& stream, std::size_t tensor, float scale) {
  if (values_[tensor] == scale) return;
  values_[tensor] = scale;
  if (!stream.device().is_meta()) kernels::fill(stream, view(tensor), scale);
}

void Scales::set_all(Stream& stream, std::vector<float> scales) {
  values_ = std::move(scales);
  if (stream.device().is_meta()) return;
  copy_bytes(stream, TensorView(values_.data(), DType::f32, memory_.view().shape()),
             memory_.view());
  stream.synchronize();
}

void Scales::receive(Stream& stream) {
  if (empty() || stream.device().is_meta()) return;
  copy_bytes(stream, memory_.view(),
             TensorView(values_.data(), DType::f32, memory_.view().shape()));
  stream.synchronize();
}

void decode(Stream& stream, const TensorView& codes, const Scales& scales,
            std::size_t tensor, const TensorView& values) {
  if (is_fp8(codes.dtype()))
    return kernels::dequantize(stream, codes_of(codes, scales.view(tensor)),
                               row_of(values));
  kernels::copy(stream, codes, values);
  if (scales.at(tensor) != 1.0f) kernels::scale(stream, values, scales.at(tensor));
}

void encode(Stream& stream, const TensorView& values, const Scales& scales,
            std::size_t tensor, const TensorView& codes) {
  if (is_fp8(codes.dtype()))
    return kernels::quantize(stream, row_of(values),
                             codes_of(codes, scales.view(tensor)));
  if (scales.at(tensor) != 1.0f) kernels::scale(stream, values, 1.0 / scales.at(tensor));
  kernels::copy(stream, values, codes);
}

float amax_of(Stream& stream, const TensorView& x, const TensorView& memory) {
  if (stream.device().is_meta()) return 0.0f;
  kernels::amax(stream, x, memory);
  float amax = 0.0f;
  copy_bytes(stream, memory, TensorView(&amax, DType::f32, {1}));
  stream.synchronize();
  return amax;
}

// What is not finite is rare: then the host looks for it.
float finite_amax_of(Stream& stream, const TensorView& x, const TensorView& memory) {
  const float all = amax_of(stream, x, memory);
  if (std::isfinite(all)) return all;
  const Buffer host(Device::host(), x.dtype(), x.shape(), MemoryClass::workspace,
                    "numbers that are not all finite");
  copy_bytes(stream, x, host.view());
  stream.synchronize();
  float amax = 0.0f;
  visit_floating(x.dtype(), [&]<class T>(T) {
    for (const T value : host.view().span<T>()) {
      const auto size = std::abs(static_cast<float>(static_cast<Accumulator<T>>(value)));
      if (std::isfinite(size)) amax = std::max(amax, size);
    }
  });
  return amax;
}

void clear(Stream& stream, const TensorView& x) {
  if (is_fp8(x.dtype()))
    return kernels::fill(stream, memory_as(x, DType::f32, x.elements() / 4), 0.0);
  kernels::fill(stream, x, 0.0);
}

TensorView memory_as(const TensorView& x, DType type, std::int64_t elements) {
  return TensorView(x.raw(), type, {elements}, x.device());
}

}  // namespace trireme::optim
