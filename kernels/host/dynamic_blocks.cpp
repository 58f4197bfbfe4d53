// The dynamic type by blocks of a tensor on the host.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/dynamic_blocks.hpp"

#include <atomic>
#include <bit>

#include "base/block_scale.hpp"
#include "kernels/host/rows.hpp"

namespace trireme::kernels::host {
namespace {

// f(block, begin, end) for pieces of the run that lie side by side in one block.
template <class F>
void for_pieces(const char* label, std::int64_t n, const TensorRun& run, const F& f) {
  for_ranges(
      label, n, elements_per_task, threads(), [&](std::int64_t begin, std::int64_t end) {
        while (begin < end) {
          const std::int64_t index = run.index(begin);
          const std::int64_t stop = std::min(
              end,
              begin + std::min(run.in_row(begin), dynamic_block - index % dynamic_block));
          f(index / dynamic_block, begin, stop);
          begin = stop;
        }
      });
}

}  // namespace

void absmax_of_run(Stream& /*stream*/, const TensorView& x_N, const TensorRun& run,
                   DynamicBlocks blocks, const TensorView& absmax_B) {
  constexpr std::uint32_t infinity = 0x7f800000u;
  const auto* const x = x_N.data<float>();
  auto* const absmax = static_cast<std::uint32_t*>(absmax_B.raw());
  for_pieces("absmax_of_run", x_N.elements(), run,
             [&](std::int64_t block, std::int64_t begin, std::int64_t end) {
               // Bits of numbers that are not negative are ordered as the numbers.
               std::uint32_t most = 0;
               for (std::int64_t i = begin; i < end; ++i)
                 most = std::max(most, std::bit_cast<std::uint32_t>(x[i]) & 0x7fffffffu);
               most = std::min(most, infinity);
               std::atomic_ref<std::uint32_t> at(absmax[block - blocks.first]);
               std::uint32_t seen = at.load();
               while (seen < most && !at.compare_exchange_weak(seen, most)) {
               }
             });
}

void encode_run(Stream& /*stream*/, const TensorView& x_N, const TensorRun& run,
                DynamicType type, DynamicBlocks blocks, const TensorView& absmax_B,
                const TensorView& codes_N) {
  const DynamicMap& map = dynamic_map(type);
  const auto* const x = x_N.data<float>();
  const auto* const absmax = absmax_B.data<float>();
  auto* const codes = codes_N.data<std::uint8_t>();
  for_pieces("encode_run", x_N.elements(), run,
             [&](std::int64_t block, std::int64_t begin, std::int64_t end) {
               const BlockScale scale =
                   block_scale(absmax[block - blocks.first], blocks.whole(block));
               for (std::int64_t i = begin; i < end; ++i)
                 codes[i] = static_cast<std::uint8_t>(map.encode(scale.scaled(x[i])));
             });
}

void decode_run(Stream& /*stream*/, const TensorView& codes_N, const TensorRun& run,
                DynamicType type, DynamicBlocks blocks, const TensorView& absmax_B,
                const TensorView& y_N) {
  const DynamicMap& map = dynamic_map(type);
  const auto* const codes = codes_N.data<std::uint8_t>();
  const auto* const absmax = absmax_B.data<float>();
  auto* const y = y_N.data<float>();
  for_pieces("decode_run", y_N.elements(), run,
             [&](std::int64_t block, std::int64_t begin, std::int64_t end) {
               const float most = absmax[block - blocks.first];
               for (std::int64_t i = begin; i < end; ++i)
                 y[i] = map.numbers[codes[i]] * most;
             });
}

}  // namespace trireme::kernels::host
