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

// The three products of a linear layer, over T tokens from K to N: y = x W^T, dx = dy W
// and dW = dy^T x.
struct Layer {
  Layer(DType dtype, std::int64_t T, std::int64_t N, std::int64_t K)
      : x_TK(random_matrix(dtype, T, K, "x")),
        w_NK(random_matrix(dtype, N, K, "w")),
        dy_TN(random_matrix(dtype, T, N, "dy")),
        y_TN(result(dtype, T, N)),
        dx_TK(result(dtype, T, K)),
        dw_NK(result(dtype, N, K)) {}

  std::vector<char> run() const {
    constexpr auto no = Transpose::no, yes = Transpose::yes;
    Stream stream;
    kernels::gemm(stream, y_TN.view(), x_TK.view(), no, w_NK.view(), yes);
    kernels::gemm(stream, dx_TK.view(), dy_TN.view(), no, w_NK.view(), no);
    kernels::gemm(stream, dw_NK.view(), dy_TN.view(), yes, x_TK.view(), no);
    std::vector<char> all;
    for (const Buffer* out : {&y_TN, &dx_TK, &dw_NK}) {
      const auto* const bytes = static_cast<const char*>(out->view().raw());
      all.insert(all.end(), bytes, bytes + out->view().bytes());
    }
    return all;
  }

 private:
  static Buffer result(DType dtype, std::int64_t rows, std::int64_t columns) {
    return Buffer(Device::host(), dtype == DType::f64 ? DType::f64 : DType::f32,
                  {rows, columns}, MemoryClass::workspace, "product");
  }
  Buffer x_TK, w_NK, dy_TN, y_TN, dx_TK, dw_NK;
};

class Products : public testing::TestWithParam<DType> {};

TEST_P(Products, KeepTheirBitsUnderSignals) {
  constexpr std::int64_t signals = 20000;
  const Layer layer(GetParam(), 128, 576, 192);
  const std::vector<char> undisturbed = layer.run();
  std::int64_t runs = 0, sent = 0;
  {
    const Storm storm;
    while (storm.sent() < signals) {
      ASSERT_EQ(layer.run(), undisturbed) << "after " << storm.sent() << " signals";
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
