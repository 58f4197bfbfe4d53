// Fp8Scales: scales of FP8 that follow the magnitudes of the whole tensors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/rank_model.hpp"

namespace trireme::engine {

// Delayed scaling; nothing where no layer has it.
class Fp8Scales {
 public:
  // The mesh and the model outlive this.
  Fp8Scales(comm::Mesh& mesh, RankModel& model, Device device);

  // The magnitudes of the step's global batch become part of each layer's history.
  // Collective over the mesh.
  void finish_step();
  // The scales follow a state that was loaded.
  void refresh();
  std::size_t bytes() const { return amaxes_.bytes(); }

 private:
  comm::Mesh& mesh_;
  RankModel& model_;
  Device device_;
  Buffer amaxes_;  // on the host: f32, those of the widest chunk
};

}  // namespace trireme::engine
