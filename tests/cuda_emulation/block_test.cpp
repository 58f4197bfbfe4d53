// Blocks of the emulated CUDA: places, barriers, shared memory, atomics, order.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <cuda_machine/shared.cuh>
#include <numeric>

#include "cuda_emulation/test_support.hpp"

namespace trireme::cuda_emulation {
namespace {

using kernels::cuda::dynamic_shared;

__global__ void mark_place(unsigned* seen) {
  const unsigned in_block =
      threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  atomicAdd(&seen[block * blockDim.x * blockDim.y * blockDim.z + in_block], 1u);
}
TEST(Block, EveryThreadRunsOnceInEveryOrder) {
  const dim3 grid(3, 4, 2), block(5, 3, 7);
  for (const Order order : {forward, reversed, shuffled(1), shuffled(2)}) {
    const With with(order);
    DeviceArray<unsigned> seen(std::vector<unsigned>(24 * 105));
    run(shape(grid, block), mark_place, seen.data());
    EXPECT_EQ(seen.values(), std::vector<unsigned>(24 * 105, 1u));
  }
}

__global__ void note_turn(unsigned* turns, unsigned* next) {
  turns[blockIdx.x * blockDim.x + threadIdx.x] = atomicAdd(next, 1u);
}
std::vector<unsigned> turns(Order order) {
  const With with(order);
  DeviceArray<unsigned> out(40 * 50), next(std::vector<unsigned>(1));
  run(shape(40, 50), note_turn, out.data(), next.data());
  return out.values();
}
TEST(Block, OrderIsForwardReverseOrShuffled) {
  std::vector<unsigned> rising(2000);
  std::iota(rising.begin(), rising.end(), 0u);
  EXPECT_EQ(turns(forward), rising);
  std::reverse(rising.begin(), rising.end());
  EXPECT_EQ(turns(reversed), rising);
  auto one = turns(shuffled(1)), two = turns(shuffled(2));
  EXPECT_NE(one, two);
  // Blocks and threads are both out of order.
  EXPECT_FALSE(std::is_sorted(one.begin(), one.begin() + 50));
  std::vector<unsigned> firsts;
  for (std::size_t i = 0; i < 40; ++i) {
    firsts.push_back(*std::min_element(&one[50 * i], &one[50 * i] + 50));
  }
  EXPECT_FALSE(std::is_sorted(firsts.begin(), firsts.end()));
  std::sort(one.begin(), one.end());
  std::reverse(rising.begin(), rising.end());
  EXPECT_EQ(one, rising);
}

// The usual reduction over a block, with static and with dynamic shared memory.
__global__ void sum_block(const float* x, float* out, int size) {
  __shared__ float part[32];
  auto* copies = dynamic_shared<float>();
  float sum = 0;
  for (int i = static_cast<int>(threadIdx.x); i < size;
       i += static_cast<int>(blockDim.x)) {
    sum += x[static_cast<std::size_t>(blockIdx.x) * static_cast<std::size_t>(size) +
             static_cast<std::size_t>(i)];
  }
  for (int step = 16; step > 0; step /= 2)
    sum += __shfl_down_sync(0xffffffffu, sum, static_cast<unsigned>(step));
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = sum;
  __syncthreads();
  copies[threadIdx.x] = threadIdx.x < blockDim.x / 32 ? part[threadIdx.x] : 0.0f;
  __syncthreads();
  if (threadIdx.x != 0) return;
  float total = 0;
  for (unsigned i = 0; i < blockDim.x; ++i) total += copies[i];
  out[blockIdx.x] = total;
}
TEST(Block, Sums) {
  std::vector<float> x(5 * 1000);
  std::iota(x.begin(), x.end(), 0.0f);
  const DeviceArray<float> in(x);
  for (const Order order : {forward, reversed, shuffled(3)}) {
    const With with(order);
    for (const unsigned threads : {32u, 96u, 1024u}) {
      DeviceArray<float> out(5);
      run(shape(5, threads, threads * sizeof(float)), sum_block, in.data(), out.data(),
          1000);
      const auto sums = out.values();
      for (std::size_t i = 0; i < 5; ++i) {  // whole numbers below 2^24: exact
        EXPECT_EQ(sums[i], 499500.0f + 1e6f * static_cast<float>(i)) << threads;
      }
    }
  }
}

// Each thread reads what its neighbour wrote; with the barrier left out, what it reads
// depends on who runs first.
template <bool has_barrier>
__global__ void pass_on(int* out) {
  auto* values = dynamic_shared<int>();
  values[threadIdx.x] = static_cast<int>(threadIdx.x);
  if (has_barrier) __syncthreads();
  out[threadIdx.x] = values[(threadIdx.x + 1) % blockDim.x];
}
template <bool has_barrier>
std::vector<int> passed_on(Order order) {
  const With with(order);
  DeviceArray<int> out(64);
  run(shape(1, 64, 64 * sizeof(int)), pass_on<has_barrier>, out.data());
  return out.values();
}
TEST(Block, AMissingBarrierShowsInAnotherOrder) {
  EXPECT_NE(passed_on<false>(forward), passed_on<false>(reversed));
  EXPECT_NE(passed_on<false>(forward), passed_on<false>(shuffled(1)));
  EXPECT_EQ(passed_on<true>(forward), passed_on<true>(reversed));
  EXPECT_EQ(passed_on<true>(forward), passed_on<true>(shuffled(1)));
}

// As above within a warp: lanes do not run in step.
template <bool has_barrier>
__global__ void pass_on_in_warp(int* out) {
  auto* values = dynamic_shared<int>();
  values[threadIdx.x] = static_cast<int>(threadIdx.x);
  if (has_barrier) __syncwarp();
  out[threadIdx.x] = values[threadIdx.x ^ 1u];
}
TEST(Block, AMissingSyncwarpShows) {
  DeviceArray<int> out(32);
  std::vector<int> expected(32);
  for (int i = 0; i < 32; ++i) expected[static_cast<std::size_t>(i)] = i ^ 1;
  run(shape(1, 32, 128), pass_on_in_warp<false>, out.data());
  EXPECT_NE(out.values(), expected);
  run(shape(1, 32, 128), pass_on_in_warp<true>, out.data());
  EXPECT_EQ(out.values(), expected);
}

__global__ void barriers(int* out) {
  const int x = static_cast<int>(threadIdx.x);
  int* mine = out + 6 * x;
  mine[0] = __syncthreads_or(x == 77);
  mine[1] = __syncthreads_or(x == 1000);
  mine[2] = __syncthreads_and(x < 100);
  mine[3] = __syncthreads_and(x < 99);
  mine[4] = __syncthreads_count(x % 3 == 0);
  if (x % 2 == 1) return;
  mine[5] = __syncthreads_count(1);  // only those that have not ended
}
TEST(Block, BarriersCombinePredicates) {
  for (const Order order : {forward, reversed, shuffled(7)}) {
    const With with(order);
    DeviceArray<int> out(600);
    run(shape(1, 100), barriers, out.data());
    const auto results = out.values();
    for (std::size_t i = 0; i < 100; ++i) {
      const std::vector<int> mine(&results[6 * i], &results[6 * i] + 6);
      EXPECT_EQ(mine, (std::vector<int>{1, 0, 1, 0, 34, i % 2 == 0 ? 50 : -1}));
    }
  }
}

__global__ void look_at_shared(unsigned* out) {
  const auto* bytes = dynamic_shared<unsigned char>();
  unsigned others = 0;
  for (unsigned i = 0; i < 1000; ++i) others += bytes[i] != 0xff ? 1u : 0u;
  out[2 * blockIdx.x] = others;
  out[2 * blockIdx.x + 1] =
      static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(bytes) % 128);
  dynamic_shared<unsigned char>()[blockIdx.x] = 0;
}
TEST(Shared, IsAlignedAndNotZeroBeforeEachBlock) {
  DeviceArray<unsigned> out(20);
  run(shape(10, 1, 1000), look_at_shared, out.data());
  EXPECT_EQ(out.values(), std::vector<unsigned>(20, 0u));
}

__global__ void write_shared(int at) { dynamic_shared<volatile char>()[at] = 1; }
TEST(SharedDeath, WritesOutsideAreFound) {
  run(shape(1, 1, 1000), write_shared, 999);
  EXPECT_DEATH(run(shape(1, 1, 1000), write_shared, 1000), "past the end.*1000|poison");
  EXPECT_DEATH(run(shape(1, 1, 1000), write_shared, 1023), "past the end|poison");
  EXPECT_DEATH(run(shape(1, 1, 1000), write_shared, -1), "before the start|poison");
  EXPECT_DEATH(run(shape(1, 1, 1000), write_shared, 1024), "");
  EXPECT_DEATH(run(shape(1, 1, 0), write_shared, 0), "");
}

__global__ void atomics(int* i, unsigned* u, unsigned long long* w, float* f, double* d) {
  const int x = static_cast<int>(threadIdx.x);
  const unsigned v = threadIdx.x;
  atomicAdd(&i[0], x);
  atomicSub(&i[1], 1);
  atomicMax(&i[2], x);
  atomicMin(&i[3], -x);
  atomicAnd(&u[0], ~(1u << v % 32));
  atomicOr(&u[1], 1u << v % 32);
  atomicXor(&u[2], 1u << v % 32);
  atomicInc(&u[3], 9);
  atomicMax(&w[0], 1ull << v % 40);
  atomicAdd(&w[1], 1ull << 33);
  atomicAdd(f, 0.5f);
  atomicAdd(d, 0.25);
  if (atomicCAS(&i[4], x, x + 1) == x) atomicAdd(&i[5], 1);
  if (atomicExch(&i[6], 1) == 0) i[7] = 1;
}
TEST(Atomics, UpdateAndGiveWhatWas) {
  const With with(forward);
  DeviceArray<int> i(std::vector<int>(8));
  DeviceArray<unsigned> u(std::vector<unsigned>{~0u, 0u, 0u, 0u});
  DeviceArray<unsigned long long> w(std::vector<unsigned long long>(2));
  DeviceArray<float> f(std::vector<float>(1));
  DeviceArray<double> d(std::vector<double>(1));
  run(shape(1, 96), atomics, i.data(), u.data(), w.data(), f.data(), d.data());
  EXPECT_EQ(i.values(), (std::vector<int>{4560, -96, 95, -95, 96, 96, 1, 1}));
  EXPECT_EQ(u.values(), (std::vector<unsigned>{0, ~0u, ~0u, 6}));
  EXPECT_EQ(w.values(), (std::vector<unsigned long long>{1ull << 39, 96ull << 33}));
  EXPECT_EQ(f.values()[0], 48.0f);
  EXPECT_EQ(d.values()[0], 24.0);
}

__global__ void two_barriers(int* out) {
  if (threadIdx.x < 32) {
    __syncthreads();
    out[0] = 1;
  } else {
    __syncthreads();
    out[1] = 1;
  }
}
__global__ void two_kinds() {
  if (threadIdx.x < 32) {
    __syncthreads();
  } else {
    __syncthreads_or(1);
  }
}
__global__ void barrier_and_warp() {
  if (threadIdx.x < 33) __syncthreads();
  if (threadIdx.x == 40) __syncwarp(0x300u);
}
__global__ void misaligned(const float4* x, float* out) {
  *out = __ldg(reinterpret_cast<const float4*>(reinterpret_cast<const float*>(x) + 1)).x;
}
TEST(BlockDeath, DivergentBarriersAreFound) {
  DeviceArray<int> out(2);
  EXPECT_DEATH(run(shape(1, 64), two_barriers, out.data()), "different barriers");
  EXPECT_DEATH(run(shape(1, 64), two_kinds), "different barriers");
  // Threads 0..32 wait for thread 40, which waits for thread 41, which has ended: it goes
  // on.
  run(shape(1, 64), barrier_and_warp);
  EXPECT_DEATH(__syncthreads(), "outside of a kernel");
}
TEST(BlockDeath, MisalignedLoadsAreFound) {
  DeviceArray<float4> x(2);
  DeviceArray<float> out(1);
  EXPECT_DEATH(run(shape(1, 1), misaligned, x.data(), out.data()), "misaligned");
}

// Frames much deeper than most, in many threads, again and again.
__device__ int deep(int depth, volatile int* data) {
  volatile int local[64];
  local[depth % 64] = depth;
  *data = local[depth % 64];
  if (depth == 0) return 0;
  return deep(depth - 1, data) + (local[depth % 64] == depth ? 1 : 0);
}
__global__ void use_stack(int* out) {
  volatile int data = 0;
  const int before = deep(100, &data);
  __syncthreads();
  out[threadIdx.x] = before + deep(50 + static_cast<int>(threadIdx.x % 32), &data);
}
TEST(Block, StacksHoldAcrossManyBlocks) {
  const With with(shuffled(8));
  DeviceArray<int> out(512);
  run(shape(20, 512), use_stack, out.data());
  const auto depths = out.values();
  for (std::size_t i = 0; i < 512; ++i) {
    ASSERT_EQ(depths[i], 150 + static_cast<int>(i % 32));
  }
}

}  // namespace
}  // namespace trireme::cuda_emulation
