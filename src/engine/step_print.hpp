// What two runs of a step are told apart by, on one rank.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trireme::engine {

// A hash of a tensor's bits.
struct TensorPrint {
  std::string tensor;
  std::uint64_t bits = 0;
};

// Of one run.
struct StepPrint {
  double loss = 0, squares = 0;  // this rank's parts of the loss and of the norm's square
  // Gradients of this rank's own microbatches, before ranks are summed, in the order in
  // which backward made them; empty where they were not looked at.
  std::vector<TensorPrint> own{};
  std::vector<TensorPrint> sums{};  // this rank's part of the sums
};

// What differs, by the first tensor each; "": nothing.
struct StepDifference {
  bool loss = false;          // this rank's part of it
  std::string own{}, sums{};  // see StepPrint
  bool compared_own = false;
  bool any() const { return loss || !own.empty() || !sums.empty(); }
};

// NaNs are the same, whatever their bits.
StepDifference difference(const StepPrint& first, const StepPrint& second);

}  // namespace trireme::engine
