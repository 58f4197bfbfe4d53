// Codes of 4 and 8 bits in blocks on the host.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/block_codes.hpp"

#include <array>
#include <bit>

#include "base/block_scale.hpp"
#include "kernels/host/rows.hpp"

namespace trireme::kernels::host {
namespace {

// f(block, begin, end) for every block of n elements.
template <class F>
void for_blocks(const char* label, std::int64_t n, std::int64_t block, const F& f) {
  const std::int64_t grain = std::max<std::int64_t>(elements_per_task / block, 1);
  for_ranges(label, divide_up(n, block), grain, threads(),
             [&](std::int64_t first, std::int64_t last) {
               for (std::int64_t b = first; b < last; ++b)
                 f(b, b * block, std::min(n, (b + 1) * block));
             });
}

template <class T>
float as_float(T x) {
  return static_cast<float>(static_cast<Accumulator<T>>(x));
}

// The largest magnitude; bits of magnitudes are ordered as they are, NaN above all.
template <class T>
float largest_of(const T* x, std::int64_t n) {
  std::uint32_t most = 0;
  for (std::int64_t i = 0; i < n; ++i)
    most = std::max(most, std::bit_cast<std::uint32_t>(as_float(x[i])) & 0x7fffffffu);
  return std::bit_cast<float>(most);
}

// The scale of the block of x [begin, end), whose absmax is written.
template <class T>
BlockScale take_scale(const T* x, std::int64_t count, std::int64_t block, float& absmax) {
  const float most = largest_of(x, count);
  const BlockScale scale = block_scale(most, count == block);
  absmax = kept_absmax(scale, most);
  return scale;
}

}  // namespace

void encode_four_bits(Stream& /*stream*/, const TensorView& x_N, FourBitType type,
                      std::int64_t block, const TensorView& codes,
                      const TensorView& absmax_B) {
  const FourBitEncoder encoder = encoder_of(type);
  const auto zero = static_cast<std::uint8_t>(encoder.encode(0.0f));
  auto* const absmax = absmax_B.data<float>();
  auto* const bytes = codes.data<std::uint8_t>();
  visit_floating(x_N.dtype(), [&]<class T>(T) {
    const auto* const x = x_N.data<T>();
    for_blocks("encode_four_bits", x_N.elements(), block,
               [&](std::int64_t b, std::int64_t begin, std::int64_t end) {
                 const auto scale = take_scale(x + begin, end - begin, block, absmax[b]);
                 const auto code = [&](std::int64_t i) -> unsigned {
                   return i < end ? encoder.encode(scale.scaled(as_float(x[i]))) : zero;
                 };
                 for (std::int64_t i = begin; i < end; i += 2)
                   bytes[i / 2] = static_cast<std::uint8_t>(code(i) << 4 | code(i + 1));
               });
  });
}

void decode_four_bits(Stream& /*stream*/, const TensorView& codes,
                      const TensorView& absmax_B, FourBitType type, std::int64_t block,
                      const TensorView& y_N) {
  const CodeBook& book = book_of(type);
  const auto* const absmax = absmax_B.data<float>();
  const auto* const bytes = codes.data<std::uint8_t>();
  visit_floating(y_N.dtype(), [&]<class T>(T) {
    auto* const y = y_N.data<T>();
    for_blocks("decode_four_bits", y_N.elements(), block,
               [&](std::int64_t b, std::int64_t begin, std::int64_t end) {
                 std::array<T, 16> numbers{};
                 for (std::size_t code = 0; code < numbers.size(); ++code)
                   numbers[code] = T(book.numbers[code] * absmax[b]);
                 for (std::int64_t i = begin; i < end; i += 2) {
                   const unsigned two = bytes[i / 2];
                   y[i] = numbers[two >> 4];
                   if (i + 1 < end) y[i + 1] = numbers[two & 0xfu];
                 }
               });
  });
}

void encode_dynamic(Stream& /*stream*/, const TensorView& x_N, DynamicType type,
                    std::int64_t block, const TensorView& codes_N,
                    const TensorView& absmax_B) {
  const DynamicMap& map = dynamic_map(type);
  const auto* const x = x_N.data<float>();
  auto* const codes = codes_N.data<std::uint8_t>();
  auto* const absmax = absmax_B.data<float>();
  for_blocks("encode_dynamic", x_N.elements(), block,
             [&](std::int64_t b, std::int64_t begin, std::int64_t end) {
               const auto scale = take_scale(x + begin, end - begin, block, absmax[b]);
               for (std::int64_t i = begin; i < end; ++i)
                 codes[i] = static_cast<std::uint8_t>(map.encode(scale.scaled(x[i])));
             });
}

void decode_dynamic(Stream& /*stream*/, const TensorView& codes_N,
                    const TensorView& absmax_B, DynamicType type, std::int64_t block,
                    const TensorView& y_N) {
  const DynamicMap& map = dynamic_map(type);
  const auto* const codes = codes_N.data<std::uint8_t>();
  const auto* const absmax = absmax_B.data<float>();
  auto* const y = y_N.data<float>();
  for_blocks("decode_dynamic", y_N.elements(), block,
             [&](std::int64_t b, std::int64_t begin, std::int64_t end) {
               for (std::int64_t i = begin; i < end; ++i)
                 y[i] = map.numbers[codes[i]] * absmax[b];
             });
}

void decode_absmax(Stream& /*stream*/, const TensorView& codes_B,
                   const TensorView& nested_C, const TensorView& offset_1,
                   const TensorView& absmax_B) {
  const DynamicMap& map = dynamic_map(DynamicType::signed_numbers);
  const auto* const codes = codes_B.data<std::uint8_t>();
  const auto* const nested = nested_C.data<float>();
  const float offset = *offset_1.data<float>();
  auto* const absmax = absmax_B.data<float>();
  for_blocks("decode_absmax", absmax_B.elements(), dynamic_block,
             [&](std::int64_t b, std::int64_t begin, std::int64_t end) {
               for (std::int64_t i = begin; i < end; ++i)
                 absmax[i] = nested_absmax(map.numbers[codes[i]], nested[b], offset);
             });
}

void encode_absmax(Stream& stream, const TensorView& absmax_B, const TensorView& codes_B,
                   const TensorView& nested_C, const TensorView& offset_1) {
  const std::int64_t count = absmax_B.elements();
  auto* const absmax = absmax_B.data<float>();
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += absmax[i];
  const double n = std::max<double>(1, static_cast<double>(count));
  const auto offset = static_cast<float>(sum / n);
  *offset_1.data<float>() = offset;
  for (std::int64_t i = 0; i < count; ++i) absmax[i] -= offset;
  host::encode_dynamic(stream, absmax_B, DynamicType::signed_numbers, dynamic_block,
                       codes_B, nested_C);
  host::decode_absmax(stream, codes_B, nested_C, offset_1, absmax_B);
}

}  // namespace trireme::kernels::host
