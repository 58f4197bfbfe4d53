// The table of a sweep's points, and which of them are to be run again.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "app/run_state.hpp"
#include "app/sweep_manifest.hpp"

namespace trireme::app {

// One a point, by index.
std::vector<RunState> point_states(const SweepManifest& manifest);

// Index of the point with the lowest last loss, of validation if every candidate has one:
// among those that are done, or among all while none is. -1: no point has a loss.
std::int64_t best_point(const std::vector<RunState>& states);

// A line a point, the best one marked; then how many are in which state, and the best.
std::string status_table(const SweepManifest& manifest,
                         const std::vector<RunState>& states);

// The same for programs: a JSON array of points, or CSV with a line of names. Each point
// has its index, directory, state, step and steps, last losses, whether it is the best,
// its overrides (in CSV in one field) and its note.
std::string status_json(const SweepManifest& manifest,
                        const std::vector<RunState>& states);
std::string status_csv(const SweepManifest& manifest,
                       const std::vector<RunState>& states);

// Points that are neither done nor running; those that diverged (status 80) and would
// again only if `all`.
std::vector<std::int64_t> unfinished(const std::vector<RunState>& states, bool all);

// "0,3-5,9"
std::string array_expression(const std::vector<std::int64_t>& indices);

// A line a job array: `sbatch --array=0,3-5 SCRIPT`. An array's indices end at 999, as
// Slurm has it where no one changed it, so later points come with an offset: `sbatch
// --array=0-4 SCRIPT 1000`.
std::string submit_commands(const std::vector<std::int64_t>& indices,
                            const std::string& script);

}  // namespace trireme::app
