// What a run starts with: state of a checkpoint, or weights of another model.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/world.hpp"
#include "config/run_config.hpp"
#include "io/checkpoint.hpp"
#include "launch/compute_device.hpp"
#include "train/reference_file.hpp"
#include "train/start_adapters.hpp"

namespace trireme::train {

// Those of `boxes`, of a run's state, that the checkpoint fills; the others start anew.
// Collective over the world. Throws an Agreed Error(bad_content) where the checkpoint is
// of another model or optimizer, or holds weights or adapters that the run would drop.
std::vector<io::TensorBox> boxes_of_checkpoint(comm::World& world,
                                               const config::RunConfig& config,
                                               const io::CheckpointReader& reader,
                                               std::vector<io::TensorBox> boxes);

// The weights of model.from, and adapters beside them.
class StartWeights {
 public:
  // `boxes`: of the run's state, which read() may be asked for. Collective over the
  // world: ranks share the comparing of digests, and of a checkpoint rank 0 alone reads
  // which bytes lie where. Throws as convert::open_tensors() and StartAdapters do. The
  // configuration outlives this.
  StartWeights(comm::World& world, const config::RunConfig& config,
               const std::vector<io::TensorBox>& boxes);

  // Fills a box of the model; others are left alone. Throws Error(bad_content) where its
  // tensor is absent or has another shape.
  void read(const io::TensorBox& box) const;

 private:
  const config::RunConfig& config_;
  std::unique_ptr<io::TensorSource> source_;
  std::optional<StartAdapters> adapters_;
};

// What a start would find wrong, from names, shapes and digests: nothing is filled or
// written. The ranks of the world stand for those of the mesh where there are as many;
// else the first rank of each stage of the pipeline is looked at. `deck`: the effective
// one; `pairs`: sources that the run learns from and validates on, if they are pairs of
// answers. Collective. Copies in the memory of nodes (checkpoint.partner) are not looked
// for. Throws as the start does.
void check_start(comm::World& world, const config::RunConfig& config,
                 const std::string& deck, const launch::ComputeDevice& on,
                 const std::vector<ReferencePart>& pairs);

}  // namespace trireme::train
