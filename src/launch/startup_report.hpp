// Start-up report: where each rank runs, and what is wrong with that.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "comm/world.hpp"
#include "launch/compute_device.hpp"

namespace trireme::launch {

struct RankPlace {
  std::string host;
  std::string device;      // "CPU", or a GPU's bus id and name
  int device_numa = -1;    // NUMA node of the GPU; -1: unknown or none
  std::vector<int> cores;  // logical ones that the rank may run on, ascending
  std::vector<int> numa_nodes;
  int threads = 1;
};

// Of each rank; made when it is asked for, for those of all ranks together are large.
struct RankPlaces {
  RankPlaces(int count, std::function<RankPlace(int rank)> place)
      : ranks(count), of(std::move(place)) {}
  // Of a list that outlives it.
  RankPlaces(const std::vector<RankPlace>& places);  // NOLINT: a list is one, too

  int ranks = 0;
  std::function<RankPlace(int rank)> of;
};

// A table with a row a rank; above 16 ranks a row for each group of neighbouring hosts
// that look the same, with the first one's cores.
std::string placement_table(const RankPlaces& ranks);

// A line for each thing that makes ranks wait for each other: more threads than cores,
// for a rank or for all ranks of a host that are bound to the same cores; cores that are
// far from the rank's GPU. With the remedy; four hosts at most, then their number.
std::vector<std::string> placement_warnings(const RankPlaces& ranks);

// Prints node, table and warnings on rank 0. Collective over the world.
void report_placement(comm::World& world, const ComputeDevice& on, int threads);

// Throws, on every rank, when the effective deck (bad_content) or the program's own file
// (resources) is not the same on all nodes, naming the first rank that differs.
// Collective over the world.
void check_same_everywhere(comm::World& world, const std::string& deck,
                           const std::string& program_file = "/proc/self/exe");

}  // namespace trireme::launch
