// ExpertRounds: how many rounds experts with bounded memory needed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

namespace trireme::parallel {

// Added up over layers, microbatches and ranks; a layer pass is the forward of one layer
// and microbatch on one rank. See ExpertDispatch.
struct ExpertRounds {
  double sum = 0;    // rounds, over all layer passes
  double count = 0;  // layer passes added up
  double max = 0;    // rounds of any one layer pass

  void add(const ExpertRounds& other) {
    sum += other.sum;
    count += other.count;
    max = std::max(max, other.max);
  }
  double mean() const { return count > 0 ? sum / count : 0.0; }
};

}  // namespace trireme::parallel
