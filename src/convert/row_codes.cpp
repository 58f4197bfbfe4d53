// Codes of numbers: of 4 bits, int8 and E4M3, by blocks, groups and rows.
// SPDX-License-Identifier: Apache-2.0
#include "convert/row_codes.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/block_scale.hpp"
#include "base/coded_matrix.hpp"
#include "base/error.hpp"

namespace trireme::convert {
namespace {

constexpr float most_e4m3 = 448.0F, most_int8 = 127.0F;

// The nearest number of a type.
float rounded_to(DType type, float number) {
  if (type == DType::bf16) return static_cast<float>(BFloat16(number));
  return type == DType::f16 ? static_cast<float>(Float16(number)) : number;
}

// What compressed-tensors takes for a scale of 0: the distance from 1 to the next number.
float least_scale(DType type) {
  if (type == DType::bf16) return 0x1p-7F;
  return type == DType::f16 ? 0x1p-10F : 0x1p-23F;
}

}  // namespace

float largest_of(const float* numbers, std::int64_t count) {
  float most = 0;
  for (std::int64_t i = 0; i < count; ++i) most = std::max(most, std::abs(numbers[i]));
  return most;
}

float four_bit_codes(FourBitType type, const float* numbers, std::int64_t count,
                     bool whole, std::uint8_t* codes) {
  static const FourBitEncoder encoders[] = {encoder_of(FourBitType::nf4),
                                            encoder_of(FourBitType::fp4)};
  const FourBitEncoder& encoder = encoders[type == FourBitType::nf4 ? 0 : 1];
  const float most = largest_of(numbers, count);
  const BlockScale scale = block_scale(most, whole);
  for (std::int64_t i = 0; i < count; ++i)
    codes[i] = static_cast<std::uint8_t>(encoder.encode(scale.scaled(numbers[i])));
  return kept_absmax(scale, most);
}

float absmax_codes(std::span<const float> absmax, std::uint8_t* codes, float* nested) {
  const DynamicMap& map = dynamic_map(DynamicType::signed_numbers);
  double sum = 0;
  for (const float number : absmax) sum += number;
  const auto count = static_cast<std::int64_t>(absmax.size());
  const auto mean = static_cast<float>(sum / static_cast<double>(count));
  std::vector<float> rest;
  for (const float number : absmax) rest.push_back(number - mean);
  for (std::int64_t first = 0; first < count; first += nested_block) {
    const std::int64_t size = std::min(nested_block, count - first);
    const float most = largest_of(rest.data() + first, size);
    const BlockScale scale = block_scale(most, size == nested_block);
    nested[first / nested_block] = kept_absmax(scale, most);
    for (std::int64_t i = first; i < first + size; ++i)
      codes[i] = static_cast<std::uint8_t>(
          map.encode(scale.scaled(rest[static_cast<std::size_t>(i)])));
  }
  return mean;
}

float int8_codes(std::string_view tensor, const float* numbers, std::int64_t count,
                 std::uint8_t* codes) {
  const auto in_half = [&](std::int64_t i) {
    return static_cast<float>(Float16(numbers[i]));
  };
  float most = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const float number = in_half(i);
    require(std::isfinite(number), Status::bad_content,
            "'{}' has numbers that fp16 does not hold, which int8 begins with", tensor);
    most = std::max(most, std::abs(number));
  }
  const float inverse = most > 0 ? 1.0F / most * most_int8 : 0.0F;
  for (std::int64_t i = 0; i < count; ++i)
    codes[i] =
        static_cast<std::uint8_t>(static_cast<int>(std::nearbyint(in_half(i) * inverse)));
  return most;
}

float e4m3_codes(const float* numbers, std::int64_t count, DType type,
                 std::uint8_t* codes) {
  float scale = rounded_to(type, largest_of(numbers, count) / most_e4m3);
  if (scale == 0) scale = least_scale(type);
  for (std::int64_t i = 0; i < count; ++i)
    codes[i] = nearest_e4m3(rounded_to(type, numbers[i] / scale));
  return scale;
}

// The reciprocal is rounded before the product, as transformers has it. Numbers of a
// block whose inverse is infinite are too small for a scale of f32: they are zeros.
Fp8Scale fp8_scale(float absmax) {
  const float inverse = absmax > 0 ? 1.0F / absmax * most_e4m3 : 1.0F;
  if (!std::isfinite(inverse)) return {0.0F, 1.0F};
  return {inverse, 1.0F / inverse};
}

std::uint8_t Fp8Scale::code(float number) const { return nearest_e4m3(number * inverse); }

float int4_codes(const float* numbers, std::int64_t count, DType type,
                 std::int8_t* codes) {
  constexpr float half_range = 7.5F, least = -8.0F, most = 7.0F;
  float scale = rounded_to(type, largest_of(numbers, count) / half_range);
  if (scale == 0) scale = least_scale(type);
  for (std::int64_t i = 0; i < count; ++i) {
    const float number = rounded_to(type, numbers[i] / scale);
    codes[i] = static_cast<std::int8_t>(std::nearbyint(std::clamp(number, least, most)));
  }
  return scale;
}

}  // namespace trireme::convert
