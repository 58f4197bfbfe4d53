// Warp operations of the emulated CUDA against what NVIDIA documents.
// SPDX-License-Identifier: Apache-2.0
// Sources: the CUDA C++ Programming Guide and the PTX ISA.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <bit>
#include <cstdint>

#include "cuda_emulation/test_support.hpp"

namespace trireme::cuda_emulation {
namespace {

constexpr unsigned full = 0xffffffffu;
enum class Mode { idx, up, down, bfly };

// The PTX ISA's pseudocode of shfl.sync, with the operand c that CUDA's intrinsics give
// it.
unsigned source_by_ptx(Mode mode, unsigned lane, unsigned b, unsigned width) {
  const unsigned segment = (32 - width) & 31u, clamp = mode == Mode::up ? 0u : 31u;
  const unsigned most = (lane & segment) | (clamp & ~segment);
  const unsigned least = lane & segment;
  b &= 31u;
  unsigned j = 0;
  bool valid = false;
  switch (mode) {
    case Mode::up:
      j = lane - b;
      valid = static_cast<int>(j) >= static_cast<int>(most);
      break;
    case Mode::down:
      j = lane + b;
      valid = j <= most;
      break;
    case Mode::bfly:
      j = lane ^ b;
      valid = j <= most;
      break;
    case Mode::idx:
      j = least | (b & ~segment);
      valid = j <= most;
      break;
  }
  return valid ? j : lane;
}

template <class T>
__global__ void shuffle_all(Mode mode, int operand, int width, T* out) {
  const T value = static_cast<T>(100.0 + 3.0 * threadIdx.x);
  T result = value;
  switch (mode) {
    case Mode::idx: result = __shfl_sync(full, value, operand, width); break;
    case Mode::up:
      result = __shfl_up_sync(full, value, static_cast<unsigned>(operand), width);
      break;
    case Mode::down:
      result = __shfl_down_sync(full, value, static_cast<unsigned>(operand), width);
      break;
    case Mode::bfly: result = __shfl_xor_sync(full, value, operand, width); break;
  }
  out[threadIdx.x] = result;
}

template <class T>
void check_shuffles() {
  DeviceArray<T> out(32);
  for (const Mode mode : {Mode::idx, Mode::up, Mode::down, Mode::bfly}) {
    for (int width = 1; width <= 32; width *= 2) {
      for (const int operand : {0, 1, 2, 3, 5, 8, 16, 17, 31}) {
        run(shape(1, 32), shuffle_all<T>, mode, operand, width, out.data());
        const auto results = out.values();
        for (unsigned lane = 0; lane < 32; ++lane) {
          const unsigned source = source_by_ptx(
              mode, lane, static_cast<unsigned>(operand), static_cast<unsigned>(width));
          ASSERT_EQ(static_cast<double>(results[lane]), 100.0 + 3.0 * source)
              << "mode " << static_cast<int>(mode) << " width " << width << " operand "
              << operand << " lane " << lane;
        }
      }
    }
  }
}

TEST(Shuffle, ReadsTheLanesOfThePtxIsa) {
  check_shuffles<int>();
  check_shuffles<unsigned>();
  check_shuffles<float>();
}
TEST(Shuffle, MovesEightBytesAndHalves) {
  check_shuffles<double>();
  check_shuffles<long long>();
  check_shuffles<unsigned long long>();
  check_shuffles<__nv_bfloat16>();
  check_shuffles<__half>();
}

// A butterfly over the warp: the sum of 0..31 in every lane, in every warp, whatever the
// order.
__global__ void butterfly(float* out) {
  float sum = static_cast<float>(threadIdx.x % 32);
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(full, sum, step);
  out[threadIdx.x] = sum;
}
TEST(Shuffle, SumsAWarpInEveryOrder) {
  DeviceArray<float> out(96);
  for (const Order order : {forward, reversed, shuffled(1), shuffled(2)}) {
    const With with(order);
    run(shape(1, 96), butterfly, out.data());
    EXPECT_EQ(out.values(), std::vector<float>(96, 496.0f));
  }
}

// Lanes 0..15 read lane 20, which is not in their mask: undefined in CUDA.
__global__ void read_outside_mask(unsigned* out) {
  if (threadIdx.x < 16) out[threadIdx.x] = __shfl_sync(0xffffu, 7u, 20);
}
TEST(Shuffle, GivesAllOnesFromALaneThatTakesNoPart) {
  DeviceArray<unsigned> out(16);
  run(shape(1, 32), read_outside_mask, out.data());
  EXPECT_EQ(out.values(), std::vector<unsigned>(16, full));
}

// Both halves of the warp at different operations at the same time, then all together;
// after that the odd lanes end and the even ones go on with the full mask.
__global__ void halves(unsigned* out) {
  const unsigned lane = threadIdx.x;
  unsigned result = 0;
  if (lane < 16) {
    result = __shfl_xor_sync(0x0000ffffu, lane, 1);
  } else {
    result = __ballot_sync(0xffff0000u, lane % 3 == 0);
  }
  __syncwarp();
  out[lane] = result;
  if (lane % 2 == 1) return;
  out[lane + 32] = __ballot_sync(full, 1);
}
TEST(Vote, LanesMeetByMaskAndEndedLanesAreNotWaitedFor) {
  for (const Order order : {forward, reversed, shuffled(3)}) {
    const With with(order);
    DeviceArray<unsigned> out(64);
    run(shape(1, 32), halves, out.data());
    const auto results = out.values();
    unsigned ballot = 0;
    for (unsigned lane = 16; lane < 32; ++lane)
      ballot |= (lane % 3 == 0 ? 1u : 0u) << lane;
    for (unsigned lane = 0; lane < 32; ++lane) {
      EXPECT_EQ(results[lane], lane < 16 ? (lane ^ 1u) : ballot);
      if (lane % 2 == 0) {
        EXPECT_EQ(results[lane + 32], 0x55555555u);
      }
    }
  }
}

// Masks may overlap as long as no two lanes wait for each other: lane 16 waits for all at
// the second operation while lanes 0..15 are at the first.
__global__ void overlapping(unsigned* out) {
  unsigned sum = 0;
  if (threadIdx.x < 16) sum = __reduce_add_sync(0xffffu, threadIdx.x);
  out[threadIdx.x] = sum + __reduce_add_sync(full, 1u);
}
TEST(Vote, MasksMayOverlap) {
  for (const Order order : {forward, reversed, shuffled(4), shuffled(5)}) {
    const With with(order);
    DeviceArray<unsigned> out(32);
    run(shape(1, 32), overlapping, out.data());
    const auto results = out.values();
    for (unsigned lane = 0; lane < 32; ++lane) {
      EXPECT_EQ(results[lane], lane < 16 ? 152u : 32u);
    }
  }
}

__global__ void votes(unsigned bits, unsigned* out) {
  const int mine = static_cast<int>(bits >> threadIdx.x & 1u);
  const unsigned results[] = {
      __ballot_sync(full, mine), static_cast<unsigned>(__any_sync(full, mine)),
      static_cast<unsigned>(__all_sync(full, mine)), __activemask()};
  for (unsigned i = 0; i < 4; ++i) out[4 * threadIdx.x + i] = results[i];
}
TEST(Vote, BallotAnyAll) {
  DeviceArray<unsigned> out(128);
  for (const unsigned bits : {0u, 1u, 0x80000000u, 0x12345678u, full}) {
    run(shape(1, 32), votes, bits, out.data());
    const auto results = out.values();
    for (unsigned lane = 0; lane < 32; ++lane) {
      EXPECT_EQ(results[4 * lane], bits);
      EXPECT_EQ(results[4 * lane + 1], bits != 0 ? 1u : 0u);
      EXPECT_EQ(results[4 * lane + 2], bits == full ? 1u : 0u);
      EXPECT_EQ(results[4 * lane + 3], 1u << lane);  // the least that CUDA promises
    }
  }
}

__global__ void reductions(const int* x, int* out) {
  const int mine = x[threadIdx.x];
  const auto bits = static_cast<unsigned>(mine);
  const int results[] = {__reduce_add_sync(full, mine),
                         __reduce_min_sync(full, mine),
                         __reduce_max_sync(full, mine),
                         static_cast<int>(__reduce_min_sync(full, bits)),
                         static_cast<int>(__reduce_max_sync(full, bits)),
                         static_cast<int>(__reduce_and_sync(full, bits)),
                         static_cast<int>(__reduce_or_sync(full, bits)),
                         static_cast<int>(__reduce_xor_sync(full, bits)),
                         static_cast<int>(__match_any_sync(full, bits % 5))};
  for (unsigned i = 0; i < 9; ++i) out[9 * threadIdx.x + i] = results[i];
}
TEST(Reduce, AllOperations) {
  std::vector<int> x(32);
  unsigned state = 12345;
  for (int& value : x) value = static_cast<int>(state = state * 1664525u + 1013904223u);
  unsigned add = 0, all = full, any = 0, odd = 0, least = full, most = 0;
  int minimum = x[0], maximum = x[0];
  for (const int value : x) {
    const auto bits = static_cast<unsigned>(value);
    add += bits, all &= bits, any |= bits, odd ^= bits;
    least = std::min(least, bits), most = std::max(most, bits);
    minimum = std::min(minimum, value), maximum = std::max(maximum, value);
  }
  const DeviceArray<int> in(x);
  DeviceArray<int> out(9 * 32);
  run(shape(1, 32), reductions, in.data(), out.data());
  const auto results = out.values();
  for (std::size_t lane = 0; lane < 32; ++lane) {
    const int* mine = &results[9 * lane];
    unsigned same = 0;
    for (std::size_t other = 0; other < 32; ++other) {
      const bool equal =
          static_cast<unsigned>(x[other]) % 5 == static_cast<unsigned>(x[lane]) % 5;
      same |= (equal ? 1u : 0u) << other;
    }
    EXPECT_EQ(mine[0], static_cast<int>(add));
    EXPECT_EQ(mine[1], minimum);
    EXPECT_EQ(mine[2], maximum);
    EXPECT_EQ(static_cast<unsigned>(mine[3]), least);
    EXPECT_EQ(static_cast<unsigned>(mine[4]), most);
    EXPECT_EQ(static_cast<unsigned>(mine[5]), all);
    EXPECT_EQ(static_cast<unsigned>(mine[6]), any);
    EXPECT_EQ(static_cast<unsigned>(mine[7]), odd);
    EXPECT_EQ(static_cast<unsigned>(mine[8]), same);
  }
}

// Divergent use ends the process with a message.

__global__ void two_operations() {
  if (threadIdx.x < 16) {
    __ballot_sync(full, 1);
  } else {
    __shfl_sync(full, 1, 0);
  }
}
__global__ void two_masks() {
  if (threadIdx.x == 0) __syncwarp(0x3u);
  if (threadIdx.x == 1) __syncwarp(0x7u);
}
__global__ void not_in_mask() { __syncwarp(0x1u); }
__global__ void at_the_barrier() {
  if (threadIdx.x < 8) {
    __syncthreads();
  } else {
    __syncwarp();
  }
}
__global__ void never_comes() {
  if (threadIdx.x < 2) {
    __syncwarp(0x7u);
  } else if (threadIdx.x == 2) {
    __syncwarp(0xcu);
  } else if (threadIdx.x == 3) {
    __syncwarp(0x9u);
  }
}
__global__ void odd_width() { __shfl_sync(full, 1, 0, 3); }

TEST(WarpDeath, LanesThatDisagreeAreNamed) {
  const With with(forward);
  EXPECT_DEATH(run(shape(2, 64), two_operations),
               "__shfl_sync with mask 0xffffffff, but warp 0 lane 0 waits at "
               "__ballot_sync with mask 0xffffffff.*warp_test.cpp");
  EXPECT_DEATH(run(shape(1, 32), two_masks), "disagree.*mask 0x7, but.*mask 0x3");
  EXPECT_DEATH(run(shape(1, 32), not_in_mask), "does not name the lane.*lane 1\n");
  EXPECT_DEATH(run(shape(1, 32), at_the_barrier),
               "disagree.*lane 0 waits at __syncthreads");
  EXPECT_DEATH(run(shape(1, 32), odd_width), "width of a shuffle");
  EXPECT_DEATH(__syncwarp(), "outside of a kernel");
}
TEST(WarpDeath, OtherOrdersFindTheSame) {
  for (const Order order : {reversed, shuffled(6)}) {
    const With with(order);
    EXPECT_DEATH(run(shape(2, 64), two_operations), "disagree");
    EXPECT_DEATH(run(shape(1, 32), at_the_barrier), "disagree");
  }
}
TEST(WarpDeath, ADeadlockListsWhoWaits) {
  const With with(forward);
  EXPECT_DEATH(run(shape(dim3(3, 2), 32), never_comes),
               "deadlock.*block \\(0, 0, 0\\) of grid \\(3, 2, 1\\).*"
               "lane 0 waits at __syncwarp with mask 0x7.*lane 2.*0xc.*lane 3.*0x9");
}

}  // namespace
}  // namespace trireme::cuda_emulation
