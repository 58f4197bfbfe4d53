// Occupancy and bounds, by the rules of the CUDA Programming Guide.
// SPDX-License-Identifier: Apache-2.0
#include "bench/roofline/bounds.hpp"

#include <algorithm>

namespace trireme::bench {
namespace {

constexpr std::int64_t warp = 32, most_warps = 64, most_blocks = 32;
constexpr std::int64_t registers = 65536, register_unit = 256;  // of a warp
// Of shared memory, for each block; from 9.0 on the compiler counts them as the kernel's.
constexpr std::int64_t reserved_bytes = 1024;

constexpr double issued = 4;         // instructions of warps in a cycle
constexpr double shared_rate = 128;  // bytes in a cycle
constexpr double matrix_load_bytes = 512;
constexpr double product_flops = 4096;  // of mma.m16n8k16: 2 x 16 x 8 x 16

}  // namespace

int resident_warps(const KernelCode& kernel, const HotKernel& row, const GpuRates& gpu) {
  const std::int64_t warps = (row.threads + warp - 1) / warp;
  const std::int64_t of_warp =
      (kernel.registers * warp + register_unit - 1) / register_unit * register_unit;
  const std::int64_t shared = kernel.shared_bytes + row.shared_bytes +
                              (kernel.capability < 90 ? reserved_bytes : 0);
  const std::int64_t blocks =
      std::min({most_blocks, most_warps / warps,
                registers / std::max<std::int64_t>(of_warp * warps, 1),
                gpu.shared_bytes / std::max<std::int64_t>(shared, 1)});
  return static_cast<int>(blocks * warps);
}

Bound bound_of(const KernelCode& kernel, const HotKernel& row, const GpuRates& gpu) {
  const Mix loop = mix_of(hot_loop(kernel));
  const auto instructions = static_cast<double>(loop.instructions);
  const double cycles_a_second = gpu.clock_hz * static_cast<double>(gpu.multiprocessors);
  Bound bound;
  if (loop.tensor > 0) {
    const double flops = product_flops * static_cast<double>(loop.tensor);
    const double of_cycle = gpu.tensor_rate / cycles_a_second;
    const double share = gpu.mma_share > 0 ? gpu.mma_share : 1;
    const double tensor = flops / (of_cycle * share);
    const double shared =
        matrix_load_bytes * static_cast<double>(loop.matrix_loads) / shared_rate;
    const double issue = instructions / issued;
    const double cycles = std::max({tensor, shared, issue});
    bound.unit = cycles == tensor   ? "tensor cores"
                 : cycles == shared ? "shared memory"
                                    : "issue";
    bound.flop_rate = flops / cycles * cycles_a_second;
    return bound;
  }
  const auto bytes = static_cast<double>(loop.loads.bytes() + loop.stores.bytes());
  if (row.moved == 0 || bytes == 0) return bound;
  const double elements = bytes / row.moved;
  bound.instructions = instructions / elements;
  const double memory = row.bytes / (gpu.memory_rate * gpu.memory_share);
  const double issue =
      bound.instructions / (issued * static_cast<double>(warp) * cycles_a_second);
  bound.seconds = std::max(memory, issue);
  bound.unit = memory >= issue ? "memory" : "issue";
  return bound;
}

}  // namespace trireme::bench
