// Whether a step is sound, and the factor of clipping: the same on hosts and GPUs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "base/host_device.hpp"

namespace trireme::kernels {

// What of a step's loss and gradient norm may be used.
struct StepLimits {
  bool finite = false;  // both are to be finite
  double largest_norm = std::numeric_limits<double>::infinity();
};

// What a step is decided by.
struct StepRule {
  double items = 1;  // by which a rank's part of the loss is divided
  double clip = 0;   // largest norm of the gradient that is used; 0: any
  StepLimits limits{};
  // Ranks of a stage of the pipeline, and of a tensor group, which have one loss.
  std::int32_t in_stage = 1, tensor = 1;
};

namespace math {

// Without a library, and so that a compiler for GPUs takes it, too.
TRIREME_HOST_DEVICE bool is_finite(double x) { return x - x == 0; }

// Sums over ranks in their order: the loss of one rank of each tensor group, first within
// a stage, then over the stages; the squares of all ranks' gradients.
class StepSums {
 public:
  TRIREME_HOST_DEVICE StepSums(std::int32_t in_stage, std::int32_t tensor)
      : in_stage_(in_stage), tensor_(tensor) {}

  // The next rank's.
  TRIREME_HOST_DEVICE void add(double loss, double squares) {
    finite_ = finite_ && is_finite(loss);
    if (place_ == 0) {
      stage_ = loss;
    } else if (place_ % tensor_ == 0) {
      stage_ += loss;
    }
    squares_ = is_first_rank_ ? squares : squares_ + squares;
    is_first_rank_ = false;
    if (++place_ < in_stage_) return;
    place_ = 0;
    loss_ = is_first_stage_ ? stage_ : loss_ + stage_;
    is_first_stage_ = false;
  }

  // Not finite where that of any rank is not.
  TRIREME_HOST_DEVICE double loss() const {
    return is_finite(loss_) && !finite_ ? std::numeric_limits<double>::quiet_NaN()
                                        : loss_;
  }
  TRIREME_HOST_DEVICE double squares() const { return squares_; }

 private:
  std::int32_t in_stage_, tensor_, place_ = 0;
  bool is_first_rank_ = true, is_first_stage_ = true, finite_ = true;
  double stage_ = 0, loss_ = 0, squares_ = 0;
};

TRIREME_HOST_DEVICE bool is_sound(const StepLimits& limits, double loss, double norm) {
  return !(limits.finite && !(is_finite(loss) && is_finite(norm))) &&
         !(norm > limits.largest_norm);
}

// What the gradient is multiplied by.
TRIREME_HOST_DEVICE double clipping(double clip, double norm) {
  return clip > 0 && norm > clip ? clip / norm : 1.0;
}

}  // namespace math
}  // namespace trireme::kernels
