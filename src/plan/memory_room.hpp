// Whether a plan fits into the memory that there is, and what would make it fit.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "plan/plan.hpp"

namespace trireme::plan {

// What one rank may take where it computes, and who says so.
struct MemoryRoom {
  double bytes = 0;  // 0: not known
  std::string from;  // "this node's memory, for 4 ranks"
  // Beside GPUs, of the node's memory; 0: not known.
  double host_bytes = 0;
  std::string host_from{};
};

// Whether a rank with a GPU keeps such memory in its node's.
bool is_in_node(MemoryClass c);

// What a rank holds where it computes: on a GPU without batches and what is offloaded,
// and with what NCCL is estimated to take.
double device_bytes(const Plan& plan, const PlannedDevice& on);

// What a rank with a GPU holds in the node's memory: batches, texts, what is offloaded,
// snapshots and copies of shards. 0 on CPUs, where these are among device_bytes().
double host_bytes(const Plan& plan, const PlannedDevice& on);

// The most that a rank of any stage holds in either place.
struct MemoryNeed {
  double device = 0;
  double host = 0;

  bool fits(const MemoryRoom& room) const {
    return (room.bytes <= 0 || device <= room.bytes) &&
           (room.host_bytes <= 0 || host <= room.host_bytes);
  }
};
MemoryNeed memory_need(std::span<const Plan> plans, const PlannedDevice& on);

// Overrides "section.key=value" of the deck that may take less memory, at the price of
// time or of another mesh of the same ranks; the trained model stays the same.
std::vector<std::string> memory_changes(const config::RunConfig& config);

// The deck with one more override, or nothing where it breaks a rule.
using Change = std::function<std::optional<config::RunConfig>(const std::string&)>;

// Empty if every stage's plan fits, or nothing is known of the room. Else the refusal:
// how much is missing, a table by class of memory and pipeline stage with the largest
// stage marked, and the two changes of one key that fit at the least time of a step
// (where none fits, those that save most), with what each saves: each is planned. Times
// are those of on.machine, or of a nominal machine, which says no more than which is
// faster.
std::string why_no_room(const config::RunConfig& config, std::span<const Plan> plans,
                        const PlannedDevice& on, const MemoryRoom& room,
                        const Change& change);

// The same table and changes for a rank that was let start, and could not allocate all:
// what fits is what takes no more than `held`, the bytes that it had where it computes.
std::string why_out_of_memory(const config::RunConfig& config,
                              std::span<const Plan> plans, const PlannedDevice& on,
                              double held, const Change& change);

}  // namespace trireme::plan
