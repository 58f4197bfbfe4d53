// Evaluation: the mean loss of a model on data, and its logits on request.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>

#include "comm/group.hpp"
#include "infer/loaded_model.hpp"
#include "io/sample_source.hpp"

namespace trireme::infer {

struct Evaluation {
  double loss_sum = 0;  // in nats
  std::int64_t tokens = 0;
  double loss() const { return loss_sum / static_cast<double>(tokens > 0 ? tokens : 1); }
};

// Sees the logits of consecutive tokens of the data: (number of the first token, logits
// [C, V on this rank]), padding excluded.
using EachLogits = std::function<void(std::int64_t, const TensorView&)>;

// Runs every window of the source (see SampleSource::windows), one sequence at a time;
// a stage works on a window while the one behind it has the window before. Tokens that
// the source marks as no targets are read, and not counted. All ranks of the model, its
// stages in `pipeline`, call alike and get the same result. `each` is called on the ranks
// of the last stage, `after` on all, with the number of windows that this rank is through
// with.
Evaluation evaluate(const LoadedModel& model, comm::Group& pipeline,
                    const io::SampleSource& source, const EachLogits& each = {},
                    const std::function<void(std::int64_t)>& after = {});

// Memory that evaluate() takes beside the weights.
std::int64_t evaluation_bytes(const LoadedModel& model, comm::Group& pipeline);

}  // namespace trireme::infer
