// StageChain: a rank's stage between the stages before and behind it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "comm/group.hpp"
#include "infer/loaded_model.hpp"

namespace trireme::infer {

// Takes microbatches through this rank's stage: activations come from the rank before in
// the pipeline group and go to the rank behind. Each `lane` has its own memory for what
// is on its way, so that as many microbatches as lanes are under way at once.
class StageChain {
 public:
  // rows: most of a microbatch. The model and the group outlive it.
  StageChain(const LoadedModel& model, comm::Group& pipeline, std::int64_t rows,
             int lanes);

  // Runs the pass's tokens (tokens_T [T] i32, read on the first stage). On the last stage
  // the output, in pass.saved; elsewhere it was sent, and the result is empty. On meta
  // nothing is sent.
  TensorView forward(nn::Pass& pass, const TensorView& tokens_T, int lane);

  // x of the last stage, dense, goes to all others: each stage calls with one of the same
  // shape and dtype. The last stage sends at once; x stays untouched until
  // finish_results() of this lane.
  void send_back(Stream& stream, const TensorView& x, int lane);
  void finish_results(int lane);
  void receive_back(Stream& stream, const TensorView& x);
  // Waits for what is on its way.
  void finish();

  StagePart part() const { return model_.part(); }

 private:
  const LoadedModel& model_;
  comm::Group& pipeline_;
  struct Lane {
    Buffer output;
    comm::Handle sent;
    std::vector<comm::Handle> results;
  };
  std::vector<Lane> lanes_;
};

}  // namespace trireme::infer
