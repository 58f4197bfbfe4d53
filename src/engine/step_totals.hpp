// StepTotals: what the ranks add up and agree on in each step.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "base/memory.hpp"
#include "comm/mesh.hpp"
#include "engine/ranked_value.hpp"
#include "engine/work_clock.hpp"
#include "parallel/expert_rounds.hpp"

namespace trireme::engine {

// Energy that was used, of GPUs and of nodes; in a sum each counts once.
struct Joules {
  static constexpr float unknown = std::numeric_limits<float>::quiet_NaN();

  float gpus = unknown, nodes = unknown;
};

// Small reductions, all collective over the mesh. On meta they are counted by the mesh's
// groups and return what was given.
class StepTotals {
 public:
  struct Outcome {
    // Summed over replicas and stages; NaN if not finite anywhere.
    double loss = 0;
    int stop_request = 0;    // the greatest of all ranks'
    double memory_peak = 0;  // bytes, of the rank that held most
    double squares = 0;      // of the gradient, as ParameterStore has them of a rank
    parallel::ExpertRounds rounds{};  // of experts with a bound on their memory
    Joules joules{};  // summed; not known where a rank does not know its own
  };

  // The mesh outlives this. device: of the engine; the totals lie on the host beside it.
  StepTotals(comm::Mesh& mesh, Device device);
  // From now on the slowest ranks of several hosts are known, this rank's being number
  // `host` of `hosts`. Alike on all ranks.
  void tell_apart(int host, int hosts);

  // Number of real tokens (or pairs) of the global batch, from this rank's.
  double tokens(double mine);
  // values, summed over replicas and stages.
  void sum(std::span<double> values);
  // What a rank did in a step's schedule, in seconds: in all, and not waiting for another
  // stage.
  struct Work {
    double run = 0, busy = 0;
    double own = 0;  // of forwards and backwards, not waiting for any rank
  };
  // Starts to count what is not spent waiting in the mesh's groups.
  WorkClock work_clock() const { return WorkClock(groups_); }
  // The outcome of a step from each rank's: one small reduction, in which a row of each
  // rank comes to rank 0, where they are put together.
  Outcome finish(const Outcome& mine, const Work& work);
  // loss summed over replicas and stages, tokens over replicas.
  void sum_validation(double& loss, double& tokens);

  // On rank 0, of the last finish(), for each rank of the pipeline, as a mean over the
  // ranks beside it: the share of the time of the slowest rank's schedule in which it did
  // not work. Empty without a pipeline.
  const std::vector<double>& idle_shares() const { return idle_shares_; }
  // On rank 0, of the last finish(), of all ranks the one that took longest for its own
  // work, beside the mean of the ranks with the same work: those that hold the same
  // weights. Empty where no rank has others like it.
  const std::optional<RankedValue>& slowest() const { return slowest_; }
  // The same of several hosts: the slowest rank of each of those that are slowest, the
  // first of which is slowest(). Each host has one of `host_slots` slots, in which the
  // slowest rank wins. Where there are more hosts than slots, who shares one with whom
  // changes from step to step.
  std::vector<RankedValue> slowest_of_hosts(std::size_t most) const;
  // Whether of two hosts only the slower one was seen in the last finish().
  bool share_a_slot(int host, int other) const { return slot_of(host) == slot_of(other); }
  static constexpr int host_slots = 64;
  std::size_t bytes() const { return values_.bytes(); }

 private:
  // What a rank tells the others of a step, and of what they make of it: as much as may
  // travel in one row. Two whole numbers share a place as low + 2^20 high, two of 32 bits
  // as their bits.
  enum At : std::size_t {
    loss_at,
    // Low: request to stop + 16 x most rounds of experts; high: layers in rounds.
    stop_at,
    memory_at,   // bytes, at the peak
    squares_at,  // of the gradient
    own_at,      // seconds of its own work
    work_at,     // seconds of the schedule, and of them at work
    joules_at,   // of GPUs, and of nodes
    host_at      // low: the host's number; high: rounds of all layers
  };
  static constexpr std::int64_t row_values = host_at + 1;
  void combine_rows(const TensorView& rows_PN, const TensorView& out_N);
  void find_slow(std::span<const double> rows, std::size_t ranks, int first);
  std::size_t slot_of(int host) const;
  void sum_loss();  // the first value, over stages

  comm::Mesh& mesh_;
  Stream stream_;

  std::vector<comm::Group*> groups_;
  Buffer values_;  // f64 [row_values]
  std::array<double, host_slots> slots_{};
  std::vector<double> idle_shares_;
  std::optional<RankedValue> slowest_;
  int host_ = 0, hosts_ = 1;
  std::uint64_t round_ = 0;  // finish() so far
};

}  // namespace trireme::engine
