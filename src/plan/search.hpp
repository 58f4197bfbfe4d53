// Search: the fastest decks of a space that fit, planned exactly, and why they win.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "plan/memory_room.hpp"
#include "plan/prediction.hpp"
#include "plan/quick_estimate.hpp"
#include "plan/search_space.hpp"

namespace trireme::plan {

// What a quick estimate says too much at most: estimates are taken this much lower.
inline constexpr double estimate_margin = 0.03;

struct SearchLimits {
  std::size_t top = 10;
  std::size_t most_plans = 96;  // of engines, those of the winner's neighbours aside
};

// A candidate with plans of its own.
struct PlannedCandidate {
  Candidate candidate;
  double bytes = 0;              // of the rank that holds most
  double host_bytes = 0;         // the same beside GPUs, in the node's memory
  double estimated_seconds = 0;  // as the quick estimate had it
  Prediction prediction;
  double seconds() const { return prediction.step_seconds; }
};

// A deck of the space that differs from the winner in one thing.
struct Neighbour {
  std::string difference;                // "parallel.tensor = 8 instead of 4"
  std::optional<PlannedCandidate> plan;  // none: the deck's rules refuse it
};

struct SearchResult {
  std::vector<PlannedCandidate> ranked;  // those that fit, the fastest first
  std::vector<PlannedCandidate>
      planned;  // all that were planned, in the order of planning
  std::size_t candidates = 0, refused = 0, too_large = 0;
  // How many of `ranked` no deck that was not planned can be faster than, if a quick
  // estimate says no more than estimate_margin too much.
  std::size_t proven = 0;
  double least_bytes = 0;             // by the quick estimate, of all candidates
  std::vector<Estimate> estimated;    // that fit by the quick estimate, for the picture
  std::vector<Neighbour> neighbours;  // of the winner
};

// Best first: candidates are taken in the order of their quick estimates; one that
// comes up is first simulated, then planned by engines on meta, and is final when it
// comes up again with the plan's time. Ties go to less memory, then to the earlier one
// in the space. Pure: the same result for the same deck and machine file.
SearchResult search(const SearchSpace& space, const PlannedDevice& on,
                    const MemoryRoom& room, const SearchLimits& limits);

// The table of the best, how the search went, and a sentence for each neighbour.
std::string describe(const SearchResult& result, const SearchSpace& space,
                     const MemoryRoom& room, std::size_t top);

}  // namespace trireme::plan
