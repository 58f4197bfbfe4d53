// RankStatus: where a rank is, as its watchdog tells the others.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "comm/rank_list.hpp"

namespace trireme::comm {

// How far a rank has come in a group. Sends and receives do not count.
struct GroupProgress {
  std::string name;  // of the mesh axis
  RankList ranks;    // of the world
  std::int64_t entered = 0;
};

// A collective in flight.
struct CallInFlight {
  std::string group;
  std::optional<RankList> ranks;  // of the world, if it is known
  std::int64_t sequence = 0;
  std::string operation;  // "all_reduce"
  std::string tensor;     // "fp32[1024]"; empty: none
  std::int64_t bytes = 0;
  bool pair = false;  // a send or receive: its sequence counts with one peer
};

struct RankStatus {
  int rank = 0;
  std::string host;
  std::string phase;      // "training step"
  std::int64_t step = 0;  // optimizer steps done
  std::int64_t beat = 0;  // grows with every look of the rank's watchdog
  double silent = 0;      // seconds without progress
  double allowed = 0;     // such seconds that the phase may take
  bool waiting = false;   // for other ranks, in a collective
  std::vector<GroupProgress> groups;
  std::vector<CallInFlight> calls;  // oldest first
  std::string device{};             // "GPU 0000:3b:00.0"; empty: none
  bool told = true;                 // false: groups, calls and device are not known
};

// Serialises the status. A fixed last line lets read_status() detect a truncated text.
std::string write_status(const RankStatus& status);
// Nothing when the text is no whole status.
std::optional<RankStatus> read_status(std::string_view text);

// Who keeps the others waiting, judged from the statuses of all ranks (nullopt: that
// rank has told nothing). In this order: a collective that some ranks of its group have
// entered and others have not, best if those do not wait in any other; one in which ranks
// want different things; a rank that waits for nobody and does not get on. One line, then
// a line for each status, at most `lines`, those to blame first.
// Work grows with the ranks, not with their square; looks: adds how many statuses were
// looked at. (comm/hang_verdict.hpp judges ranks whose statuses lie elsewhere.)
std::string describe_hang(std::span<const std::optional<RankStatus>> statuses,
                          std::size_t lines, std::int64_t* looks = nullptr);

}  // namespace trireme::comm
