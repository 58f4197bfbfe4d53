// Codes of numbers: NF4 of blocks, int8 and E4M3 of rows.
// SPDX-License-Identifier: Apache-2.0
#include "convert/row_codes.hpp"

#include <algorithm>
#include <cmath>

#include "base/block_scale.hpp"
#include "base/coded_matrix.hpp"
#include "base/error.hpp"
#include "io/element_convert.hpp"

namespace trireme::convert {
namespace {

constexpr float most_e4m3 = 448.0F, most_int8 = 127.0F;

float largest_of(const float* numbers, std::int64_t count) {
  float most = 0;
  for (std::int64_t i = 0; i < count; ++i) most = std::max(most, std::abs(numbers[i]));
  return most;
}

}  // namespace

float nf4_codes(const float* numbers, std::int64_t count, bool whole,
                std::uint8_t* codes) {
  static const FourBitEncoder encoder = encoder_of(FourBitType::nf4);
  const float most = largest_of(numbers, count);
  const BlockScale scale = block_scale(most, whole);
  for (std::int64_t i = 0; i < count; ++i)
    codes[i] = static_cast<std::uint8_t>(encoder.encode(scale.scaled(numbers[i])));
  return kept_absmax(scale, most);
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
  const float most = largest_of(numbers, count);
  float scale = most > 0 ? most / most_e4m3 : 1.0F;
  std::uint64_t stored = 0;  // room for a number of any type
  io::convert_elements(&scale, DType::f32, &stored, type, 1);
  io::convert_elements(&stored, type, &scale, DType::f32, 1);
  for (std::int64_t i = 0; i < count; ++i)
    codes[i] = scale > 0 ? nearest_e4m3(numbers[i] / scale) : std::uint8_t{0};
  return scale;
}

}  // namespace trireme::convert
