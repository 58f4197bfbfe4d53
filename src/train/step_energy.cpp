// StepEnergy: reads the counters of a GPU and of a node once a step.
// SPDX-License-Identifier: Apache-2.0
#include "train/step_energy.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace trireme::train {
namespace {

// Whether this is the first rank of its node that has that GPU.
bool is_first_on(comm::World& world, const std::string& gpu) {
  const std::vector<std::string> all = world.gather_on_node(gpu);
  return std::find(all.begin(), all.end(), gpu) - all.begin() == world.rank_on_node();
}

// What another rank counts is nothing here.
float used(bool counted, const std::optional<double>& now,
           const std::optional<double>& before) {
  if (!counted) return 0;
  return now && before ? static_cast<float>(*now - *before) : engine::Joules::unknown;
}

}  // namespace

StepEnergy::StepEnergy(comm::World& world, bool on_gpus, const CudaDevice& gpu)
    : counts_gpu_(is_first_on(world, gpu.pci_bus_id) || !on_gpus),
      counts_node_(world.rank_on_node() == 0),
      gpu_(on_gpus && counts_gpu_ ? gpu.pci_bus_id : "") {
  if (counts_node_)
    node_.emplace(on_gpus ? NodeEnergy::Allow::whole_node
                          : NodeEnergy::Allow::processors_too);
}

StepEnergy::Reading StepEnergy::read() {
  return {gpu_.joules(), node_ ? node_->joules() : std::nullopt};
}

void StepEnergy::begin() {
  if (!last_) last_ = read();
}

engine::Joules StepEnergy::take() {
  const Reading now = read();
  const Reading before = std::exchange(last_, now).value_or(Reading());
  return {used(counts_gpu_, now.gpu, before.gpu),
          used(counts_node_, now.node, before.node)};
}

}  // namespace trireme::train
