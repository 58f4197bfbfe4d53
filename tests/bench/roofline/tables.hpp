// The tables beside this file: rates of GPUs, and what each hot kernel must be.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace trireme::bench {

// A row of gpus.txt.
struct GpuRates {
  int capability = 0;
  std::string name;
  std::int64_t multiprocessors = 0;
  double clock_hz = 0, memory_rate = 0,
         tensor_rate = 0;  // data sheet: bytes, FLOP a second
  double mma_share = 0;    // of tensor_rate, that mma.sync reaches; 0: not published
  double product_share = 0, memory_share = 0;  // reached by large products and by copies
  std::int64_t shared_bytes = 0;               // of a multiprocessor
};

// A row of kernels.txt.
struct HotKernel {
  std::string pattern;            // of short_name(), with * and ?
  std::int64_t threads = 0;       // of a block
  std::int64_t shared_bytes = 0;  // dynamic
  std::int64_t wide_stores = 0;   // of 16 bytes or more, at least
  double bytes = 0;               // of memory an element; 0: no streaming kernel
  double moved = 0;   // by instructions an element: what caches serve counts as well
  bool cold = false;  // nothing is asked of its code, and nothing else is known of it
};

// Throw Error(missing_input) or Error(bad_content) with file and line.
std::vector<GpuRates> read_gpus(const std::filesystem::path& path);
std::vector<HotKernel> read_hot_kernels(const std::filesystem::path& path);

// The row of a kernel, or null.
const HotKernel* row_of(const std::vector<HotKernel>& rows, const std::string& kernel);

}  // namespace trireme::bench
