// CodedMatrix: memory, and numbers of codes on the host.
// SPDX-License-Identifier: Apache-2.0
#include "base/coded_matrix.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/device_memory.hpp"
#include "base/split.hpp"

namespace trireme {
namespace {

float e4m3_number(unsigned code) {
  if ((code & 0x7fu) == 0x7fu) return std::numeric_limits<float>::quiet_NaN();
  const int exponent = static_cast<int>(code >> 3) & 15;
  const int mantissa = static_cast<int>(code & 7u) + (exponent > 0 ? 8 : 0);
  const float size =
      std::ldexp(static_cast<float>(mantissa), std::max(exponent, 1) - 7 - 3);
  return (code & 0x80u) != 0 ? -size : size;
}

float rounded(float x, DType type) {
  if (type == DType::bf16) return static_cast<float>(BFloat16(x));
  if (type == DType::f16) return static_cast<float>(Float16(x));
  return x;
}

}  // namespace

std::int64_t ScaleLayout::count(std::int64_t height, std::int64_t width) const {
  if (height == 0 || width == 0) return 0;
  const Row last = row(height - 1);
  return last.scale + (last.before + width - 1) / columns + 1;
}

OwnedCodes::OwnedCodes(Device device, CodeType type, const Shape& shape,
                       const ScaleLayout& layout, bool has_zeros, MemoryClass of) {
  const std::int64_t count = layout.count(shape[0], shape[1]);
  matrix.type = type;
  matrix.shape = shape;
  matrix.layout = layout;
  codes = Buffer(device, DType::u8, {shape[0], CodedMatrix::row_bytes(type, shape[1])},
                 of, "codes");
  scales = Buffer(device, DType::f32, {count}, of, "scales of codes");
  matrix.codes = codes.view();
  matrix.scales = scales.view();
  if (!has_zeros) return;
  zeros = Buffer(device, DType::f32, {count}, of, "zero points of codes");
  matrix.zeros = zeros.view();
}

OwnedCodes moved_to(Device device, OwnedCodes codes, MemoryClass of) {
  const CodedMatrix& from = codes.matrix;
  if (from.codes.device() == device) return codes;
  OwnedCodes to(device, from.type, from.shape, from.layout, !from.zeros.empty(), of);
  to.matrix.book = from.book;
  to.matrix.rounding = from.rounding;
  to.matrix.factor = from.factor;
  Stream stream(device);
  copy_bytes(stream, from.codes, to.matrix.codes);
  copy_bytes(stream, from.scales, to.matrix.scales);
  if (!from.zeros.empty()) copy_bytes(stream, from.zeros, to.matrix.zeros);
  return to;
}

std::uint8_t nearest_e4m3(float x) {
  constexpr float most = 448.0f;
  constexpr int least_exponent = -6, bias = 7, mantissa_bits = 3;
  if (std::isnan(x)) return 0x7f;
  const unsigned sign = std::signbit(x) ? 0x80u : 0u;
  const float size = std::min(std::abs(x), most);
  int exponent = 0;
  std::frexp(size, &exponent);  // size in [1/2, 1) times 2^exponent
  exponent = std::max(exponent - 1, least_exponent);
  // Of numbers below 2^-6 the code is the mantissa alone; one that rounds up to the next
  // power of two is the next code as well.
  const auto steps =
      static_cast<unsigned>(std::nearbyint(std::ldexp(size, mantissa_bits - exponent)));
  const unsigned below = static_cast<unsigned>(exponent - least_exponent)
                         << mantissa_bits;
  static_assert(bias + least_exponent == 1);
  return static_cast<std::uint8_t>(sign | (size > 0 ? below + steps : 0u));
}

const float* numbers_of(const CodedMatrix& matrix) {
  static const auto integers = [] {
    std::array<float, 256> all{};
    for (int i = 0; i < 256; ++i)
      all[static_cast<std::size_t>(i)] = static_cast<float>(i < 128 ? i : i - 256);
    return all;
  }();
  static const auto floats = [] {
    std::array<float, 256> all{};
    for (unsigned i = 0; i < 256; ++i) all[i] = e4m3_number(i);
    return all;
  }();
  if (matrix.type == CodeType::four_bits) return matrix.book.numbers;
  return matrix.type == CodeType::int8 ? integers.data() : floats.data();
}

void decode_columns(const CodedMatrix& m, std::int64_t i, std::int64_t begin,
                    std::int64_t count, float* out) {
  const auto* const codes =
      m.codes.data<std::uint8_t>() + i * CodedMatrix::row_bytes(m.type, m.shape[1]);
  const float* const numbers = numbers_of(m);
  const float* const scales = m.scales.data<float>();
  const float* const zeros = m.zeros.empty() ? nullptr : m.zeros.data<float>();
  const ScaleLayout::Row row = m.layout.row(i);
  const std::int64_t end = begin + count;
  for (std::int64_t j = begin; j < end;) {
    const std::int64_t block = (row.before + j) / m.layout.columns;
    const std::int64_t stop = std::min(end, (block + 1) * m.layout.columns - row.before);
    const float scale = scales[row.scale + block];
    const float zero = zeros == nullptr ? 0.0f : zeros[row.scale + block];
    for (; j < stop; ++j) {
      const unsigned byte = codes[m.type == CodeType::four_bits ? j / 2 : j];
      const unsigned code = m.type != CodeType::four_bits ? byte
                            : j % 2 == 0                  ? byte >> 4
                                                          : byte & 0xfu;
      *out++ = rounded((numbers[code] - zero) * scale, m.rounding) * m.factor;
    }
  }
}

void decode_row(const CodedMatrix& matrix, std::int64_t i, float* numbers) {
  decode_columns(matrix, i, 0, matrix.shape[1], numbers);
}

}  // namespace trireme
