// BeatBoard: files in which the ranks of a node say that they run, and where they are.
// SPDX-License-Identifier: Apache-2.0
#include "comm/beat_board.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "base/error.hpp"
#include "base/format.hpp"

namespace trireme::comm {
namespace {

constexpr std::string_view prefix = "beats-";
constexpr int most_slots = 256;
// Where the texts begin, and the room that each has.
constexpr off_t texts_begin = most_slots * static_cast<off_t>(sizeof(Beat));
constexpr std::size_t text_room = 8192;

// FNV-1a, 32 bits (Fowler, Noll, Vo).
std::uint32_t check_of(std::string_view bytes) {
  std::uint32_t check = 2166136261U;
  for (const char byte : bytes)
    check = (check ^ static_cast<unsigned char>(byte)) * 16777619U;
  return check;
}

std::string_view bytes_of(const Beat& beat) {
  return {reinterpret_cast<const char*>(&beat), sizeof beat};
}

std::string number(int rank) {
  const std::string digits = std::to_string(rank);
  return digits.size() < 5 ? std::string(5 - digits.size(), '0') + digits : digits;
}

std::string file_name(int first, int part, const std::string& token) {
  return format("{}{}{}-{}", prefix, number(first),
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
std::vector<Beat> beats_in(int file) {
  std::vector<Beat> beats(1);
  if (read_at(file, beats.data(), sizeof(Beat), 0) != sizeof(Beat)) return {};
  const int slots = beats[0].is_signed() ? beats[0].slots : most_slots;
  beats.resize(static_cast<std::size_t>(std::clamp(slots, 1, most_slots)));
  const std::size_t more = (beats.size() - 1) * sizeof(Beat);
  const std::size_t got =
      more > 0 ? read_at(file, beats.data() + 1, more, sizeof(Beat)) : 0;
  beats.resize(1 + got / sizeof(Beat));
  return beats;
}

// The position as text, with less of what is in flight where it is long.
std::string text_of(Position position) {
  std::string text = write_position(position);
  for (; text.size() > text_room; text = write_position(position)) {
    if (!position.calls.empty())
      position.calls.pop_back();
    else if (!position.groups.empty())
      position.groups.pop_back();
    else
      return {};
  }
  return text;
}

Beat beat_of(const Position& p) {
  Beat beat;
  beat.rank = p.rank;
  beat.beat = static_cast<std::uint32_t>(p.beat);
  beat.step = p.step;
  beat.silent = static_cast<float>(p.silent);
  beat.allowed = static_cast<float>(p.allowed);
  beat.waiting = p.waiting ? 1 : 0;
  p.phase.copy(beat.phase.data(), beat.phase.size());
  return beat;
}

Position position_of(const Beat& beat, const HostTable& hosts) {
  const auto end = std::find(beat.phase.begin(), beat.phase.end(), '\0');
  Position position;
  position.rank = beat.rank;
  position.host = hosts.of(beat.rank);
  position.phase = std::string(beat.phase.begin(), end);
  position.step = beat.step;
  position.beat = beat.beat;
  position.silent = beat.silent;
  position.allowed = beat.allowed;
  position.waiting = beat.waiting != 0;
  position.told = false;
  return position;
}

// What the rank has told besides, if it is of this beat's time and whole.
void add_text(int file, std::size_t slot, const Beat& beat, Position& position) {
  std::string text(std::min<std::size_t>(beat.text_bytes, text_room), '\0');
  text.resize(read_at(file, text.data(), text.size(), text_at(slot)));
  if (text.empty() || check_of(text) != beat.text_check) return;
  auto whole = read_position(text);
  if (!whole || whole->rank != beat.rank) return;
  position.groups = std::move(whole->groups);
  position.calls = std::move(whole->calls);
  position.told = true;
}

}  // namespace

void Beat::sign() { check = check_of(bytes_of(*this).substr(sizeof check)); }

bool Beat::is_signed() const {
  return check == check_of(bytes_of(*this).substr(sizeof check)) && rank >= 0;
}

bool is_beat_file(std::string_view name) { return name.starts_with(prefix); }

BeatBoard::BeatBoard(std::string directory, const std::string& token,
                     const BeatPlace& place)
    : directory_(std::move(directory)),
      token_(token),
      name_(file_name(place.first, place.on_node / most_slots, token)),
      slot_(place.on_node % most_slots),
      slots_(std::min(place.node_size - place.on_node / most_slots * most_slots,
                      most_slots)) {}

void BeatBoard::publish(const Position& position, bool stands_still) const try {
  Beat beat = beat_of(position);
  beat.slots = static_cast<std::uint16_t>(slots_);
  const Directory folder = Directory::own(directory_);
  const Descriptor file = folder.open_file(name_, false);
  const auto slot = static_cast<std::size_t>(slot_);
  if (stands_still) {
    const std::string text = text_of(position);
    if (write_at(file.get(), text, text_at(slot))) {
      beat.text_bytes = static_cast<std::uint16_t>(text.size());
      beat.text_check = check_of(text);
    }
  }
  beat.sign();
  write_at(file.get(), bytes_of(beat), static_cast<off_t>(slot * sizeof(Beat)));
} catch (const Error&) {  // the others judge by what they see
}

void BeatBoard::leave() const try {
  const Directory folder = Directory::own(directory_);
  {
    const Descriptor file = folder.open_file(name_, false);
    const Beat none{};
    write_at(file.get(), bytes_of(none),
             static_cast<off_t>(static_cast<std::size_t>(slot_) * sizeof(Beat)));
    const std::vector<Beat> left = beats_in(file.get());
    if (std::any_of(left.begin(), left.end(),
                    [](const Beat& beat) { return beat.is_signed(); }))
      return;
  }
  folder.remove(name_);
} catch (const Error&) {  // the folder itself is gone
}

std::vector<Position> BeatBoard::read(const Directory& folder, const std::string& name,
                                      const HostTable& hosts, bool texts) const {
  std::vector<Position> positions;
  const Descriptor file = folder.read_file(name);
  if (!file.is_open()) return positions;
  const std::vector<Beat> beats = beats_in(file.get());
  for (std::size_t slot = 0; slot < beats.size(); ++slot) {
    if (!beats[slot].is_signed()) continue;
    positions.push_back(position_of(beats[slot], hosts));
    if (texts) add_text(file.get(), slot, beats[slot], positions.back());
  }
  return positions;
}

std::vector<std::string> BeatBoard::files(const Directory& folder) const {
  std::vector<std::string> own;
  for (std::string& name : folder.names())
    if (is_beat_file(name) && name.ends_with("-" + token_))
      own.push_back(std::move(name));
  return own;
}

std::vector<Position> BeatBoard::first_node(const HostTable& hosts) const try {
  return read(Directory::own(directory_), file_name(0, 0, token_), hosts, false);
} catch (const Error&) {
  return {};
}

std::vector<Position> BeatBoard::other_nodes(const HostTable& hosts) const try {
  const Directory folder = Directory::own(directory_);
  std::vector<Position> all;
  for (const std::string& name : files(folder))
    if (name != file_name(0, 0, token_))
      for (Position& position : read(folder, name, hosts, false))
        all.push_back(std::move(position));
  return all;
} catch (const Error&) {
  return {};
}

std::vector<Position> BeatBoard::all(const HostTable& hosts) const try {
  const Directory folder = Directory::own(directory_);
  std::vector<Position> all;
  for (const std::string& name : files(folder))
    for (Position& position : read(folder, name, hosts, true))
      all.push_back(std::move(position));
  return all;
} catch (const Error&) {
  return {};
}

}  // namespace trireme::comm
