// ActionGraphs: the kernels of a microbatch's forward and backward as CUDA graphs.
// SPDX-License-Identifier: Apache-2.0
// Recorded once, each is launched with one call (docs/decisions/cuda-graphs.md).
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "base/graph.hpp"
#include "base/weight_access.hpp"
#include "comm/recording.hpp"
#include "schedule/schedule.hpp"

namespace trireme::engine {

class ActionGraphs {
 public:
  // Queues an action's kernels and tells the given owner of the weights which gradients
  // are complete.
  using Work = std::function<void(WeightAccess& weights)>;

  explicit ActionGraphs(Device device) : device_(device) {}

  // What kernels of actions are the same: all that they do not read from memory at the
  // same addresses each time.
  struct Key {
    schedule::ActionKind kind{};
    int chunk = 0;
    std::int64_t slot = 0;  // of activations
    // Where the input and the output's gradient lie: in another chunk, or as received.
    const void* input = nullptr;
    const void* gradient = nullptr;
    bool first = false;  // of a step, which makes what its other microbatches find
    bool last = false;   // of a step, with which sums over replicas begin
    auto operator<=>(const Key&) const = default;
  };

  // Has the kernels of `work` run. For each key: the first time as they are, when
  // libraries choose their plans and the working memory of kernels takes its size; the
  // second time they are recorded; from then on what was recorded is launched and `work`
  // is not called. What it tells of gradients reaches `weights` each time, after the
  // kernels were queued: reductions that begin with it are not part of the graph. Of the
  // last of a step they are, where `launched` is given, which is told of those gradients
  // after each launch but the first.
  // Throws Error(transport) where it does what cannot be recorded (base/graph.hpp).
  using Launched = std::function<void(std::span<Param* const> ready)>;
  void run(Stream& stream, const Key& key, WeightAccess& weights, const Work& work,
           const Launched& launched = {});

  // Where graphs hold collectives all ranks of a group record and launch alike, or NCCL
  // hangs; but the working memory of kernels moves on each rank for itself. And what an
  // action puts off for a later one is launched with that, or by neither of the two. So
  // steps are alike: called before the first run() of each, with `any`, which says
  // whether a fact is true on any rank. A step in which memory had moved on some rank
  // since the last one, such as the first, or before which kernels have become others on
  // some rank, launches kernels one by one. Returns whether this one does.
  bool begin_step(bool others, const std::function<bool(bool)>& any);
  // Kernels have become others: all is recorded anew.
  void forget() { recordings_.clear(); }

  // So far.
  std::int64_t recorded() const { return recorded_; }
  std::int64_t launched() const { return launched_; }

 private:
  struct Recording {
    std::optional<Graph> graph;  // none yet: the next run is recorded
    std::vector<Param*> ready;   // whose gradients it contributes to, in order
    comm::RecordedCalls calls;   // of groups
  };

  void forget_what_moved();

  Device device_;
  std::map<Key, Recording> recordings_;
  std::int64_t moves_ = -1;  // of the kernels' working memory, when they were recorded
  std::int64_t recorded_ = 0, launched_ = 0;
  bool together_ = false, singly_ = false;  // see begin_step()
};

}  // namespace trireme::engine
