// Training a few steps on a mesh, and comparing with one rank.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "comm/mesh.hpp"
#include "engine/engine.hpp"

namespace trireme::test {

// Whole tensors by section and name, in double.
using Tensors = std::map<std::string, std::vector<double>>;

struct Outcome {
  Tensors gradients;  // of step 1, before clipping
  Tensors state;      // weights and moments after the last step
  std::vector<double> losses, norms;
  std::int64_t overflows = 0;  // of fp16: steps that were no updates
};

// The deck's mesh on the device of the test. Collective over the world.
comm::Mesh test_mesh(const config::RunConfig& config);

// Trains on the mesh's device. Token ids of the global batch are a pure function of
// (sequence, position); some targets are ignored, so that ranks have different numbers of
// real tokens. Every step trains on the same batch. Collective over the world, unless the
// mesh is of one rank; tensors are left empty if whole = false, those of the last state
// if state = false. fp16 has its loss scale, as the trainer has it; gradients and norms
// are without it. `inspect` sees the engine after the last step. `resume` loads the
// state before step `first`, 1 without it.
struct Resume {
  std::function<void(engine::Engine&)> load;
  int first = 1;
};
Outcome train_steps(const config::RunConfig& config, comm::Mesh& mesh, int steps,
                    bool whole = true,
                    const std::function<void(engine::Engine&)>& inspect = {},
                    const Resume& resume = {}, bool state = true);
// Step `step` on the batch of train_steps(). Collective over the mesh.
engine::StepResult step_of(engine::Engine& engine, const config::RunConfig& config,
                           comm::Mesh& mesh, engine::StepObserver& observer,
                           std::int64_t step = 1);
// The same as train_steps() without a mesh, on this process alone and the host.
Outcome train_alone(config::RunConfig config, int steps);

// Whether a step takes ten times as long as elsewhere: this program watches every access
// to memory, or computes on an emulated GPU.
bool is_slow();

// |a - b| / |b|, L2.
double relative(const std::vector<double>& a, const std::vector<double>& b);

// Limits of the design: relative error of each gradient (L2), of the norm, and absolute
// error of the losses.
struct Limits {
  double gradient, norm, loss;
};
inline constexpr Limits eq64{1e-10, 1e-10, 1e-9}, eq32{1e-5, 1e-6, 1e-5};

// Expects equality of every gradient, the first norm and all losses.
void expect_equal(const Outcome& mesh, const Outcome& one, const Limits& limits);

}  // namespace trireme::test
