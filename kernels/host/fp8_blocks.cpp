// FP8 by 128 x 128 blocks on the host.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/fp8_blocks.hpp"

#include <array>
#include <atomic>
#include <bit>

#include "kernels/host/rows.hpp"

namespace trireme::kernels::host {
namespace {

// f(block, begin, end) for pieces of the run that lie in one row of one block.
template <class F>
void for_pieces(const char* label, std::int64_t n, const TensorRun& run, const F& f) {
  for_ranges(label, n, elements_per_task, threads(),
             [&](std::int64_t begin, std::int64_t end) {
               while (begin < end) {
                 const std::int64_t stop = std::min(end, begin + run.together(begin));
                 f(run.block(begin), begin, stop);
                 begin = stop;
               }
             });
}

}  // namespace

void amax_of_blocks(Stream& /*stream*/, const TensorView& x_N, const TensorRun& run,
                    const TensorView& amaxes_S) {
  constexpr std::uint32_t infinity = 0x7f800000u;
  const auto* const x = x_N.data<float>();
  auto* const amaxes = static_cast<std::uint32_t*>(amaxes_S.raw());
  for_pieces("amax_of_blocks", x_N.elements(), run,
             [&](std::int64_t block, std::int64_t begin, std::int64_t end) {
               // Bits of numbers that are not negative are ordered as the numbers.
               std::uint32_t most = 0;
               for (std::int64_t i = begin; i < end; ++i)
                 most = std::max(most, std::bit_cast<std::uint32_t>(x[i]) & 0x7fffffffu);
               most = std::min(most, infinity);
               std::atomic_ref<std::uint32_t> amax(amaxes[block]);
               std::uint32_t seen = amax.load();
               while (seen < most && !amax.compare_exchange_weak(seen, most)) {
               }
             });
}

void encode_blocks(Stream& /*stream*/, const TensorView& x_N, const TensorRun& run,
                   Fp8Format format, const TensorView& scales_S,
                   const TensorView& codes_N) {
  const auto* const x = x_N.data<float>();
  const auto* const scales = scales_S.data<float>();
  auto* const codes = static_cast<std::uint8_t*>(codes_N.raw());
  for_pieces("encode_blocks", x_N.elements(), run,
             [&](std::int64_t block, std::int64_t begin, std::int64_t end) {
               const float inverse = 1.0f / scales[block];
               for (std::int64_t i = begin; i < end; ++i)
                 codes[i] = fp8_encode(x[i] * inverse, format);
             });
}

void decode_blocks(Stream& /*stream*/, const TensorView& codes_N, const TensorRun& run,
                   Fp8Format format, const TensorView& scales_S, const TensorView& y_N) {
  const auto* const codes = static_cast<const std::uint8_t*>(codes_N.raw());
  const auto* const scales = scales_S.data<float>();
  std::array<float, 256> values{};
  for (std::size_t code = 0; code < values.size(); ++code)
    values[code] = fp8_decode(static_cast<std::uint8_t>(code), format);
  visit_floating(y_N.dtype(), [&]<class T>(T) {
    auto* const y = y_N.data<T>();
    for_pieces("decode_blocks", y_N.elements(), run,
               [&](std::int64_t block, std::int64_t begin, std::int64_t end) {
                 for (std::int64_t i = begin; i < end; ++i)
                   y[i] = T(values[codes[i]] * scales[block]);
               });
  });
}

}  // namespace trireme::kernels::host
