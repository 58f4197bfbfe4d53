// LossCounts: how many numbers saturate and are flushed, counted by many threads.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>

#include "base/tensor_view.hpp"

namespace trireme::kernels::host {

class LossCounts {
 public:
  // Of one range of elements.
  struct Part {
    std::int64_t saturated = 0, flushed = 0;
    void note(bool saturates, bool vanishes) {
      saturated += saturates ? 1 : 0;
      flushed += vanishes ? 1 : 0;
    }
  };
  void add(const Part& part) {
    saturated_ += part.saturated;
    flushed_ += part.flushed;
  }
  // Adds to counts_2, f64 [2].
  void add_to(const TensorView& counts_2) const {
    counts_2.data<double>()[0] += static_cast<double>(saturated_.load());
    counts_2.data<double>()[1] += static_cast<double>(flushed_.load());
  }

 private:
  std::atomic<std::int64_t> saturated_{0}, flushed_{0};
};

}  // namespace trireme::kernels::host
