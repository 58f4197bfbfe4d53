// The number of a sequence in the run, as masks of dropout are drawn by it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/host_device.hpp"
#include "base/tensor_view.hpp"

namespace trireme::kernels::math {

// A number, or one in memory, f64 [1], that is read each time.
class SequenceNumber {
 public:
  SequenceNumber(std::int64_t number, const TensorView& number_1)
      : number_(number), at_(number_1.empty() ? nullptr : number_1.data<double>()) {}

  TRIREME_HOST_DEVICE std::int64_t value() const {
    return at_ == nullptr ? number_ : static_cast<std::int64_t>(*at_);
  }

 private:
  std::int64_t number_;
  const double* at_;
};

}  // namespace trireme::kernels::math
