// GEMM rate of the machine.
// SPDX-License-Identifier: Apache-2.0
#include "train/machine_peak.hpp"

#include <algorithm>
#include <chrono>

#include "base/memory.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/gemm.hpp"

namespace trireme::train {

double gemm_rate(DType dtype, std::int64_t m, std::int64_t n, std::int64_t k,
                 double seconds) {
  using Clock = std::chrono::steady_clock;
  Stream stream;
  const Buffer a(Device::host(), dtype, {m, k}, MemoryClass::workspace, "gemm rate");
  const Buffer b(Device::host(), dtype, {n, k}, MemoryClass::workspace, "gemm rate");
  const Buffer c(Device::host(), accumulator_of(dtype), {m, n}, MemoryClass::workspace,
                 "gemm rate");
  kernels::fill(stream, a.view(), 0.5);
  kernels::fill(stream, b.view(), 0.25);
  const auto product = [&] {
    kernels::gemm(stream, c.view(), a.view(), kernels::Transpose::no, b.view(),
                  kernels::Transpose::yes);
  };
  product();  // builds what the library keeps per shape
  const double flops =
      2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  double best = 0;
  const auto begin = Clock::now();
  do {
    const auto start = Clock::now();
    product();
    const double taken = std::chrono::duration<double>(Clock::now() - start).count();
    best = std::max(best, flops / taken);
  } while (std::chrono::duration<double>(Clock::now() - begin).count() < seconds);
  return best;
}

}  // namespace trireme::train
