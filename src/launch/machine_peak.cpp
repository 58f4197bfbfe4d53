// GEMM rate of the machine.
// SPDX-License-Identifier: Apache-2.0
#include "launch/machine_peak.hpp"

#include <algorithm>
#include <chrono>

#include "base/memory.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/gemm.hpp"
#include "kernels/random.hpp"

namespace trireme::launch {
namespace {

// Random numbers in any floating type: zeros would cost a GPU less power than real data.
Buffer random_matrix(Stream& stream, DType dtype, std::int64_t rows, std::int64_t columns,
                     std::uint64_t which) {
  const auto buffer = [&](DType type) {
    return Buffer(stream.device(), type, {rows, columns}, MemoryClass::workspace,
                  "gemm rate");
  };
  Buffer matrix = buffer(dtype);
  const Buffer drawn = buffer(accumulator_of(dtype));
  kernels::fill_normal(stream, drawn.view(), drawn.view().shape(), {0, 0}, 1, which, 1.0);
  kernels::copy(stream, drawn.view(), matrix.view());
  stream.synchronize();
  return matrix;
}

}  // namespace

GemmRate gemm_rate(DType dtype, std::int64_t m, std::int64_t n, std::int64_t k,
                   double seconds, Device device) {
  using Clock = std::chrono::steady_clock;
  Stream stream(device);
  const Buffer a = random_matrix(stream, dtype, m, k, 1);
  const Buffer b = random_matrix(stream, dtype, n, k, 2);
  const Buffer c(device, accumulator_of(dtype), {m, n}, MemoryClass::workspace,
                 "gemm rate");
  // On a GPU several are queued at a time: the queue must not run dry.
  const int queued = device.is_cuda() ? 10 : 1;
  const auto product = [&] {
    for (int i = 0; i < queued; ++i)
      kernels::gemm(stream, c.view(), a.view(), kernels::Transpose::no, b.view(),
                    kernels::Transpose::yes);
    stream.synchronize();
  };
  product();  // builds what the library keeps per shape
  const double flops = 2.0 * queued * static_cast<double>(m) * static_cast<double>(n) *
                       static_cast<double>(k);
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

}  // namespace trireme::launch
