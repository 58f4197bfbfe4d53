// Products of bf16 on several threads, which share what they pack, are exact.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "base/memory.hpp"
#include "kernels/gemm/amx_tile.hpp"
#include "kernels/gemm/bf16_product.hpp"
#include "kernels/runtime/runtime.hpp"

namespace trireme::kernels {
namespace {

// More rows, columns and parts of K than are packed at once.
constexpr std::int64_t M = 200, N = 520, K = 1101;

// Whole numbers of at most 3.
int number(std::int64_t row, std::int64_t column, int seed) {
  return static_cast<int>((row * 31 + column * seed) % 7) - 3;
}

Buffer matrix(std::int64_t rows, std::int64_t columns, int seed, Transpose transposed) {
  const bool turned = transposed == Transpose::yes;
  Buffer made(Device::host(), DType::bf16,
              {turned ? columns : rows, turned ? rows : columns}, MemoryClass::data, "m");
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c)
      made.view().data<BFloat16>()[turned ? c * rows + r : r * columns + c] =
          BFloat16(static_cast<float>(number(r, c, seed)));
  return made;
}

// What a product has to be, plus 1.
std::vector<float> exact() {
  std::vector<float> sums(static_cast<std::size_t>(M * N), 1.0F);
  for (std::int64_t k = 0; k < K; ++k) {
    std::vector<float> row;
    for (std::int64_t n = 0; n < N; ++n)
      row.push_back(static_cast<float>(number(k, n, 11)));
    for (std::int64_t m = 0; m < M; ++m) {
      const auto left = static_cast<float>(number(m, k, 5));
      float* const to = sums.data() + m * N;
      for (std::int64_t n = 0; n < N; ++n)
        to[n] += left * row[static_cast<std::size_t>(n)];
    }
  }
  return sums;
}

// True if every transposition gives these sums when they are added to 1.
bool all_are(const std::vector<float>& sums, bool tiles) {
  for (const Transpose ta : {Transpose::no, Transpose::yes})
    for (const Transpose tb : {Transpose::no, Transpose::yes}) {
      const Buffer a = matrix(M, K, 5, ta), b = matrix(K, N, 11, tb);
      const Buffer c(Device::host(), DType::f32, {M, N}, MemoryClass::data, "c");
      float* const found = c.view().data<float>();
      std::fill_n(found, M * N, 1.0F);
      (tiles ? gemm_amx : gemm_bf16)(c.view(), a.view(), ta, b.view(), tb,
                                     Accumulate::yes, {});
      if (!std::equal(sums.begin(), sums.end(), found)) return false;
    }
  return true;
}

// The number of threads is fixed when a process starts its kernels: each is a child.
void expect_exact_on_threads(bool tiles) {
  const std::vector<float> sums = exact();
  for (const int count : {1, 2, 3, 16}) {
    const pid_t child = fork();
    if (child == 0) {
      const Runtime runtime(count);
      _exit(threads() == count && all_are(sums, tiles) ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << count << " threads";
  }
}

TEST(ProductThreads, ShareBf16Products) {
  if (!has_bf16_products()) GTEST_SKIP() << "this processor has no products of bf16";
  expect_exact_on_threads(false);
}

TEST(ProductThreads, ShareAmxProducts) {
  if (!has_amx()) GTEST_SKIP() << "this processor has no AMX";
  expect_exact_on_threads(true);
}

}  // namespace
}  // namespace trireme::kernels

// Its own main(): the parent must not start the kernels' threads before it forks.
int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
