// GEMM rate of the machine.
// SPDX-License-Identifier: Apache-2.0
#include "train/machine_peak.hpp"

#include <algorithm>
#include <chrono>

#include "base/memory.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/gemm.hpp"

namespace trireme::train {

GemmRate gemm_rate(DType dtype, std::int64_t m, std::int64_t n, std::int64_t k,
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
  GemmRate rate;
  const auto begin = Clock::now();
  double products = 0, elapsed = 0;
  while (elapsed < seconds) {
    const auto start = Clock::now();
    product();
    const auto end = Clock::now();
    rate.best =
        std::max(rate.best, flops / std::chrono::duration<double>(end - start).count());
    elapsed = std::chrono::duration<double>(end - begin).count();
    products += 1;
  }
  rate.sustained = products * flops / elapsed;
  return rate;
}

}  // namespace trireme::train
