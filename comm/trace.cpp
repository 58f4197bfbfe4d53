// Trace: counts collectives, and keeps the last of them for the flight recorder.
// SPDX-License-Identifier: Apache-2.0
#include "comm/trace.hpp"

#include <algorithm>
#include <chrono>

#include "base/format.hpp"
#include "base/stopwatch.hpp"
#include "base/timeline.hpp"

namespace trireme::comm {
namespace {

double seconds_since_first_call() {
  using Clock = std::chrono::steady_clock;
  static const Clock::time_point first = Clock::now();
  return seconds_since(first);
}

std::string line_of(const Trace::Entry& e) {
  return format(
      "\n  {} #{} {} on axis '{}', started at {} s, {}", name_of(e.kind), e.sequence,
      tensor_text(e.dtype, e.elements), e.group.data(), fixed(e.start_seconds, 3),
      e.end_seconds < 0 ? "in flight" : "ended at " + fixed(e.end_seconds, 3) + " s");
}

bool is_pair(Collective kind) {
  return kind == Collective::send || kind == Collective::receive;
}

std::int64_t bytes_of(const Trace::Entry& e) {
  return e.elements * static_cast<std::int64_t>(size_of(e.dtype));
}

// An entry that has just ended, in the timeline, whose clock is another.
void show(const Trace::Entry& e, std::int64_t id) {
  const std::int64_t now = Timeline::now();
  Timeline::Event event{.name = name_of(e.kind).data(),
                        .begin_ns = now - static_cast<std::int64_t>(
                                              (e.end_seconds - e.start_seconds) * 1e9),
                        .end_ns = now,
                        .id = id};
  event.set_group(e.group.data());
  event.note({.key = "dtype", .word = name_of(e.dtype).data()});
  event.note({.key = "bytes", .number = bytes_of(e)});
  event.note({.key = "sequence", .number = e.sequence});
  timeline().add(event);
}

}  // namespace

std::string tensor_text(DType dtype, std::int64_t elements) {
  return format("{}[{}]", name_of(dtype), elements);
}

int Trace::add_group(std::string_view name, const RankList& ranks) {
  const std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < groups_.size(); ++i)
    if (groups_[i].name == name && groups_[i].ranks == ranks) return static_cast<int>(i);
  groups_.push_back({std::string(name), ranks, 0});
  times_.emplace_back();
  return static_cast<int>(groups_.size()) - 1;
}

std::int64_t Trace::begin(std::string_view name, Collective kind, std::int64_t sequence,
                          DType dtype, std::int64_t elements, int group) {
  mark();
  const std::lock_guard lock(mutex_);
  Entry& entry = ring_[static_cast<std::size_t>(count_ % capacity)];
  entry.group.fill('\0');
  std::copy_n(name.begin(), std::min(name.size(), entry.group.size() - 1),
              entry.group.begin());
  entry.sequence = sequence;
  entry.elements = elements;
  entry.kind = kind;
  entry.dtype = dtype;
  entry.members = group;
  entry.on_device = false;
  entry.start_seconds = seconds_since_first_call();
  entry.end_seconds = -1;
  if (group >= 0 && !is_pair(kind))
    groups_[static_cast<std::size_t>(group)].entered = sequence;
  return count_++;
}

void Trace::end(std::int64_t id) {
  if (id == none) return;
  mark();
  const std::lock_guard lock(mutex_);
  if (id <= count_ - 1 - capacity) return;  // overwritten by younger ones
  Entry& entry = ring_[static_cast<std::size_t>(id % capacity)];
  entry.end_seconds = seconds_since_first_call();
  if (Timeline::records()) show(entry, id);
  if (entry.members < 0 || entry.on_device) return;
  CallTimes& times = times_[static_cast<std::size_t>(entry.members)]
                           [static_cast<std::size_t>(entry.kind)];
  ++times.ended;
  times.seconds += entry.end_seconds - entry.start_seconds;
  times.bytes += static_cast<double>(bytes_of(entry));
}

void Trace::carried_by_device(std::int64_t id) {
  if (id == none) return;
  const std::lock_guard lock(mutex_);
  if (id <= count_ - 1 - capacity) return;
  Entry& entry = ring_[static_cast<std::size_t>(id % capacity)];
  entry.on_device = true;
  if (entry.members >= 0)
    ++times_[static_cast<std::size_t>(entry.members)]
            [static_cast<std::size_t>(entry.kind)]
                .on_device;
}

CallTimesByKind Trace::times_of(std::string_view group) const {
  const std::lock_guard lock(mutex_);
  CallTimesByKind sum{};
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    if (groups_[i].name != group) continue;
    for (std::size_t kind = 0; kind < sum.size(); ++kind) sum[kind] += times_[i][kind];
  }
  return sum;
}

std::int64_t Trace::count() const {
  const std::lock_guard lock(mutex_);
  return count_;
}

Trace::Entry Trace::entry(std::int64_t id) const {
  const std::lock_guard lock(mutex_);
  require(id >= 0 && id < count_ && id >= count_ - capacity,
          "entry {} is not in the trace of {} collectives", id, count_);
  return at(id);
}

std::string Trace::last(std::int64_t entries) const {
  const std::lock_guard lock(mutex_);
  std::string lines;
  const std::int64_t held = std::min(count_, capacity);
  for (auto id = count_ - std::min(entries, held); id < count_; ++id)
    lines += line_of(at(id));
  return lines;
}

std::string Trace::in_flight(std::int64_t entries) const {
  const std::lock_guard lock(mutex_);
  std::string lines;
  for (auto id = count_ - std::min(count_, capacity); id < count_ && entries > 0; ++id) {
    if (at(id).end_seconds >= 0) continue;
    lines += line_of(at(id));
    --entries;
  }
  return lines;
}

std::vector<GroupProgress> Trace::groups() const {
  const std::lock_guard lock(mutex_);
  return groups_;
}

std::vector<CallInFlight> Trace::calls() const {
  constexpr std::size_t most = 16;
  const std::lock_guard lock(mutex_);
  std::vector<CallInFlight> calls;
  for (auto id = oldest(); id < count_ && calls.size() < most; ++id) {
    const Entry& e = at(id);
    if (e.end_seconds >= 0) continue;
    std::optional<RankList> ranks;
    if (e.members >= 0) ranks = groups_[static_cast<std::size_t>(e.members)].ranks;
    calls.push_back({e.group.data(), ranks, e.sequence, std::string(name_of(e.kind)),
                     tensor_text(e.dtype, e.elements), bytes_of(e), is_pair(e.kind)});
  }
  return calls;
}

std::string Trace::json_lines(int rank) const {
  const std::lock_guard lock(mutex_);
  std::string lines;
  for (auto id = oldest(); id < count_; ++id) {
    const Entry& e = at(id);
    std::string ranks;
    if (e.members >= 0)
      ranks = ranks_text(groups_[static_cast<std::size_t>(e.members)].ranks);
    lines += format(
        "{\"rank\": {}, \"id\": {}, \"group\": \"{}\", \"ranks\": \"{}\", "
        "\"operation\": \"{}\", \"sequence\": {}, \"dtype\": \"{}\", "
        "\"elements\": {}, \"bytes\": {}, \"start\": {}, \"end\": {}}\n",
        rank, id, e.group.data(), ranks, name_of(e.kind), e.sequence, name_of(e.dtype),
        e.elements, bytes_of(e), fixed(e.start_seconds, 6),
        e.end_seconds < 0 ? std::string("null") : fixed(e.end_seconds, 6));
  }
  return lines;
}

Trace& trace() {
  static Trace of_this_process;
  return of_this_process;
}

}  // namespace trireme::comm
