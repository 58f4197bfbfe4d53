// Tables are lines of columns between spaces; # begins a comment.
// SPDX-License-Identifier: Apache-2.0
#include "bench/roofline/tables.hpp"

#include <fnmatch.h>

#include <fstream>
#include <sstream>

#include "base/error.hpp"

namespace trireme::bench {
namespace {

// f(line) reads the columns of each line, and leaves it failed where they are wrong.
template <class F>
void for_each_line(const std::filesystem::path& path, const char* columns, const F& f) {
  std::ifstream in(path);
  require(in.good(), Status::missing_input, "'{}' cannot be read", path.string());
  std::string text;
  for (int number = 1; std::getline(in, text); ++number) {
    text = text.substr(0, text.find('#'));
    if (text.find_first_not_of(' ') == std::string::npos) continue;
    std::istringstream line(text);
    f(line);
    require(!line.fail(), Status::bad_content, "{}:{}: write the columns {}",
            path.string(), number, columns);
  }
}

}  // namespace

std::vector<GpuRates> read_gpus(const std::filesystem::path& path) {
  std::vector<GpuRates> gpus;
  for_each_line(path,
                "capability, name, SMs, GHz, TB/s, TFLOP/s, share of mma.sync, share of "
                "products, share of copies, KiB of shared memory",
                [&](std::istream& line) {
                  GpuRates gpu;
                  line >> gpu.capability >> gpu.name >> gpu.multiprocessors >>
                      gpu.clock_hz >> gpu.memory_rate >> gpu.tensor_rate >>
                      gpu.mma_share >> gpu.product_share >> gpu.memory_share >>
                      gpu.shared_bytes;
                  gpu.clock_hz *= 1e9;
                  gpu.memory_rate *= 1e12;
                  gpu.tensor_rate *= 1e12;
                  gpu.shared_bytes <<= 10;
                  gpus.push_back(gpu);
                });
  return gpus;
}

std::vector<HotKernel> read_hot_kernels(const std::filesystem::path& path) {
  std::vector<HotKernel> rows;
  for_each_line(
      path,
      "threads, shared bytes, wide stores, bytes an element, moved bytes an element, "
      "kernel; or - and a kernel",
      [&](std::istream& line) {
        HotKernel row;
        row.cold = (line >> std::ws).peek() == '-';
        if (row.cold)
          line.ignore() >> std::ws;
        else
          line >> row.threads >> row.shared_bytes >> row.wide_stores >> row.bytes >>
              row.moved >> std::ws;
        std::getline(line, row.pattern);
        row.pattern.erase(row.pattern.find_last_not_of(' ') + 1);
        rows.push_back(row);
      });
  return rows;
}

const HotKernel* row_of(const std::vector<HotKernel>& rows, const std::string& kernel) {
  for (const HotKernel& row : rows)
    if (fnmatch(row.pattern.c_str(), kernel.c_str(), 0) == 0) return &row;
  return nullptr;
}

}  // namespace trireme::bench
