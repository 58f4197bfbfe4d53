// ExpertRounds: how many rounds experts with bounded memory needed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

namespace trireme::parallel {

// Over layers, microbatches and ranks: see ExpertDispatch.
struct ExpertRounds {
  double all = 0, passes = 0;  // their sum, and how many it is of
  double most = 0;             // of one layer and microbatch

  void add(const ExpertRounds& more) {
    all += more.all;
    passes += more.passes;
    most = std::max(most, more.most);
  }
  double mean() const { return passes > 0 ? all / passes : 0.0; }
};

}  // namespace trireme::parallel
