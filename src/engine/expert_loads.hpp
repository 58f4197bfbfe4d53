// ExpertLoads: how many tokens of the global batch chose each expert.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "engine/rank_model.hpp"

namespace trireme::engine {

// Nothing for a model without experts.
class ExpertLoads {
 public:
  // Everything that is given outlives this.
  ExpertLoads(const model::ModelConfig& config, comm::Mesh& mesh, RankModel& model,
              Device device);

  // Every MoE layer learns the load of the global batch, every rank that of all layers.
  // Collective over the mesh.
  void sum();

  // Of the last sum(): tokens that chose each expert [layers, E], rows of zeros for
  // layers without experts, and the routers' losses. Empty and zero on meta.
  std::span<const double> loads() const;
  nn::RouterLosses losses() const;
  // Of this rank, in the step so far.
  parallel::ExpertRounds rounds();
  std::size_t bytes() const { return loads_.bytes(); }

 private:
  template <class Body>
  void for_each_layer(const Body& body);

  const model::ModelConfig& config_;
  comm::Mesh& mesh_;
  RankModel& model_;
  Device device_;
  Buffer loads_;  // f64 [layers * E + 2]: loads of all layers and the routers' losses
  std::vector<double> on_host_;
};

}  // namespace trireme::engine
