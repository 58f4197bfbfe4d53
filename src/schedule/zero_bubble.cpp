// Zero-bubble schedules: input gradients in a fixed order, weight gradients in the gaps.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <deque>

#include "base/error.hpp"
#include "schedule/orders.hpp"

namespace trireme::schedule {
namespace {

// All ranks in lock step at unit costs.
class UnitClock {
 public:
  UnitClock(const PipelineShape& shape, std::int64_t most,
            const std::vector<Schedule>& orders)
      : shape_(shape), most_(most), orders_(orders), ranks_(orders.size()) {
    const auto runs = static_cast<std::size_t>(stages(shape) * shape.microbatches);
    for (auto& done : done_) done.assign(runs, 0);
  }

  std::vector<Schedule> run() {
    // Each turn is a unit of time; one in which nothing starts is the last.
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t r = 0; r < ranks_.size(); ++r) moved |= step(r);
      for (auto* done : finished_) *done = 1;
      finished_.clear();
    }
    std::vector<Schedule> filled;
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      require(ranks_[r].next == orders_[r].size(), "rank {} cannot start its {}", r,
              describe(orders_[r][std::min(ranks_[r].next, orders_[r].size() - 1)]));
      filled.push_back(std::move(ranks_[r].filled));
    }
    return filled;
  }

 private:
  struct Rank {
    std::size_t next = 0;
    std::int64_t live = 0;
    std::deque<Action> owed;
    Schedule filled;
  };

  bool step(std::size_t r) {
    Rank& rank = ranks_[r];
    if (rank.next < orders_[r].size() && can_start(static_cast<int>(r))) {
      const Action& action = orders_[r][rank.next++];
      rank.filled.push_back(action);
      if (action.kind == ActionKind::forward) {
        ++rank.live;
      } else {
        rank.owed.push_back(action);
      }
      finished_.push_back(&done(action.kind, static_cast<int>(r), action));
      return true;
    }
    if (rank.owed.empty()) return false;
    const Action& weight = rank.owed.front();
    rank.filled.push_back({ActionKind::backward_weight, weight.microbatch, weight.chunk});
    rank.owed.pop_front();
    --rank.live;
    return true;
  }

  bool can_start(int r) {
    const Rank& rank = ranks_[static_cast<std::size_t>(r)];
    const Action& action = orders_[static_cast<std::size_t>(r)][rank.next];
    const int stage = stage_of(shape_, r, action.chunk);
    if (action.kind == ActionKind::forward) {
      return rank.live < most_ &&
             (stage == 0 || is_done(ActionKind::forward, stage - 1, action));
    }
    return stage == stages(shape_) - 1
               ? is_done(ActionKind::forward, stage, action)
               : is_done(ActionKind::backward_input, stage + 1, action);
  }

  // Says whether (stage, microbatch) has been done.
  std::uint8_t& at(ActionKind kind, int stage, std::int64_t microbatch) {
    return done_[kind == ActionKind::forward ? 0 : 1]
                [static_cast<std::size_t>(stage * shape_.microbatches + microbatch)];
  }
  std::uint8_t& done(ActionKind kind, int rank, const Action& action) {
    return at(kind, stage_of(shape_, rank, action.chunk), action.microbatch);
  }
  bool is_done(ActionKind kind, int stage, const Action& action) {
    return at(kind, stage, action.microbatch) != 0;
  }

  const PipelineShape& shape_;
  std::int64_t most_;
  const std::vector<Schedule>& orders_;
  std::vector<Rank> ranks_;
  std::array<std::vector<std::uint8_t>, 2> done_;
  std::vector<std::uint8_t*> finished_;  // in this unit of time
};

}  // namespace

// 1F1B's order. At most p microbatches are alive on any rank, weights included, which is
// 1F1B's peak on rank 0; of them p - r still await their input gradient (Qi et al., 2023,
// section 2.3: rank r holds (p - r) M_B + r M_W).
Schedule zb_h1_order(const PipelineShape& shape, int rank) {
  Schedule order = one_f_one_b_order(shape, rank);
  for (Action& action : order) {
    if (action.kind == ActionKind::backward) action.kind = ActionKind::backward_input;
  }
  return order;
}

// At most 2 p (chunk, microbatch) are alive, which are p microbatches of a whole rank (Qi
// et al., 2024, find such schedules by search; this is a closed form). With unit costs
// and m >= 2 p - 1 no rank idles between its first action and its last.
Schedule zb_v_order(const PipelineShape& shape, int rank) {
  const std::int64_t p = shape.ranks, r = rank;
  const std::int64_t m = std::max(shape.microbatches, 2 * p);
  std::array<std::int64_t, 2> forwards{}, backwards{};
  Schedule order;
  const auto forward = [&](std::size_t c) {
    order.push_back({ActionKind::forward, forwards[c]++, static_cast<int>(c)});
  };
  const auto backward = [&](std::size_t c) {
    order.push_back({ActionKind::backward_input, backwards[c]++, static_cast<int>(c)});
  };
  // 1. Chunk 0 until its first microbatch is back from the turn of the V.
  while (forwards[0] < 2 * (p - r) - 1) forward(0);
  // 2. Both chunks until the first gradient is back: 2 p - 1 are alive.
  for (std::int64_t i = 0; i < r; ++i) {
    forward(1);
    forward(0);
  }
  // 3. Chunk 1 alone, forward and backward, until chunk 0 has its first gradient.
  for (std::int64_t i = 0; i < p - r; ++i) {
    forward(1);
    backward(1);
  }
  // 4. Steady state: each forward is followed by a backward of its own chunk.
  while (forwards[1] < m) {
    if (forwards[0] < m) forward(0);
    backward(0);
    forward(1);
    backward(1);
  }
  // 5. The backwards that are left.
  while (backwards[0] < m) {
    backward(0);
    if (backwards[1] < m) backward(1);
  }
  return order;
}

void fill_weights(const PipelineShape& shape, std::int64_t most,
                  std::vector<Schedule>& orders) {
  orders = UnitClock(shape, most, orders).run();
}

}  // namespace trireme::schedule
