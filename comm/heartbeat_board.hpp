// HeartbeatBoard: files in which the ranks of a node say that they run.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/directory.hpp"
#include "comm/hang_verdict.hpp"
#include "comm/host_table.hpp"
#include "comm/rank_status.hpp"

namespace trireme::comm {

// What a rank says at every look of its watchdog: as many bytes whatever the rank is in,
// and however many others there are.
struct Heartbeat {
  std::uint32_t check = 0;  // of the bytes after it: of one half written it is wrong
  std::int32_t rank = 0;
  std::uint32_t beat = 0;        // grows
  std::uint16_t text_bytes = 0;  // of its status as text; 0: it gets on, and tells none
  std::uint16_t slots = 0;       // of the file
  std::uint32_t step = 0;
  float silent = 0, allowed = 0;  // seconds, as in RankStatus
  std::uint32_t text_check = 0;
  std::uint32_t group = 0, sequence = 0;  // as in StatusSummary, down to the phase
  std::uint16_t call = 0;
  std::uint8_t waiting = 0, in_flight = 0;
  std::array<char, 20> phase{};

  void sign();
  bool is_signed() const;
};
static_assert(sizeof(Heartbeat) == 64);
inline constexpr int heartbeat_words = sizeof(Heartbeat) / sizeof(std::uint64_t);

// Which file of a node, and which place in it.
struct HeartbeatPlace {
  int first = 0;  // rank of the world that is the node's first
  int on_node = 0, node_size = 1;
};

// One file for a node (for each 256 ranks of it), with a beat of 64 bytes for each of its
// ranks, and behind the beats room for a status as text, which a rank writes only while
// it does not get on. While all is well one rank writes the beats of all, which the
// others leave in memory that the node shares: the lowest whose beat grows. A rank that
// does not get on writes its own place. Nothing is locked: who reads sees from checks
// what is whole. Any thread, one at a time. What cannot be written or read counts as not
// told: the next look tries again.
class HeartbeatBoard {
 public:
  // token: of this run, so that what earlier runs left does not count. shared:
  // heartbeat_words for each rank of the node; empty: each rank writes for itself.
  HeartbeatBoard(std::string directory, const std::string& token,
                 const HeartbeatPlace& place, std::span<std::uint64_t> shared = {});

  // Tells this rank's beat; with its status, if it stands still.
  void publish(const RankStatus& status, bool stands_still);
  // Takes this rank's beat away, and the file with the last one.
  void leave();

  // What ranks have told last, beat by beat: of the node of rank 0; of all other nodes.
  using Take = std::function<void(const Heartbeat&)>;
  void first_node(const Take& take) const;
  void other_nodes(const Take& take) const;
  // Of all of `ranks` ranks: 16 bytes of each are kept, and statuses read when they are
  // asked for. Those of ranks that get on are marked as not `told`.
  std::unique_ptr<HangReports> reports(const HostTable& hosts, int ranks) const;

 private:
  // A lower rank of the file, as this one saw it last.
  struct Neighbour {
    std::uint32_t beat = 0;
    int looks = 0;  // since it grew
  };

  std::vector<std::string> files() const;
  std::span<std::uint64_t> words_of(int slot) const;
  void share(const Heartbeat& beat) const;
  std::vector<Heartbeat> shared_beats() const;
  bool leads();
  void write_shared(int file) const;

  std::string directory_, token_, name_;
  int slot_ = 0, slots_ = 1;
  std::span<std::uint64_t> shared_;    // of this file's ranks
  std::vector<Neighbour> neighbours_;  // of lower slots
};

// Whether a name is that of such a file.
bool is_beat_file(std::string_view name);

}  // namespace trireme::comm
