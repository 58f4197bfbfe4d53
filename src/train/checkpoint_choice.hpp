// Which checkpoint of a run's own to go on from.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/world.hpp"
#include "config/run_config.hpp"
#include "io/checkpoint.hpp"

namespace trireme::train {

// A checkpoint that a run goes on from.
struct ChosenCheckpoint {
  std::string path;  // "": none
  // Open, with all digests compared.
  std::shared_ptr<io::CheckpointReader> reader{};
  bool of_copies = false;  // in the memory of nodes (PartnerCopies)
  bool of_other = false;   // of another run.directory
};

// Whether what a crash left in the folder of checkpoints is put right.
enum class Repair : bool { no, yes };

// Looks for a checkpoint elsewhere: the newest whole one of a step after `after`, but not
// after `last`; no reader: none. Collective.
using FindElsewhere =
    std::function<ChosenCheckpoint(std::int64_t after, std::int64_t last)>;

// What checkpoint.resume of a run means; no reader: the run begins. A path outside the
// run's own checkpoints/ begins the run, which goes on from its own later ones, on the
// disk or elsewhere, as with "auto". Repair::yes: what a crash left in the folder is
// repaired as below, else nothing is written. Collective. Throws an
// Agreed Error(cannot_create) where the folder holds checkpoints that the run may not
// have, Error(bad_content) as below and where the mesh may not change, and as readers do.
ChosenCheckpoint chosen_checkpoint(comm::World& world, const config::RunConfig& config,
                                   Repair repair, const FindElsewhere& find = {});

// Steps that have a checkpoint below `directory`, complete or not, as rank 0 sees them:
// newest first. Repair::yes: what a crash left in the folder is removed before, for which
// rank 0 holds the run's lock. Collective. Throws an Agreed Error(cannot_create) or
// Error(io).
std::vector<std::int64_t> checkpoint_steps(comm::World& world,
                                           const std::string& directory, Repair repair);

// The newest checkpoint below `directory` whose files are as they were written, all
// digests compared, which the ranks share out, or the one elsewhere that is newer; none
// when there is no checkpoint. `steps`: checkpoint_steps() of the directory. Of each
// damaged one that is passed over there is a warning, which names the file and what is
// taken. `latest` is made to point at the checkpoint that is returned, or the newest that
// has all its files. Rank 0 holds the run's lock. Collective. Throws an Agreed
// Error(bad_content) when all are damaged, or when the newest was written by a program
// with a newer format, and Error(missing_input) or Error(io) for one that cannot be read.
ChosenCheckpoint newest_whole_checkpoint(comm::World& world, const std::string& directory,
                                         const std::vector<std::int64_t>& steps,
                                         const FindElsewhere& find = {});

// Compares all digests, which the ranks share out. What the lowest rank that finds damage
// says, on every rank; "" where there is none. Collective. Throws an Agreed error where a
// file cannot be read, which is no damage.
std::string first_damage(comm::World& world, io::CheckpointReader& reader);

// For a start from elsewhere: makes `latest` point at the newest that has all its files.
// `steps`: checkpoint_steps() of the directory. `next`: what will be read and proved
// next: if that is the newest, and `latest` names it, nothing is read for it here.
// Collective. Throws an Agreed Error(cannot_create) or Error(io).
void repair_latest(comm::World& world, const std::string& directory,
                   const std::vector<std::int64_t>& steps, const std::string& next = "");

}  // namespace trireme::train
