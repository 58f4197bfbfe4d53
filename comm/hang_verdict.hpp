// Finds the rank that blocks the others, from short summaries of all ranks' statuses.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "comm/rank_status.hpp"

namespace trireme::comm {

// Short form of a RankStatus: hashes of its oldest collective in flight, enough to tell a
// late rank from the majority.
struct StatusSummary {
  std::uint32_t group = 0;  // of the collective: name and ranks; 0: it is in none
  std::uint32_t sequence = 0;
  std::uint16_t call = 0;  // operation, tensor, bytes
  bool known = false;      // false: the rank has told nothing at all
  bool told = false;       // false: it gets on, or was stopped while it did
  bool waiting = false;
  bool in_flight = false;  // any collective, send or receive
};
static_assert(sizeof(StatusSummary) <= 16);

StatusSummary summary_of(const RankStatus& status);

// What ranks have told. Summaries of all ranks are at hand; a whole status is read when
// it is asked for.
class HangReports {
 public:
  virtual ~HangReports() = default;
  virtual int ranks() const = 0;
  virtual StatusSummary summary(int rank) const = 0;
  virtual std::string host(int rank) const = 0;
  // Nothing of a rank that is not known.
  virtual std::optional<RankStatus> status(int rank) const = 0;
};

// The verdict, and a line for each of at most `lines` ranks, those to blame first. On up
// to 256 ranks every collective in flight of every rank is judged, on more the oldest of
// each rank, and all those of one rank in each of these.
std::string describe_hang(const HangReports& reports, std::size_t lines,
                          std::int64_t* looks = nullptr);

}  // namespace trireme::comm
