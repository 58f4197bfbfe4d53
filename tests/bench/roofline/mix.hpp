// What the instructions of a kernel are: products, accesses by width, and its hot loop.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "bench/roofline/cubin.hpp"

namespace trireme::bench {

// Numbers of accesses of 1, 2, 4, 8, 16 and 32 bytes a thread.
struct Accesses {
  std::array<std::int64_t, 6> by_width{};

  std::int64_t count() const;
  std::int64_t bytes() const;
  std::int64_t of(std::int64_t bytes) const;  // accesses of at least so many bytes
};

// Counts of instructions as they stand in the code, each once.
struct Mix {
  std::int64_t instructions = 0;
  std::int64_t tensor = 0;          // HMMA: products of a warp on tensor cores
  std::int64_t fp32 = 0, fp64 = 0;  // sums, products, both
  std::int64_t special = 0;         // MUFU: exponentials, roots, reciprocals
  std::int64_t matrix_loads = 0;    // LDSM: 512 bytes of shared memory for a warp
  std::int64_t copies = 0;          // LDGSTS: global to shared memory, 16 bytes a thread
  std::int64_t barriers = 0;
  Accesses loads, stores;                // of global memory
  Accesses shared_loads, shared_stores;  // LDS, STS
  Accesses local_loads, local_stores;    // spills, and arrays that registers cannot hold
};

Mix mix_of(std::span<const Instruction> code);

// The instructions between the target of a branch back and the branch: of all such loops
// the smallest with at least half of the work (products on tensor cores, else bytes
// loaded) of the one with most. All of the code where there is no loop.
std::span<const Instruction> hot_loop(const KernelCode& kernel);

}  // namespace trireme::bench
