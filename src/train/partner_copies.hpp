// Copies of a run's shards in the memory of nodes, each on two of them.
// SPDX-License-Identifier: Apache-2.0
// A job that lost a node goes on from them in the same allocation
// (docs/decisions/partner-copies.md).
#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include "comm/mesh.hpp"
#include "comm/world.hpp"
#include "config/run_config.hpp"
#include "io/background.hpp"
#include "io/checkpoint_snapshot.hpp"
#include "io/shard_copies.hpp"
#include "train/checkpoint_choice.hpp"
#include "train/copy_message.hpp"
#include "train/node_places.hpp"

namespace trireme::train {

// All calls but advance() are collective over the world.
class PartnerCopies {
 public:
  // Makes the folder of this run and job on each node. Throws an Agreed
  // Error(cannot_create) naming the folder, host and key.
  PartnerCopies(comm::World& world, comm::Mesh& mesh, const config::RunConfig& config);

  // At a start: the newest step after `after`, but not after `last`, of which every shard
  // lies whole on a node of this world, all of them made by one start of the run, with
  // the shards that hold `boxes` brought to this rank's node, those of `kept` too on rank
  // 0's; none: no reader. Says what it passes over. Copies of starts that the directory's
  // status.toml does not name do not count: another run of the directory has left them.
  ChosenCheckpoint find(std::int64_t after, std::int64_t last,
                        const std::vector<io::TensorBox>& boxes);
  // The run goes on from this step, or from none (-1) of the copies: others are removed,
  // also those that earlier jobs of this run have left on these nodes.
  // `boxes`: what a checkpoint holds of this rank from here on, for a copy of which
  // memory is taken.
  void start(std::int64_t step, const std::vector<io::TensorBox>& boxes);

  // Which names this start in the copies that it makes: status.toml has it from before
  // the first of them on.
  const std::string& attempt() const { return attempt_; }
  // Whether a copy is due after a step.
  bool due(std::int64_t step) const;
  // Begins one, after the end of the last one.
  void begin(io::CheckpointInfo info, const std::vector<io::TensorBox>& boxes);
  // Weights and moments are about to change: waits until they have been copied.
  void before_update();
  // Goes on without waiting.
  void poll() { advance(false); }
  // Waits for the one under way; what fails becomes a warning.
  void finish();
  // The run needs none any more.
  void remove();

 private:
  enum class Phase : std::uint8_t { idle, writing, sending };
  void remove_of_earlier_jobs() const;
  void advance(bool wait);
  void exchange();
  void agree_on_copies();

  comm::World& world_;
  comm::Mesh& mesh_;
  std::int64_t every_ = 0;
  std::string run_directory_;
  std::string attempt_;  // names this start of the run in its copies
  std::optional<NodePlaces> places_;
  io::ShardCopies copies_;
  std::optional<io::CheckpointSnapshot> snapshot_;
  Phase phase_ = Phase::idle;
  std::int64_t step_ = -1;   // of the copy under way, or the last one
  std::int64_t whole_ = -1;  // the newest step that is known to be whole on all nodes
  std::string failure_;      // of this rank, in the copy of step_
  bool told_ = true;         // the ranks have agreed on how the copy of step_ went
  io::Background work_;
  std::optional<SentCopy> sent_;
  std::optional<ReceivedCopy> received_;
};

// A folder as checkpoint.partner_directory writes it, on this rank: "$NAME" at its
// beginning is replaced. Throws Error(cannot_create) where the variable is not set.
std::string folder_for_copies(const std::string& written);
// Whether the copies of a run can be made, of which this makes none. Collective. Throws
// an Agreed error as the constructor does.
void check_copies(comm::World& world, const config::RunConfig& config);

}  // namespace trireme::train
