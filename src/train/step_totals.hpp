// StepTotals: what the ranks add up and agree on in each step.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "base/memory.hpp"
#include "comm/mesh.hpp"

namespace trireme::train {

// Small reductions, all collective over the mesh. On meta they are counted by the mesh's
// groups and return what was given.
class StepTotals {
 public:
  struct Outcome {
    double loss = 0;         // summed over replicas and stages
    bool stop = false;       // any rank asks to stop
    double memory_peak = 0;  // bytes, of the rank that held most
  };

  // The mesh outlives this.
  StepTotals(comm::Mesh& mesh, Device device);

  // Number of real tokens of the global batch, from this rank's. At least 1.
  double tokens(double mine);
  // The outcome of a step from each rank's. idle_share: the part of this step's run in
  // which this rank waited for another stage; see idle_shares().
  Outcome finish(const Outcome& mine, double idle_share);
  // loss summed over replicas and stages, tokens over replicas.
  void sum_validation(double& loss, double& tokens);

  // Of the last finish(): the mean over the ranks of each pipeline stage. Empty without a
  // pipeline.
  const std::vector<double>& idle_shares() const { return idle_shares_; }
  std::size_t bytes() const { return values_.bytes() + idle_.bytes(); }

 private:
  void sum_loss();  // the first value, over stages

  comm::Mesh& mesh_;
  Stream stream_;
  Buffer values_;  // f64 [2]
  Buffer idle_;    // f64 [stages], if more than one
  std::vector<double> idle_shares_;
};

}  // namespace trireme::train
