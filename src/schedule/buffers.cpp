// How many buffers an executor needs to run a schedule, and who uses which.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <functional>
#include <limits>
#include <queue>
#include <vector>

#include "base/error.hpp"
#include "schedule/schedule.hpp"

namespace trireme::schedule {
namespace {

// From the action before which something must exist to the one after which it need not.
struct Span {
  std::size_t first = std::numeric_limits<std::size_t>::max();
  std::size_t last = 0;
  bool exists() const { return first <= last; }
};

bool begins(const Action& action, Lifetime lifetime) {
  switch (lifetime) {
    case Lifetime::input:
      return action.kind == ActionKind::forward ||
             (action.kind == ActionKind::receive &&
              action.payload == Payload::activation);
    case Lifetime::saved: return action.kind == ActionKind::forward;
    case Lifetime::gradient:
      return action.kind == ActionKind::receive && action.payload == Payload::gradient;
  }
  return false;
}

bool ends(const Action& action, Lifetime lifetime) {
  if (action.kind == ActionKind::backward) return true;
  // The gradient of the input is sent from where the input was; a receive may be posted
  // between the backward and the send.
  if (action.kind == ActionKind::send) return lifetime == Lifetime::input;
  if (lifetime == Lifetime::gradient) return action.kind == ActionKind::backward_input;
  return action.kind == ActionKind::backward_weight ||
         action.kind == ActionKind::forward;  // the last of these counts
}

std::vector<Span> spans_of(const Schedule& schedule, int chunk, Lifetime lifetime) {
  std::vector<Span> spans;
  for (std::size_t k = 0; k < schedule.size(); ++k) {
    const Action& action = schedule[k];
    if (action.chunk != chunk) continue;
    const auto i = static_cast<std::size_t>(action.microbatch);
    if (i >= spans.size()) spans.resize(i + 1);
    if (begins(action, lifetime)) spans[i].first = std::min(spans[i].first, k);
    if (ends(action, lifetime)) spans[i].last = std::max(spans[i].last, k);
  }
  return spans;
}

// Walks the spans in time and gives each the lowest slot that is free.
std::vector<std::int64_t> slots_of(const std::vector<Span>& spans, std::size_t actions) {
  constexpr std::size_t nobody = std::numeric_limits<std::size_t>::max();
  std::vector<std::size_t> begins_at(actions, nobody), ends_at(actions, nobody);
  for (std::size_t i = 0; i < spans.size(); ++i) {
    if (!spans[i].exists()) continue;
    begins_at[spans[i].first] = i;
    ends_at[spans[i].last] = i;
  }
  std::vector<std::int64_t> slots(spans.size(), -1);
  std::priority_queue<std::int64_t, std::vector<std::int64_t>, std::greater<>> free;
  std::int64_t count = 0;
  for (std::size_t k = 0; k < actions; ++k) {
    if (const std::size_t i = begins_at[k]; i != nobody) {
      if (free.empty()) free.push(count++);
      slots[i] = free.top();
      free.pop();
    }
    if (const std::size_t i = ends_at[k]; i != nobody) free.push(slots[i]);
  }
  return slots;
}

std::int64_t most_of(const std::vector<std::int64_t>& slots) {
  return slots.empty() ? 0 : *std::max_element(slots.begin(), slots.end()) + 1;
}

}  // namespace

std::vector<std::int64_t> assign_slots(const Schedule& schedule, int chunk,
                                       Lifetime lifetime) {
  return slots_of(spans_of(schedule, chunk, lifetime), schedule.size());
}

std::int64_t most_live(const Schedule& schedule, int chunk, Lifetime lifetime) {
  return most_of(assign_slots(schedule, chunk, lifetime));
}

std::int64_t live_slots(const Schedule& schedule, int chunk) {
  return most_live(schedule, chunk, Lifetime::input);
}

std::int64_t gradient_receive_slots(const Schedule& schedule, int chunk) {
  return most_live(schedule, chunk, Lifetime::gradient);
}

std::int64_t live_microbatches(const Schedule& schedule) {
  std::int64_t live = 0, most = 0;
  for (const Action& action : schedule) {
    if (action.kind == ActionKind::forward) most = std::max(most, ++live);
    if (action.kind == ActionKind::backward || action.kind == ActionKind::backward_weight)
      --live;
  }
  return most;
}

}  // namespace trireme::schedule
