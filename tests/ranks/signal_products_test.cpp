// Products under a storm of signals: the same bits as undisturbed, and nothing ends.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <omp.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "base/memory.hpp"
#include "base/philox.hpp"
#include "base/tensor_view.hpp"
#include "comm/stop_signals.hpp"
#include "kernels/gemm.hpp"
#include "support/world.hpp"

namespace trireme {
namespace {

using kernels::Transpose;

// Sends process-wide signals without a pause, from a thread of its own.
class Storm {
 public:
  Storm() : thread_([this] { send(); }) {}
  ~Storm() {
    ending_ = true;
    thread_.join();
  }
  std::int64_t sent() const { return sent_; }

 private:
  // Requests, a profiler's clock, a timer and a child's end.
  void send() {
    constexpr int signals[] = {SIGUSR2, SIGUSR1, SIGPROF, SIGTERM, SIGALRM, SIGCHLD};
    for (std::size_t i = 0; !ending_; i = (i + 1) % std::size(signals)) {
      ::kill(::getpid(), signals[i]);
      ++sent_;
    }
  }
  std::atomic<bool> ending_{false};
  std::atomic<std::int64_t> sent_{0};
  std::thread thread_;
};

Buffer random_matrix(DType dtype, std::int64_t rows, std::int64_t columns,
                     const char* name) {
  Buffer x(Device::host(), dtype, {rows, columns}, MemoryClass::workspace, name);
  const Random random(7, hash_name(name));
  for (std::int64_t i = 0; i < rows * columns; ++i) {
    const double value =
        static_cast<double>(random.below(static_cast<std::uint64_t>(i), 2001)) / 1000 - 1;
    void* const at =
        static_cast<char*>(x.view().raw()) + static_cast<std::size_t>(i) * size_of(dtype);
    if (dtype == DType::f64) std::memcpy(at, &value, 8);
    const auto narrow = static_cast<float>(value);
    std::uint32_t bits = 0;
    std::memcpy(&bits, &narrow, 4);
    if (dtype == DType::f32) std::memcpy(at, &bits, 4);
    const auto upper = static_cast<std::uint16_t>(bits >> 16);
    if (dtype == DType::bf16) std::memcpy(at, &upper, 2);
  }
  return x;
}

// A product of three layouts as a linear layer has them.
struct Product {
  Product(DType dtype, std::int64_t m, std::int64_t n, std::int64_t k)
      : a(random_matrix(dtype, m, k, "a")),
        b(random_matrix(dtype, n, k, "b")),
        c(Device::host(), dtype == DType::f64 ? DType::f64 : DType::f32, {m, n},
          MemoryClass::workspace, "c") {}
  std::vector<char> run() const {
    Stream stream;
    kernels::gemm(stream, c.view(), a.view(), Transpose::no, b.view(), Transpose::yes);
    const auto* const bytes = static_cast<const char*>(c.view().raw());
    return {bytes, bytes + c.view().bytes()};
  }
  Buffer a, b, c;
};

class Products : public testing::TestWithParam<DType> {};

TEST_P(Products, KeepTheirBitsUnderSignals) {
  constexpr std::int64_t signals = 20000;
  const Product product(GetParam(), 256, 576, 192);
  const std::vector<char> undisturbed = product.run();
  std::int64_t runs = 0, sent = 0;
  {
    const Storm storm;
    while (storm.sent() < signals) {
      ASSERT_EQ(product.run(), undisturbed) << "after " << storm.sent() << " signals";
      ++runs;
    }
    sent = storm.sent();
  }
  EXPECT_GE(sent, signals);
  EXPECT_GT(runs, 0);
  EXPECT_TRUE(comm::stop_requested());  // they have arrived
}

INSTANTIATE_TEST_SUITE_P(Types, Products,
                         testing::Values(DType::f32, DType::bf16, DType::f64),
                         [](const auto& instance) {
                           return std::string(name_of(instance.param));
                         });

// Threads that compute, workers of the pool included, have an alternate stack for faults.
TEST(SignalStacks, BelongToEveryComputingThread) {
  int without = 0;
#pragma omp parallel reduction(+ : without)
  {
    stack_t stack{};
    if (::sigaltstack(nullptr, &stack) != 0 || (stack.ss_flags & SS_DISABLE) != 0)
      ++without;
  }
  EXPECT_EQ(without, 0);
}

}  // namespace
}  // namespace trireme
