// HeartbeatBoard: files in which the ranks of a node say that they run.
// SPDX-License-Identifier: Apache-2.0
#include "comm/heartbeat_board.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstring>

#include "base/error.hpp"
#include "base/fnv.hpp"
#include "base/format.hpp"
#include "comm/rank_names.hpp"

namespace trireme::comm {
namespace {

constexpr std::string_view prefix = "beats-";
constexpr int most_slots = 256;
// Where the texts begin, and the room that each has.
constexpr off_t texts_begin = most_slots * static_cast<off_t>(sizeof(Heartbeat));
constexpr std::size_t text_room = 8192;

std::uint32_t check_of(std::string_view bytes) { return fnv32(bytes); }

std::string_view bytes_of(const Heartbeat& beat) {
  return {reinterpret_cast<const char*>(&beat), sizeof beat};
}

std::string file_name(int first, int part, const std::string& token) {
  return format("{}{}{}-{}", prefix, five_digits(first),
                part == 0 ? std::string() : format(".{}", part), token);
}

bool write_at(int file, std::string_view bytes, off_t at) {
  const auto done =
      uninterrupted([&] { return ::pwrite(file, bytes.data(), bytes.size(), at); });
  return done == static_cast<ssize_t>(bytes.size());
}

// As many bytes as there are, up to what `to` holds.
std::size_t read_at(int file, void* to, std::size_t bytes, off_t at) {
  const auto done = uninterrupted([&] { return ::pread(file, to, bytes, at); });
  return done < 0 ? 0 : static_cast<std::size_t>(done);
}

off_t text_at(std::size_t slot) {
  return texts_begin + static_cast<off_t>(slot * text_room);
}

// The beats of a file. The first says how many there may be.
std::vector<Heartbeat> beats_in(int file) {
  std::vector<Heartbeat> beats(1);
  if (read_at(file, beats.data(), sizeof(Heartbeat), 0) != sizeof(Heartbeat)) return {};
  const int slots = beats[0].is_signed() ? beats[0].slots : most_slots;
  beats.resize(static_cast<std::size_t>(std::clamp(slots, 1, most_slots)));
  const std::size_t more = (beats.size() - 1) * sizeof(Heartbeat);
  const std::size_t got =
      more > 0 ? read_at(file, beats.data() + 1, more, sizeof(Heartbeat)) : 0;
  beats.resize(1 + got / sizeof(Heartbeat));
  return beats;
}

// The status as text, with less of what is in flight where it is long.
std::string text_of(RankStatus status) {
  std::string text = write_status(status);
  for (; text.size() > text_room; text = write_status(status)) {
    if (!status.calls.empty())
      status.calls.pop_back();
    else if (!status.groups.empty())
      status.groups.pop_back();
    else
      return {};
  }
  return text;
}

Heartbeat heartbeat_of(const RankStatus& p) {
  Heartbeat beat;
  beat.rank = p.rank;
  beat.beat = static_cast<std::uint32_t>(p.beat);
  beat.step = static_cast<std::uint32_t>(p.step);
  beat.silent = static_cast<float>(p.silent);
  beat.allowed = static_cast<float>(p.allowed);
  const StatusSummary summary = summary_of(p);
  beat.group = summary.group;
  beat.sequence = summary.sequence;
  beat.call = summary.call;
  beat.waiting = summary.waiting ? 1 : 0;
  beat.in_flight = summary.in_flight ? 1 : 0;
  p.phase.copy(beat.phase.data(), beat.phase.size());
  return beat;
}

RankStatus status_of(const Heartbeat& beat, const HostTable& hosts) {
  const auto end = std::find(beat.phase.begin(), beat.phase.end(), '\0');
  RankStatus status;
  status.rank = beat.rank;
  status.host = hosts.host(beat.rank);
  status.phase = std::string(beat.phase.begin(), end);
  status.step = beat.step;
  status.beat = beat.beat;
  status.silent = beat.silent;
  status.allowed = beat.allowed;
  status.waiting = beat.waiting != 0;
  status.told = false;
  return status;
}

// What the rank has told besides, if it is of this beat's time and whole.
void add_text(int file, std::size_t slot, const Heartbeat& beat, RankStatus& status) {
  std::string text(std::min<std::size_t>(beat.text_bytes, text_room), '\0');
  text.resize(read_at(file, text.data(), text.size(), text_at(slot)));
  if (text.empty() || check_of(text) != beat.text_check) return;
  auto whole = read_status(text);
  if (!whole || whole->rank != beat.rank) return;
  status.groups = std::move(whole->groups);
  status.calls = std::move(whole->calls);
  status.device = std::move(whole->device);
  status.told = true;
}

StatusSummary summary_in(const Heartbeat& beat) {
  return {.group = beat.group,
          .sequence = beat.sequence,
          .call = beat.call,
          .known = true,
          .told = beat.text_bytes > 0,
          .waiting = beat.waiting != 0,
          .in_flight = beat.in_flight != 0};
}

// f(beat, its slot) of what is whole.
template <class F>
void for_beats(const Directory& folder, const std::string& name, const F& f) {
  const Descriptor file = folder.read_file(name);
  if (!file.is_open()) return;
  const std::vector<Heartbeat> beats = beats_in(file.get());
  for (std::size_t slot = 0; slot < beats.size(); ++slot)
    if (beats[slot].is_signed()) f(beats[slot], slot);
}

// What lies in the files of a run.
class BoardReports final : public HangReports {
 public:
  BoardReports(std::string directory, std::vector<std::string> files,
               const HostTable& hosts, int ranks)
      : directory_(std::move(directory)),
        files_(std::move(files)),
        hosts_(hosts),
        told_(static_cast<std::size_t>(ranks)) {
    try {
      const Directory folder = Directory::own(directory_);
      for (std::size_t file = 0; file < files_.size(); ++file) read(folder, file);
    } catch (const Error&) {  // what was not read is not known
    }
  }

  int ranks() const override { return static_cast<int>(told_.size()); }
  StatusSummary summary(int rank) const override { return at(rank).summary; }
  std::string host(int rank) const override {
    return at(rank).summary.known ? hosts_.host(rank) : "unknown";
  }
  std::optional<RankStatus> status(int rank) const override try {
    const Told& told = at(rank);
    if (!told.summary.known) return {};
    const std::size_t slot = told.place % most_slots;
    const Descriptor file =
        Directory::own(directory_).read_file(files_[told.place / most_slots]);
    Heartbeat beat;
    const auto place = static_cast<off_t>(slot * sizeof(Heartbeat));
    if (!file.is_open() ||
        read_at(file.get(), &beat, sizeof beat, place) != sizeof beat ||
        !beat.is_signed() || beat.rank != rank)
      return {};
    RankStatus status = status_of(beat, hosts_);
    add_text(file.get(), slot, beat, status);
    return status;
  } catch (const Error&) {
    return {};
  }

 private:
  struct Told {
    StatusSummary summary;
    std::uint32_t place = 0;  // file and slot
  };
  const Told& at(int rank) const { return told_[static_cast<std::size_t>(rank)]; }
  void read(const Directory& folder, std::size_t file) {
    for_beats(folder, files_[file], [&](const Heartbeat& beat, std::size_t slot) {
      if (beat.rank >= ranks()) return;
      told_[static_cast<std::size_t>(beat.rank)] = {
          summary_in(beat), static_cast<std::uint32_t>(file * most_slots + slot)};
    });
  }

  std::string directory_;
  std::vector<std::string> files_;
  const HostTable& hosts_;
  std::vector<Told> told_;  // by rank
};

}  // namespace

void Heartbeat::sign() { check = check_of(bytes_of(*this).substr(sizeof check)); }

bool Heartbeat::is_signed() const {
  return check == check_of(bytes_of(*this).substr(sizeof check)) && rank >= 0;
}

bool is_beat_file(std::string_view name) { return name.starts_with(prefix); }

HeartbeatBoard::HeartbeatBoard(std::string directory, const std::string& token,
                               const HeartbeatPlace& place,
                               std::span<std::uint64_t> shared)
    : directory_(std::move(directory)),
      token_(token),
      name_(file_name(place.first, place.on_node / most_slots, token)),
      slot_(place.on_node % most_slots),
      slots_(std::min(place.node_size - place.on_node / most_slots * most_slots,
                      most_slots)),
      neighbours_(static_cast<std::size_t>(slot_)) {
  if (shared.empty()) return;
  const auto first = static_cast<std::size_t>(place.on_node - slot_);
  shared_ = shared.subspan(first * heartbeat_words,
                           static_cast<std::size_t>(slots_) * heartbeat_words);
}

std::span<std::uint64_t> HeartbeatBoard::words_of(int slot) const {
  return shared_.subspan(static_cast<std::size_t>(slot) * heartbeat_words,
                         heartbeat_words);
}

// Half of one has no right check, as in the file.
void HeartbeatBoard::share(const Heartbeat& beat) const {
  if (shared_.empty()) return;
  const auto words = std::bit_cast<std::array<std::uint64_t, heartbeat_words>>(beat);
  const std::span<std::uint64_t> own = words_of(slot_);
  for (std::size_t i = 0; i < words.size(); ++i)
    std::atomic_ref<std::uint64_t>(own[i]).store(words[i]);
}

std::vector<Heartbeat> HeartbeatBoard::shared_beats() const {
  std::vector<Heartbeat> beats(shared_.size() / heartbeat_words);
  for (std::size_t slot = 0; slot < beats.size(); ++slot) {
    std::array<std::uint64_t, heartbeat_words> words{};
    const std::span<std::uint64_t> from = words_of(static_cast<int>(slot));
    for (std::size_t i = 0; i < words.size(); ++i)
      words[i] = std::atomic_ref<std::uint64_t>(from[i]).load();
    beats[slot] = std::bit_cast<Heartbeat>(words);
  }
  return beats;
}

// Whether this rank writes for the others: no lower one has told anything lately.
bool HeartbeatBoard::leads() {
  if (shared_.empty()) return true;
  constexpr int patience = 2;  // looks
  const std::vector<Heartbeat> beats = shared_beats();
  bool lower_lives = false;
  for (std::size_t slot = 0; slot < neighbours_.size(); ++slot) {
    Neighbour& seen = neighbours_[slot];
    const bool grew = beats[slot].is_signed() && beats[slot].beat != seen.beat;
    seen.looks = grew ? 0 : seen.looks + 1;
    if (grew) seen.beat = beats[slot].beat;
    lower_lives = lower_lives || (beats[slot].is_signed() && seen.looks <= patience);
  }
  return !lower_lives;
}

// Again while they change: who stands still has then written a newer one than this.
void HeartbeatBoard::write_shared(int file) const {
  std::vector<Heartbeat> before;
  constexpr int most_turns = 3;
  for (int turn = 0; turn < most_turns; ++turn) {
    const std::vector<Heartbeat> now = shared_beats();
    const std::string_view bytes(reinterpret_cast<const char*>(now.data()),
                                 now.size() * sizeof(Heartbeat));
    if (!before.empty() && std::memcmp(before.data(), now.data(), bytes.size()) == 0)
      return;
    write_at(file, bytes, 0);
    before = now;
  }
}

void HeartbeatBoard::publish(const RankStatus& status, bool stands_still) try {
  Heartbeat beat = heartbeat_of(status);
  beat.slots = static_cast<std::uint16_t>(slots_);
  const bool leader = leads();
  if (!stands_still && !leader) {
    beat.sign();
    share(beat);
    return;
  }
  const Directory folder = Directory::own(directory_);
  const Descriptor file = folder.open_to_write(name_);
  const auto slot = static_cast<std::size_t>(slot_);
  if (stands_still) {
    const std::string text = text_of(status);
    if (write_at(file.get(), text, text_at(slot))) {
      beat.text_bytes = static_cast<std::uint16_t>(text.size());
      beat.text_check = check_of(text);
    }
  }
  beat.sign();
  share(beat);
  write_at(file.get(), bytes_of(beat), static_cast<off_t>(slot * sizeof(Heartbeat)));
  if (leader && !shared_.empty()) write_shared(file.get());
} catch (const Error&) {  // the others judge by what they see
}

void HeartbeatBoard::leave() try {
  const Heartbeat none{};
  share(none);
  const Directory folder = Directory::own(directory_);
  {
    const Descriptor file = folder.open_to_write(name_);
    write_at(file.get(), bytes_of(none),
             static_cast<off_t>(static_cast<std::size_t>(slot_) * sizeof(Heartbeat)));
    const std::vector<Heartbeat> left =
        shared_.empty() ? beats_in(file.get()) : shared_beats();
    if (std::any_of(left.begin(), left.end(),
                    [](const Heartbeat& beat) { return beat.is_signed(); }))
      return;
  }
  folder.remove(name_);
} catch (const Error&) {  // the folder itself is gone
}

std::vector<std::string> HeartbeatBoard::files() const {
  std::vector<std::string> own;
  for (std::string& name : Directory::own(directory_).names())
    if (is_beat_file(name) && name.ends_with("-" + token_))
      own.push_back(std::move(name));
  return own;
}

void HeartbeatBoard::first_node(const Take& take) const try {
  for_beats(Directory::own(directory_), file_name(0, 0, token_),
            [&](const Heartbeat& beat, std::size_t) { take(beat); });
} catch (const Error&) {  // nobody has told anything
}

void HeartbeatBoard::other_nodes(const Take& take) const try {
  const Directory folder = Directory::own(directory_);
  for (const std::string& name : files())
    if (name != file_name(0, 0, token_))
      for_beats(folder, name, [&](const Heartbeat& beat, std::size_t) { take(beat); });
} catch (const Error&) {  // the same
}

std::unique_ptr<HangReports> HeartbeatBoard::reports(const HostTable& hosts,
                                                     int ranks) const {
  std::vector<std::string> names;
  try {
    names = files();
  } catch (const Error&) {  // nobody has told anything
  }
  return std::make_unique<BoardReports>(directory_, std::move(names), hosts, ranks);
}

}  // namespace trireme::comm
