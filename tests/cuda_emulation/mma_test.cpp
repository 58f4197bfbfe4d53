// Emulated tensor cores, ldmatrix and cp.async against the tables of the PTX ISA.
// SPDX-License-Identifier: Apache-2.0
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <cuda_machine/mma.cuh>
#include <cuda_machine/shared.cuh>
#include <limits>

#include "cuda_emulation/test_support.hpp"

namespace trireme::cuda_emulation {
namespace {

using namespace kernels::cuda;

class Random {
 public:
  float next() {  // in [-1, 1), 8 significant bits: exact in every type here
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<float>(static_cast<int>(state_ >> 56)) / 128.0f - 1.0f;
  }

 private:
  std::uint64_t state_ = 1;
};

// A and B row by row in memory; each lane takes what the tables of the PTX ISA give it,
// in the tables' own notation (groupID, threadID_in_group, a_i), which differs from
// mma.cpp's.
template <class T>
__global__ void multiply_k16(const T* a_MK, const T* b_KN, float* d_MN, int times) {
  const unsigned group = threadIdx.x >> 2, in_group = threadIdx.x % 4;
  T a[8], b[4];
  for (unsigned i = 0; i < 8; ++i) {
    const unsigned row = i < 2 || (4 <= i && i < 6) ? group : group + 8;
    const unsigned column = i < 4 ? in_group * 2 + (i & 1) : in_group * 2 + (i & 1) + 8;
    a[i] = a_MK[row * 16 + column];
  }
  for (unsigned i = 0; i < 4; ++i) {
    const unsigned row = i < 2 ? in_group * 2 + (i & 1) : in_group * 2 + (i & 1) + 8;
    b[i] = b_KN[row * 8 + group];
  }
  std::uint32_t a_registers[4], b_registers[2];
  std::memcpy(a_registers, a, sizeof a);
  std::memcpy(b_registers, b, sizeof b);
  float d[4];
  for (unsigned i = 0; i < 4; ++i) {
    const unsigned row = i < 2 ? group : group + 8, column = in_group * 2 + (i & 1);
    d[i] = d_MN[row * 8 + column];
  }
  for (int i = 0; i < times; ++i) mma_m16n8k16<T>(d, a_registers, b_registers);
  for (unsigned i = 0; i < 4; ++i) {
    const unsigned row = i < 2 ? group : group + 8, column = in_group * 2 + (i & 1);
    d_MN[row * 8 + column] = d[i];
  }
}

// Factors with 8 bits below 1 and sums of at most 16 products: whole multiples of 2^-14
// below 2^5, so fp32 has every partial sum exactly, in any order.
template <class T>
void check_product(std::size_t k, void (*kernel)(const T*, const T*, float*, int)) {
  for (const Order order : {forward, shuffled(1)}) {
    const With with(order);
    Random random;
    std::vector<T> a(16 * k), b(k * 8);
    std::vector<float> d(16 * 8), expected;
    for (T& x : a) x = T(random.next());
    for (T& x : b) x = T(random.next());
    for (float& x : d) x = random.next();
    expected = d;
    for (std::size_t i = 0; i < 16; ++i) {
      for (std::size_t j = 0; j < 8; ++j) {
        for (std::size_t l = 0; l < k; ++l) {
          expected[8 * i + j] +=
              2.0f * static_cast<float>(a[k * i + l]) * static_cast<float>(b[8 * l + j]);
        }
      }
    }
    const DeviceArray<T> a_device(a), b_device(b);
    const DeviceArray<float> d_device(d);
    run(shape(1, 32), kernel, a_device.data(), b_device.data(), d_device.data(), 2);
    EXPECT_EQ(d_device.values(), expected);
  }
}
TEST(Mma, K16IsAPlainProduct) {
  check_product<__nv_bfloat16>(16, multiply_k16<__nv_bfloat16>);
  check_product<__half>(16, multiply_k16<__half>);
}
// Sums are kept in fp32: 2^24 + 1 is lost, as in a tensor core's accumulator.
TEST(Mma, AccumulatesInFp32) {
  std::vector<__half> a(256), b(128);
  a[0] = b[0] = 1.0f;
  std::vector<float> d(128, 0.0f);
  d[0] = 0x1p24f;
  const DeviceArray<__half> a_device(a), b_device(b);
  const DeviceArray<float> d_device(d);
  run(shape(1, 32), multiply_k16<__half>, a_device.data(), b_device.data(),
      d_device.data(), 1);
  EXPECT_EQ(d_device.values()[0], 0x1p24f);
}

// Element j of row i of matrix m is 64 m + 8 i + j. Rows lie out of order in shared
// memory.
__global__ void load_matrices(std::uint32_t* out) {
  auto* shared = dynamic_shared<std::uint16_t>();
  const unsigned lane = threadIdx.x, place = lane * 5 % 32;
  for (unsigned j = 0; j < 8; ++j)
    shared[8 * place + j] = static_cast<std::uint16_t>(8 * lane + j);
  __syncthreads();
  const std::uint16_t* row = shared + 8 * place;
  std::uint32_t r[8];
  ldmatrix_x4(r, row);
  ldmatrix_x4_trans(r + 4, row);
  for (unsigned i = 0; i < 8; ++i) out[8 * lane + i] = r[i];
}
TEST(Ldmatrix, GivesLanesTheElementsOfTheTable) {
  DeviceArray<std::uint32_t> out(8 * 32);
  run(shape(1, 32, 512), load_matrices, out.data());
  const auto r = out.values();
  for (unsigned lane = 0; lane < 32; ++lane) {
    const unsigned i = lane / 4, j = lane % 4 * 2;
    for (unsigned m = 0; m < 4; ++m) {
      const unsigned plain = 64 * m + 8 * i + j, turned = 64 * m + 8 * j + i;
      const unsigned pair = plain | (plain + 1) << 16, turned_pair = turned | (turned + 8)
                                                                                  << 16;
      EXPECT_EQ(r[8 * lane + m], pair);
      EXPECT_EQ(r[8 * lane + 4 + m], turned_pair);
    }
  }
}

// A and B from row-major tiles in shared memory by ldmatrix, as kernels do it.
__global__ void multiply_loaded(const __half* a_MK, const __half* b_KN, float* d_MN) {
  auto* a = dynamic_shared<__half>();
  auto* b = a + 256;
  const unsigned lane = threadIdx.x;
  for (unsigned i = lane; i < 256; i += 32) a[i] = a_MK[i];
  for (unsigned i = lane; i < 128; i += 32) b[i] = b_KN[i];
  __syncwarp();
  std::uint32_t a_registers[4], b_registers[4];  // of B the same twice
  ldmatrix_x4(a_registers, a + lane % 16 * 16 + lane / 16 * 8);
  ldmatrix_x4_trans(b_registers, b + lane % 16 * 8);
  float d[4] = {};
  mma_m16n8k16<__half>(d, a_registers, b_registers);
  for (unsigned i = 0; i < 4; ++i) {
    d_MN[(lane / 4 + i / 2 * 8) * 8 + lane % 4 * 2 + i % 2] = d[i];
  }
}
TEST(Ldmatrix, FeedsMma) {
  Random random;
  std::vector<__half> a(256), b(128);
  for (__half& x : a) x = random.next();
  for (__half& x : b) x = random.next();
  std::vector<float> expected(128);
  for (std::size_t i = 0; i < 16; ++i) {
    for (std::size_t j = 0; j < 8; ++j) {
      for (std::size_t l = 0; l < 16; ++l) {
        expected[8 * i + j] +=
            static_cast<float>(a[16 * i + l]) * static_cast<float>(b[8 * l + j]);
      }
    }
  }
  const DeviceArray<__half> a_device(a), b_device(b);
  const DeviceArray<float> d_device(128);
  run(shape(1, 32, 768), multiply_loaded, a_device.data(), b_device.data(),
      d_device.data());
  EXPECT_EQ(d_device.values(), expected);
}

__global__ void mma_in_part() {
  if (threadIdx.x == 31) return;
  float d[4] = {};
  const std::uint32_t a[4] = {}, b[2] = {};
  mma_m16n8k16<__half>(d, a, b);
}
__global__ void load_from(const char* row) {
  std::uint32_t r[4];
  ldmatrix_x4(r, row == nullptr ? dynamic_shared<char>() + 2 : row);
}
TEST(MmaDeath, WrongUseIsFound) {
  for (const Order order : {forward, reversed}) {
    const With with(order);
    EXPECT_DEATH(run(shape(1, 32), mma_in_part), "mma");
  }
  EXPECT_DEATH(run(shape(1, 16), mma_in_part), "needs all 32 lanes");
  const DeviceArray<char> global(512);
  EXPECT_DEATH(run(shape(1, 32), load_from, global.data()), "not in shared memory");
  EXPECT_DEATH(run(shape(1, 32, 64), load_from, nullptr), "not a multiple of 16");
}

// What a thread's destination holds before and after each wait.
__global__ void copy_in_groups(const int4* from, int* out) {
  auto* to = dynamic_shared<int4>();
  for (int i = 0; i < 4; ++i) to[i] = make_int4(-7, -7, -7, -7);
  cp_async_16(to, from, true);
  cp_async_commit();
  cp_async_16(to + 1, from + 1, true);
  cp_async_16(to + 2, from + 2, false);
  cp_async_commit();
  cp_async_16(to + 3, from + 3, true);  // in no group yet
  const auto note = [&](int* at) {
    for (int i = 0; i < 4; ++i) at[i] = to[i].y;
  };
  note(out);
  cp_async_wait<2>();
  note(out + 4);
  cp_async_wait<1>();
  note(out + 8);
  cp_async_wait<0>();
  note(out + 12);
  cp_async_commit();
  cp_async_wait<0>();
  note(out + 16);
}
TEST(CpAsync, DataArrivesAtTheWait) {
  std::vector<int4> from;
  for (int i = 1; i <= 4; ++i) from.push_back({0, i, 0, 0});
  const DeviceArray<int4> in(from);
  DeviceArray<int> out(20);
  run(shape(1, 1, 64), copy_in_groups, in.data(), out.data());
  EXPECT_EQ(out.values(), (std::vector<int>{-1, -1, -1, -1, -1, -1, -1, -1, 1, -1,
                                            -1, -1, 1,  2,  0,  -1, 1,  2,  0, 4}));
}

__global__ void copy_misaligned(const char* from) {
  cp_async_16(dynamic_shared<char>(), from + 8, true);
}
TEST(CpAsyncDeath, MisalignedAddressesAreFound) {
  const DeviceArray<char> in(64);
  EXPECT_DEATH(run(shape(1, 1, 64), copy_misaligned, in.data()), "not a multiple of 16");
}

TEST(Exp2, FlushesWhatIsBelowTheNormalRange) {
  EXPECT_EQ(exp2_approx(3.0f), 8.0f);
  EXPECT_EQ(exp2_approx(-126.0f), std::numeric_limits<float>::min());
  EXPECT_EQ(exp2_approx(-127.0f), 0.0f);
  EXPECT_EQ(exp2_approx(1e-40f), 1.0f);
  EXPECT_EQ(exp2_approx(-INFINITY), 0.0f);
  EXPECT_EQ(exp2_approx(INFINITY), INFINITY);
  EXPECT_TRUE(std::isnan(exp2_approx(NAN)));
}

}  // namespace
}  // namespace trireme::cuda_emulation
