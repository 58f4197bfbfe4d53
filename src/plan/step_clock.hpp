// StepClock: how long what an engine on meta does would take on a machine.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "base/work_meter.hpp"
#include "comm/mesh.hpp"
#include "plan/machine.hpp"

namespace trireme::plan {

// How the ranks of a group lie on nodes, ranks being dealt out node by node.
struct Placement {
  int of_node = 1;  // ranks of the group on the node of its first rank
  bool over_nodes = false;
};

// Where the group of `rank` that is called `group` (Mesh) lies.
Placement place_group(std::string_view group, const comm::MeshShape& shape,
                      const comm::Folding& folding, int rank, int ranks_per_node);

// A message in a group of `ranks` that lies so: each sends `bytes`.
double collective_seconds(const Machine& machine, const Placement& place, int ranks,
                          double bytes);

// One rank's clock. A product takes its FLOPs over the rate of its type and shape, or its
// bytes over the rate of sweeps, whichever is longer; attention its FLOPs, other kernels
// their bytes; each at least a launch. A message takes a latency for each step of a tree
// and its bytes over the rate of its links; messages of one group follow one another.
// Sends between stages take no time here: the schedule's simulation has them. What is
// offloaded is copied beside kernels on a GPU, and waited for where it is late; gathers
// of weights do not wait for the copies before them. The host updates while the rank
// waits.
class StepClock final : public WorkMeter {
 public:
  StepClock(const Machine& machine, const comm::MeshShape& shape,
            const comm::Folding& folding, int rank);

  void kernel(const KernelWork& work) override;
  MessageFlight message(const MessageWork& work) override;
  double wait_for(const MessageFlight& flight) override;
  double seconds() const override { return now_; }

  // A message of `bytes` from one stage to the next.
  double stage_message_seconds(double bytes) const;
  // Of all that ran since the clock was made, by kind.
  struct Spent {
    double products = 0, attention = 0, sweeps = 0, waiting = 0;
    double host = 0;         // waiting for copies to and from the host; updates there
    double stage_bytes = 0;  // most bytes of one send between stages
  };
  const Spent& spent() const { return spent_; }

 private:
  // The messages of a group follow one another.
  struct Queue {
    Placement place;
    double busy_until = 0;
  };

  Queue& queue_of(std::string_view group);
  double host_seconds(const MessageWork& work) const;
  MessageFlight copy_beside_kernels(const MessageWork& work);
  double rate_of_bytes(const KernelWork& work) const;

  const Machine& machine_;
  comm::MeshShape shape_;
  comm::Folding folding_;
  int rank_;
  double now_ = 0;
  std::map<std::string, Queue, std::less<>> queues_;  // by the group's name
  Spent spent_;
};

}  // namespace trireme::plan
