// How instructions of compute capability 8.0 to 10.0 are told apart.
// SPDX-License-Identifier: Apache-2.0
// Derived from what nvdisasm 13.1 prints beside the bits: the lower 9 bits say what an
// instruction does, the 3 above them where its operands lie, and bits 73 to 75 how wide
// an access is.
#include "bench/roofline/mix.hpp"

#include <algorithm>
#include <numeric>

namespace trireme::bench {
namespace {

enum Operation : unsigned {
  fmnmx = 0x009,
  fmul = 0x020,
  fadd = 0x021,
  ffma = 0x023,
  fmnmx3 = 0x076,  // from 10.0 on
  dmul = 0x028,
  dadd = 0x029,
  dfma = 0x02b,
  ldsm = 0x03b,
  hmma = 0x03c,
  mufu = 0x108,
  bar = 0x11d,
  branch = 0x147,
  ld = 0x180,  // by a generic address
  ldg = 0x181,
  ldl = 0x183,
  lds = 0x184,
  st = 0x185,
  stg = 0x186,
  stl = 0x187,
  sts = 0x188,
  ldgsts = 0x1ae,
};

unsigned operation_of(const Instruction& i) { return i.low & 0x1ffu; }

// The field's values are U8, S8, U16, S16, 32, 64, 128 and 256 bits.
void count(const Instruction& i, Accesses& accesses) {
  constexpr std::array<std::size_t, 8> place = {0, 0, 1, 1, 2, 3, 4, 5};
  ++accesses.by_width[place[(i.high >> 9) & 7u]];
}

// Where a branch goes, in instructions from the one after it: bytes in bits 32 to 81
// before 9.0; from then on a quarter of them, in bits 34 to 81 and, lower, 16 to 23.
std::int64_t distance_of(const Instruction& i, int capability) {
  if (capability < 90) {
    const std::uint64_t bits = (i.low >> 32) | (i.high << 32);
    return static_cast<std::int64_t>(bits << 14) >> 14 >> 4;
  }
  const std::uint64_t bits = (i.low >> 34) << 8 | (i.high << 38) | ((i.low >> 16) & 0xff);
  return static_cast<std::int64_t>(bits << 8) >> 8 >> 2;
}

// A loop that only stores, zeros for instance, is seldom what a kernel does.
std::int64_t work_of(const Mix& mix, bool tensor) {
  return tensor ? mix.tensor : mix.loads.bytes();
}

}  // namespace

std::int64_t Accesses::count() const {
  return std::accumulate(by_width.begin(), by_width.end(), std::int64_t{0});
}
std::int64_t Accesses::bytes() const {
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < by_width.size(); ++i) sum += by_width[i] << i;
  return sum;
}
std::int64_t Accesses::of(std::int64_t bytes) const {
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < by_width.size(); ++i)
    if (std::int64_t{1} << i >= bytes) sum += by_width[i];
  return sum;
}

Mix mix_of(std::span<const Instruction> code) {
  Mix mix;
  for (const Instruction& i : code) {
    ++mix.instructions;
    switch (operation_of(i)) {
      case fmnmx:
      case fmnmx3:
      case fmul:
      case fadd:
      case ffma: ++mix.fp32; break;
      case dmul:
      case dadd:
      case dfma: ++mix.fp64; break;
      case mufu: ++mix.special; break;
      case hmma: ++mix.tensor; break;
      case ldsm: ++mix.matrix_loads; break;
      case ldgsts: ++mix.copies; break;
      case bar: ++mix.barriers; break;
      case ld:
      case ldg: count(i, mix.loads); break;
      case st:
      case stg: count(i, mix.stores); break;
      case lds: count(i, mix.shared_loads); break;
      case sts: count(i, mix.shared_stores); break;
      case ldl: count(i, mix.local_loads); break;
      case stl: count(i, mix.local_stores); break;
      default: break;
    }
  }
  return mix;
}

std::span<const Instruction> hot_loop(const KernelCode& kernel) {
  const std::span<const Instruction> all(kernel.code);
  std::vector<std::span<const Instruction>> loops;
  for (std::size_t at = 0; at < all.size(); ++at) {
    if (operation_of(all[at]) != branch) continue;
    const std::int64_t to =
        static_cast<std::int64_t>(at) + 1 + distance_of(all[at], kernel.capability);
    if (to < 0 || to >= static_cast<std::int64_t>(at)) continue;
    const auto begin = static_cast<std::size_t>(to);
    loops.push_back(all.subspan(begin, at + 1 - begin));
  }
  const bool tensor = mix_of(all).tensor > 0;
  std::int64_t most = 0;
  for (const auto& loop : loops) most = std::max(most, work_of(mix_of(loop), tensor));
  std::span<const Instruction> best = all;
  for (const auto& loop : loops) {
    const std::int64_t work = work_of(mix_of(loop), tensor);
    if (work > 0 && 2 * work >= most && loop.size() < best.size()) best = loop;
  }
  return best;
}

}  // namespace trireme::bench
