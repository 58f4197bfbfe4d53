// What the benchmark of kernels is made of: tensors of random numbers, timing, a table.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/device.hpp"
#include "base/memory.hpp"

namespace trireme::bench {

struct Settings {
  Device device = Device::host();
  bool quick = false;       // tiny tensors, two repeats: whether it runs at all
  DType type = DType::f32;  // the compute dtype
  std::string only;         // names that contain it; empty: all
};

// Throws Error(command_line) for words that it does not know.
Settings parse(int argc, char** argv);

// Memory on the device, shared by the calls that use it.
class Tensor {
 public:
  Tensor() = default;
  // Normal numbers of the given deviation, which repeat after a million elements or so: a
  // GPU that multiplies zeros runs at a higher clock than it would in use.
  static Tensor normal(const Settings& settings, DType type, const Shape& shape,
                       double deviation = 1);
  // Small numbers above zero, for second moments and statistics.
  static Tensor positive(const Settings& settings, DType type, const Shape& shape);
  static Tensor indices(const Settings& settings, std::int64_t count, std::int64_t below);
  // 0, 1, ..., period - 1, 0, 1, ...
  static Tensor positions(const Settings& settings, std::int64_t count,
                          std::int64_t period);
  static Tensor bytes(const Settings& settings, const Shape& shape);

  operator const TensorView&() const { return buffer_->view(); }  // NOLINT
  const TensorView& view() const { return buffer_->view(); }

 private:
  Tensor(const Settings& settings, DType type, const Shape& shape);
  std::shared_ptr<Buffer> buffer_;
};

// A kernel with operands of its own.
using Call = std::function<void(Stream&)>;

// What a kernel moves and computes in one call. A kernel with FLOPs is compared with the
// best matrix product of the run, any other with a copy.
struct Work {
  double bytes = 0, flops = 0;
};

class Table {
 public:
  explicit Table(const Settings& settings);

  // Times the calls that `make` makes: as many as it takes for their operands to be
  // larger than the caches, one after the other. `operand_bytes` are of one call; 0:
  // `work.bytes`. A kernel that the device or a library has not is entered with the
  // reason.
  void add(const std::string& name, const Work& work, const std::function<Call()>& make,
           double operand_bytes = 0);
  // Writes the lines added since the last print.
  void print();
  bool failed() const { return failed_; }

 private:
  struct Line {
    std::string name, reason;
    Work work;
    double seconds = 0;
    int repeats = 0;
  };
  double median_seconds(const std::vector<Call>& calls, int& repeats);
  std::string text_of(const Line& line) const;

  Settings settings_;
  Stream stream_;
  double copy_rate_ = 0, best_flop_rate_ = 0;
  std::vector<Line> lines_;
  bool failed_ = false;
};

}  // namespace trireme::bench
