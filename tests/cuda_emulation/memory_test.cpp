// Memory of the emulated CUDA: allocations, what is caught, copies and fills.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <numeric>

#include "cuda_emulation/test_support.hpp"

namespace trireme::cuda_emulation {
namespace {

constexpr std::size_t MiB = std::size_t{1} << 20;

TEST(Memory, IsAlignedAndNotZero) {
  for (const std::size_t bytes : {1u, 255u, 256u, 1000u, 100000u}) {
    DeviceArray<unsigned char> a(bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(a.data()) % 256, 0u);
    EXPECT_EQ(a.values(), std::vector<unsigned char>(bytes, 0xff));
  }
}

TEST(Memory, IsCounted) {
  std::size_t free = 0, total = 0, later = 0;
  ASSERT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
  EXPECT_EQ(total, 8192 * MiB);
  reset_peak_bytes();
  const std::size_t before = used_bytes();
  EXPECT_EQ(free, total - before);
  {
    const DeviceArray<char> a(3 * MiB), b(MiB);
    ASSERT_EQ(cudaMemGetInfo(&later, &total), cudaSuccess);
    EXPECT_EQ(free - later, 4 * MiB);
  }
  EXPECT_EQ(used_bytes(), before);
  EXPECT_EQ(peak_bytes(), before + 4 * MiB);
}

TEST(Memory, WrongUseIsRefused) {
  char* p = reinterpret_cast<char*>(1);
  EXPECT_EQ(cudaMalloc(&p, 9000 * MiB), cudaErrorMemoryAllocation);
  EXPECT_EQ(p, nullptr);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_EQ(cudaMalloc(static_cast<char**>(nullptr), 1), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMalloc(&p, 0), cudaSuccess);
  EXPECT_EQ(p, nullptr);
  EXPECT_EQ(cudaFree(nullptr), cudaSuccess);
  ASSERT_EQ(cudaMalloc(&p, 100), cudaSuccess);
  EXPECT_EQ(cudaFree(p + 1), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(p), cudaSuccess);
  EXPECT_EQ(cudaFree(p), cudaErrorInvalidValue);
  int on_host = 0;
  EXPECT_EQ(cudaFree(&on_host), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFreeHost(&on_host), cudaErrorInvalidValue);
  EXPECT_EQ(cudaPeekAtLastError(), cudaErrorInvalidValue);
  EXPECT_STREQ(cudaGetErrorName(cudaGetLastError()), "cudaErrorInvalidValue");
  EXPECT_STREQ(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory");
}

// Freed addresses rest while little was freed since, then come again.
TEST(Memory, IsUsedAgainOnlyAfterAWhile) {
  char* first = nullptr;
  ASSERT_EQ(cudaMalloc(&first, 8 * MiB), cudaSuccess);
  ASSERT_EQ(cudaFree(first), cudaSuccess);
  bool came_again = false;
  for (int i = 0; i < 40; ++i) {
    char* next = nullptr;
    ASSERT_EQ(cudaMalloc(&next, 8 * MiB), cudaSuccess);
    came_again |= next < first + 8 * MiB && first < next + 8 * MiB;
    EXPECT_FALSE(i < 7 && came_again) << i;
    std::vector<unsigned char> last(1);
    ASSERT_EQ(cudaMemcpy(last.data(), next + 8 * MiB - 1, 1, cudaMemcpyDeviceToHost),
              cudaSuccess);
    EXPECT_EQ(last[0], 0xff);
    ASSERT_EQ(cudaFree(next), cudaSuccess);
  }
  EXPECT_TRUE(came_again);
}

__global__ void write_byte(volatile char* to) { *to = 1; }
__global__ void read_byte(const volatile char* from, char* to) { *to = *from; }

TEST(MemoryDeath, TheHostCannotTouchIt) {
  const DeviceArray<char> a(100);
  volatile char* const p = a.data();
  EXPECT_DEATH(*p = 1, "");
  EXPECT_DEATH(static_cast<void>(*p), "");
  EXPECT_DEATH(
      {
        run(shape(1, 1), write_byte, p);  // allowed; what follows is not
        *p = 2;
      },
      "");
  run(shape(1, 1), write_byte, p);
}

// Under the address sanitizer the access itself is reported.
TEST(MemoryDeath, WritesOutsideAreFound) {
  const DeviceArray<char> a(1000);
  for (const int at : {1000, 1023, 1100, -1, -200}) {
    EXPECT_DEATH(run(shape(1, 1), write_byte, a.data() + at),
                 at < 0 ? "bytes before its start|poison" : "bytes past its end|poison");
  }
  EXPECT_DEATH(
      {
        const auto config = shape(1, 1);
        static_cast<void>(cudaLaunchKernelEx(&config, write_byte, a.data() + 1000));
        cudaFree(a.data());
      },
      "of 1000 bytes at 0x.*0 bytes past its end|poison");
}

TEST(MemoryDeath, WritesAfterFreeAreFound) {
  char* p = nullptr;
  ASSERT_EQ(cudaMalloc(&p, 100), cudaSuccess);
  ASSERT_EQ(cudaFree(p), cudaSuccess);
  EXPECT_DEATH(
      {
        run(shape(1, 1), write_byte, p + 5);
        for (int i = 0; i < 20; ++i) {
          char* next = nullptr;
          cudaMalloc(&next, 8 * MiB);
          cudaFree(next);
        }
      },
      "written after it was freed, at byte 5|poison");
}

TEST(Memory, PinnedMemoryIsKnown) {
  char* pinned = nullptr;
  ASSERT_EQ(cudaMallocHost(&pinned, 1000), cudaSuccess);
  pinned[999] = 1;  // the host may use it
  const DeviceArray<char> device(10);
  std::vector<char> pageable(10);
  cudaPointerAttributes attributes{};
  ASSERT_EQ(cudaPointerGetAttributes(&attributes, pinned + 999), cudaSuccess);
  EXPECT_EQ(attributes.type, cudaMemoryTypeHost);
  ASSERT_EQ(cudaPointerGetAttributes(&attributes, device.data() + 9), cudaSuccess);
  EXPECT_EQ(attributes.type, cudaMemoryTypeDevice);
  ASSERT_EQ(cudaPointerGetAttributes(&attributes, pageable.data()), cudaSuccess);
  EXPECT_EQ(attributes.type, cudaMemoryTypeUnregistered);

  EXPECT_EQ(cudaHostRegister(pageable.data(), 10, cudaHostRegisterDefault), cudaSuccess);
  EXPECT_EQ(cudaHostRegister(pageable.data() + 5, 1, cudaHostRegisterDefault),
            cudaErrorHostMemoryAlreadyRegistered);
  ASSERT_EQ(cudaPointerGetAttributes(&attributes, pageable.data()), cudaSuccess);
  EXPECT_EQ(attributes.type, cudaMemoryTypeHost);
  EXPECT_EQ(cudaHostUnregister(pageable.data()), cudaSuccess);
  EXPECT_EQ(cudaHostUnregister(pageable.data()), cudaErrorHostMemoryNotRegistered);

  DeviceArray<char> target(1);
  run(shape(1, 1), read_byte, pinned + 999, target.data());  // kernels read it in place
  EXPECT_EQ(target.values()[0], 1);
  EXPECT_EQ(cudaFreeHost(pinned), cudaSuccess);
}

TEST(Copy, EveryDirection) {
  std::vector<int> x(100), y(100);
  std::iota(x.begin(), x.end(), 0);
  const DeviceArray<int> a(100), b(100);
  ASSERT_EQ(cudaMemcpy(a.data(), x.data(), 400, cudaMemcpyDefault), cudaSuccess);
  ASSERT_EQ(cudaMemcpy(b.data(), a.data(), 400, cudaMemcpyDeviceToDevice), cudaSuccess);
  ASSERT_EQ(cudaMemcpy(y.data(), b.data(), 400, cudaMemcpyDefault), cudaSuccess);
  EXPECT_EQ(x, y);
  std::fill(y.begin(), y.end(), 0);
  ASSERT_EQ(cudaMemcpy(y.data(), x.data(), 400, cudaMemcpyHostToHost), cudaSuccess);
  EXPECT_EQ(x, y);
}

TEST(Copy, WrongUseIsRefused) {
  const DeviceArray<char> a(100);
  std::vector<char> host(200);
  char *const d = a.data(), *const h = host.data();
  EXPECT_EQ(cudaMemcpy(d, h, 101, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(d + 50, h, 51, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(h, d + 1, 100, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(d - 1, h, 2, cudaMemcpyDefault), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(d, h, 10, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(h, d, 10, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(nullptr, h, 10, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(d, nullptr, 10, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(nullptr, nullptr, 0, cudaMemcpyHostToDevice), cudaSuccess);
  EXPECT_EQ(cudaMemset(d + 1, 0, 100), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemset(h, 0, 100), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy2D(d, 10, h, 20, 11, 2, cudaMemcpyDefault),
            cudaErrorInvalidPitchValue);
  // The last row needs no pitch.
  EXPECT_EQ(cudaMemcpy2D(d, 30, h, 10, 10, 4, cudaMemcpyDefault), cudaSuccess);
  EXPECT_EQ(cudaMemcpy2D(d, 30, h, 10, 11, 4, cudaMemcpyDefault),
            cudaErrorInvalidPitchValue);
  EXPECT_EQ(cudaMemcpy2D(d + 1, 30, h, 10, 10, 4, cudaMemcpyDefault),
            cudaErrorInvalidValue);
  cudaGetLastError();
}

TEST(Copy, RowsAndFills) {
  std::vector<unsigned char> x(5 * 7);
  std::iota(x.begin(), x.end(), static_cast<unsigned char>(1));
  const DeviceArray<unsigned char> a(5 * 16);
  ASSERT_EQ(cudaMemset(a.data(), 0, 80), cudaSuccess);
  ASSERT_EQ(cudaMemcpy2D(a.data(), 16, x.data(), 7, 7, 5, cudaMemcpyHostToDevice),
            cudaSuccess);
  ASSERT_EQ(cudaMemset2D(a.data() + 10, 16, 0xab, 2, 5), cudaSuccess);
  const auto rows = a.values();
  for (std::size_t i = 0; i < 5; ++i) {
    for (std::size_t j = 0; j < 16; ++j) {
      const unsigned expected = j < 7 ? x[7 * i + j] : j == 10 || j == 11 ? 0xab : 0;
      EXPECT_EQ(rows[16 * i + j], expected) << i << " " << j;
    }
  }
  std::vector<unsigned char> back(5 * 7);
  ASSERT_EQ(cudaMemcpy2D(back.data(), 7, a.data(), 16, 7, 5, cudaMemcpyDeviceToHost),
            cudaSuccess);
  EXPECT_EQ(back, x);
}

}  // namespace
}  // namespace trireme::cuda_emulation
