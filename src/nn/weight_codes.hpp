// WeightCodes: FP8 codes of a stage's weights, kept while the weights do not change.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "base/memory.hpp"
#include "nn/fp8_operands.hpp"

namespace trireme::nn {

// Two bytes for each element, for the codes of a matrix and of its transpose, which the
// microbatches of a step and its evaluations then share. Experts' weights have none:
// their codes are made for one expert after the other.
class WeightCodes {
 public:
  // The layers' operands, in FP8, outlive this.
  WeightCodes(const std::vector<Fp8Operands*>& layers, Device device);
  WeightCodes(const WeightCodes&) = delete;
  WeightCodes& operator=(const WeightCodes&) = delete;

  // Weights or their scales have changed, or may have: codes are made anew when they are
  // needed.
  void weights_changed();

  std::size_t bytes() const { return codes_.bytes() + scales_.bytes(); }

 private:
  std::vector<KeptCodes> of_layer_;
  Buffer codes_, scales_;  // scales of blocks; one scale for a tensor lies in Fp8State
};

}  // namespace trireme::nn
