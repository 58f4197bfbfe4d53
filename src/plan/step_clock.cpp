// Durations of kernels and messages from a machine's constants.
// SPDX-License-Identifier: Apache-2.0
#include "plan/step_clock.hpp"

#include <algorithm>
#include <cmath>

#include "engine/activation_offload.hpp"
#include "optim/store_context.hpp"

namespace trireme::plan {
namespace {

// A group's ranks are evenly spaced, as the mesh orders them: how many, how far apart.
struct Spacing {
  int ranks = 1, stride = 1;
};

Spacing spacing_of(std::string_view group, const comm::MeshShape& shape,
                   const comm::Folding& folding) {
  const int tensor = shape.tensor, replicas = shape.data * shape.context;
  const int shard = folding.shard, expert = folding.expert;
  const int expert_shard = std::max(shard / expert, 1);
  const int stage = replicas * tensor;
  if (group == "tensor") return {tensor, 1};
  if (group == "context") return {shape.context, tensor};
  if (group == "data") return {shape.data, tensor * shape.context};
  if (group == "pipeline") return {shape.pipeline, stage};
  if (group == "replicas") return {replicas, tensor};
  if (group == "shards") return {shard, tensor};
  if (group == "copies") return {replicas / shard, tensor * shard};
  if (group == "experts") return {expert, tensor};
  if (group == "expert replicas") return {replicas / expert, tensor * expert};
  if (group == "expert shards") return {expert_shard, tensor * expert};
  if (group == "expert copies")
    return {replicas / expert / expert_shard, tensor * expert * expert_shard};
  if (group == "spread") return {tensor * shard, 1};
  if (group == "embedding") return {2, stage * (shape.pipeline - 1)};
  return {shape.size(), 1};
}

}  // namespace

Placement place_group(std::string_view group, const comm::MeshShape& shape,
                      const comm::Folding& folding, int rank, int ranks_per_node) {
  const Spacing spacing = spacing_of(group, shape, folding);
  const int index = rank / spacing.stride % spacing.ranks;
  const int first = rank - index * spacing.stride;
  const int node_end = (first / ranks_per_node + 1) * ranks_per_node;
  const int room = (node_end - first + spacing.stride - 1) / spacing.stride;
  const int of_node = std::clamp(room, 1, spacing.ranks);
  return {of_node, of_node < spacing.ranks};
}

StepClock::StepClock(const Machine& machine, const comm::MeshShape& shape,
                     const comm::Folding& folding, int rank)
    : machine_(machine), shape_(shape), folding_(folding), rank_(rank) {}

double StepClock::rate_of_bytes(const KernelWork& work) const {
  const auto known = [&](double rate) { return rate > 0 ? rate : machine_.sweep_rate; };
  if (work.kind == WorkKind::update) return known(machine_.update_rate);
  return size_of(work.type) == 2 ? known(machine_.narrow_sweep_rate)
                                 : machine_.sweep_rate;
}

void StepClock::kernel(const KernelWork& work) {
  double seconds = machine_.kernel_seconds + work.bytes / rate_of_bytes(work);
  double* spent = &spent_.sweeps;
  if (work.kind == WorkKind::product) {
    const auto side = static_cast<double>(std::min(work.rows, work.columns));
    const auto inner = static_cast<double>(work.inner);
    const double share = machine_.products.reached * side /
                         (side + machine_.products.half_side) * inner /
                         (inner + machine_.products.half_inner);
    seconds =
        std::max(seconds, machine_.kernel_seconds +
                              work.flops / (machine_.product_rate(work.type) * share));
    spent = &spent_.products;
  } else if (work.kind == WorkKind::attention) {
    const auto width = static_cast<double>(work.inner);
    const double share =
        machine_.products.reached *
        (work.backward ? machine_.attention_backward : machine_.attention_forward) *
        width / (width + machine_.attention_half_width);
    // Hosts turn operands of 16 bits into fp32.
    const DType type = machine_.gpus || size_of(work.type) != 2 ? work.type : DType::f32;
    seconds = std::max(seconds, machine_.kernel_seconds +
                                    work.flops / (machine_.product_rate(type) * share));
    spent = &spent_.attention;
  }
  now_ += seconds;
  *spent += seconds;
}

double collective_seconds(const Machine& machine, const Placement& place, int ranks,
                          double bytes) {
  const Machine::Links& links = machine.links;
  const double latency = place.over_nodes ? links.network_latency : links.node_latency;
  double rate = links.node_rate;
  // A ring leaves a node once, over the cards of all its ranks there.
  if (place.over_nodes) rate = std::min(rate, links.network_rate * place.of_node);
  return latency * std::ceil(std::log2(ranks)) + bytes / rate;
}

// Where a group lies is found out once: plans of many experts' ranks send it millions of
// messages.
StepClock::Queue& StepClock::queue_of(std::string_view group) {
  const auto found = queues_.find(group);
  if (found != queues_.end()) return found->second;
  const Placement place = place_group(group, shape_, folding_, rank_,
                                      static_cast<int>(machine_.ranks_per_node));
  return queues_.emplace(std::string(group), Queue{place}).first->second;
}

// On CPUs the host's memory is a rank's own: copies take its time, those of activations
// read and write, and an update there is a kernel as any other.
double StepClock::host_seconds(const MessageWork& work) const {
  if (work.group == optim::host_updates)
    return machine_.gpus ? work.bytes / machine_.host_sweep_rate : 0;
  return (work.group == optim::host_copies ? 1 : 2) * work.bytes / machine_.sweep_rate;
}

// Copies between a GPU and its host run beside kernels, one after the other in each
// queue: their flight is over at its start, by which wait_for() knows them.
MessageFlight StepClock::copy_beside_kernels(const MessageWork& work) {
  double& busy = queue_of(work.group).busy_until;
  busy = std::max(now_, busy) + work.bytes / machine_.links.host_rate;
  return {busy, 0};
}

MessageFlight StepClock::message(const MessageWork& work) {
  const bool activations =
      work.group == engine::activations_out || work.group == engine::activations_in;
  if (machine_.gpus && (activations || work.group == optim::host_copies))
    return copy_beside_kernels(work);
  if (activations || work.group == optim::host_copies ||
      work.group == optim::host_updates) {
    const double seconds = host_seconds(work);
    now_ += seconds;
    spent_.host += seconds;
    return {now_, 0};
  }
  if (work.group == "pipeline") {
    spent_.stage_bytes = std::max(spent_.stage_bytes, work.bytes);
    return {now_, 0};
  }
  Queue& queue = queue_of(work.group);
  const double seconds =
      collective_seconds(machine_, queue.place, work.to_one ? 2 : work.ranks, work.bytes);
  const double start = std::max(now_, queue.busy_until);
  queue.busy_until = start + seconds;
  return {start, seconds};
}

double StepClock::wait_for(const MessageFlight& flight) {
  // What has passed since its start counts as far as messages move beside kernels.
  const double passed = std::max(0.0, now_ - flight.start);
  const double late = std::max(0.0, flight.start - now_);
  const double waits =
      late + std::max(0.0, flight.seconds - machine_.links.overlap * passed);
  now_ += waits;
  (flight.seconds > 0 ? spent_.waiting : spent_.host) += waits;
  return waits;
}

double StepClock::stage_message_seconds(double bytes) const {
  const Placement place = place_group("pipeline", shape_, folding_, rank_,
                                      static_cast<int>(machine_.ranks_per_node));
  Placement alone = place;
  alone.of_node = 1;
  return collective_seconds(machine_, alone, 2, bytes);
}

}  // namespace trireme::plan
