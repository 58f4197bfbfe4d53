// The logits of all tensor ranks on each of them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "infer/loaded_model.hpp"

namespace trireme::infer {

// logits_RV [R, V on this rank] of every tensor rank, as rows of V numbers on the host.
// Scratch of the pass is taken and given back. The same on all tensor ranks. `landing`:
// where they come to the host, one place for all calls, which make it as large as they
// need it (pinned, of a GPU).
void gather_vocabulary(const LoadedModel& model, nn::Pass& pass,
                       const TensorView& logits_RV, Buffer& landing,
                       std::vector<double>& all_RV);

// What it takes on meta.
void plan_gather(const LoadedModel& model, nn::Pass& pass, const TensorView& logits_RV);

}  // namespace trireme::infer
