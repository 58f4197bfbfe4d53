// Schedules are data: order, messages, buffers and memory of every kind, without MPI.
// SPDX-License-Identifier: Apache-2.0
#include "schedule/schedule.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <sstream>
#include <tuple>
#include <utility>

#include "base/error.hpp"
#include "schedule/shared_schedules.hpp"
#include "unit/schedule/schedule_cases.hpp"

namespace trireme::schedule {
namespace {

// "F1.0" forward of microbatch 0 on chunk 1 (B, I, W: the backwards), ">A1.0@2" send of
// an activation to rank 2, "<G..." receive of a gradient.
std::string text(const Schedule& schedule) {
  std::ostringstream out;
  for (const Action& action : schedule) {
    const char* kinds[] = {"F", "B", "I", "W", ">", "<"};
    const bool message = action.kind >= ActionKind::send;
    out << (out.tellp() > 0 ? " " : "") << kinds[static_cast<int>(action.kind)];
    if (message) out << (action.payload == Payload::activation ? "A" : "G");
    out << action.chunk << "." << action.microbatch;
    if (message) out << "@" << action.peer;
  }
  return out.str();
}

// The computations alone.
std::string order(const Schedule& schedule) {
  Schedule computed = schedule;
  std::erase_if(computed, [](const Action& a) { return a.kind >= ActionKind::send; });
  return text(computed);
}

TEST(Schedule, OneStageRunsEachMicrobatchForwardThenBackward) {
  const Schedule expected = {{ActionKind::forward, 0},
                             {ActionKind::backward, 0},
                             {ActionKind::forward, 1},
                             {ActionKind::backward, 1}};
  EXPECT_EQ(make_schedules(shape_of(ScheduleKind::one_f_one_b, 1, 2)).front(), expected);
}

TEST(Schedule, OneStageKeepsOneMicrobatchAlive) {
  const auto alone = make_schedules(shape_of(ScheduleKind::one_f_one_b, 1, 7));
  EXPECT_EQ(live_microbatches(alone.front()), 1);
  const Schedule two = {{ActionKind::forward, 0},
                        {ActionKind::forward, 1},
                        {ActionKind::backward, 0},
                        {ActionKind::backward, 1}};
  EXPECT_EQ(live_microbatches(two), 2);
}

// Written out by hand.
TEST(Schedule, SmallSchedulesAreTheOnesInTheBooks) {
  const auto gpipe = make_schedules(shape_of(ScheduleKind::gpipe, 2, 2));
  EXPECT_EQ(text(gpipe[0]), "F0.0 <G0.0@1 >A0.0@1 F0.1 <G0.1@1 >A0.1@1 B0.0 B0.1");
  EXPECT_EQ(text(gpipe[1]), "<A0.0@0 <A0.1@0 F0.0 F0.1 B0.0 >G0.0@0 B0.1 >G0.1@0");
  const auto one = make_schedules(shape_of(ScheduleKind::one_f_one_b, 2, 3));
  EXPECT_EQ(text(one[0]),
            "F0.0 <G0.0@1 >A0.0@1 F0.1 >A0.1@1 B0.0 <G0.1@1 F0.2 <G0.2@1 >A0.2@1 "
            "B0.1 B0.2");
  EXPECT_EQ(text(one[1]),
            "<A0.0@0 F0.0 <A0.1@0 B0.0 >G0.0@0 F0.1 <A0.2@0 B0.1 >G0.1@0 F0.2 B0.2 "
            ">G0.2@0");
}

TEST(Schedule, InterleavedOrderIsMegatrons) {
  // Warm-up of rank r: 2 (p - 1 - r) + (v - 1) p forwards of the v m.
  const auto four = make_schedules(shape_of(ScheduleKind::interleaved, 2, 4));
  EXPECT_EQ(order(four[0]),
            "F0.0 F0.1 F1.0 F1.1 F0.2 B1.0 F0.3 B1.1 F1.2 B0.0 F1.3 B0.1 B1.2 B1.3 B0.2 "
            "B0.3");
  EXPECT_EQ(order(four[1]),
            "F0.0 F0.1 F1.0 B1.0 F1.1 B1.1 F0.2 B0.0 F0.3 B0.1 F1.2 B1.2 F1.3 B1.3 B0.2 "
            "B0.3");
  // 3 microbatches: the same without the fourth.
  const auto three = make_schedules(shape_of(ScheduleKind::interleaved, 2, 3));
  EXPECT_EQ(order(three[1]),
            "F0.0 F0.1 F1.0 B1.0 F1.1 B1.1 F0.2 B0.0 B0.1 F1.2 B1.2 B0.2");
}

TEST(Schedule, ZeroBubbleDefersWeightGradients) {
  // The last rank owes p - 1 = 1 weight gradient in the steady state, rank 0 none.
  const auto h1 = make_schedules(shape_of(ScheduleKind::zb_h1, 2, 3));
  EXPECT_EQ(order(h1[0]), "F0.0 F0.1 I0.0 W0.0 F0.2 I0.1 W0.1 I0.2 W0.2");
  EXPECT_EQ(order(h1[1]), "F0.0 I0.0 F0.1 I0.1 W0.0 F0.2 I0.2 W0.1 W0.2");
  // At most 2 p = 4 alive; derived by hand on a unit clock.
  const auto v = make_schedules(shape_of(ScheduleKind::zb_v, 2, 4));
  EXPECT_EQ(order(v[0]),
            "F0.0 F0.1 F0.2 F1.0 I1.0 W1.0 F1.1 I1.1 W1.1 F0.3 I0.0 W0.0 F1.2 I1.2 W1.2 "
            "I0.1 W0.1 F1.3 I1.3 I0.2 W1.3 I0.3 W0.2 W0.3");
}

TEST(Schedule, DualPipeVIsThePublishedOrder) {
  const auto two = make_schedules(shape_of(ScheduleKind::dualpipe_v, 2, 4));
  EXPECT_EQ(order(two[0]),
            "F0.0 F0.1 F0.2 F1.0 I1.0 W1.0 F1.1 F0.3 B1.1 F1.2 B0.0 B1.2 F1.3 B0.1 "
            "B1.3 I0.2 W0.2 I0.3 W0.3");
  EXPECT_EQ(order(two[1]),
            "F0.0 F1.0 F0.1 F1.1 F0.2 B1.0 F1.2 B0.0 F0.3 B1.1 F1.3 B0.1 B1.2 B0.2 "
            "I1.3 I0.3 W1.3 W0.3");
}

TEST(Schedule, StagesLieWhereTheKindSays) {
  const auto loop = shape_of(ScheduleKind::interleaved, 4, 4, 3);
  EXPECT_EQ(stages(loop), 12);
  EXPECT_EQ(stage_of(loop, 1, 2), 9);
  const auto v = shape_of(ScheduleKind::zb_v, 4, 4);
  EXPECT_EQ(stage_of(v, 3, 0), 3);
  EXPECT_EQ(stage_of(v, 3, 1), 4);
  EXPECT_EQ(stage_of(v, 0, 1), 7);
  for_each_shape([](const PipelineShape& shape) {
    for (int s = 0; s < stages(shape); ++s) {
      const StagePlace place = place_of(shape, s);
      ASSERT_EQ(stage_of(shape, place.rank, place.chunk), s) << name_of(shape);
    }
  });
  EXPECT_THROW(stage_of(v, 4, 0), Error);
  EXPECT_THROW(place_of(v, 8), Error);
}

TEST(Schedule, ImpossibleShapesSayWhy) {
  const auto why = [](ScheduleKind kind, int p, int v, std::int64_t m) {
    return why_illegal({kind, p, v, m});
  };
  EXPECT_EQ(why(ScheduleKind::gpipe, 4, 1, 1), "");
  EXPECT_EQ(why(ScheduleKind::gpipe, 4, 2, 1),
            "schedule gpipe has 1 chunk to a rank, not 2");
  EXPECT_EQ(why(ScheduleKind::zb_v, 4, 1, 8),
            "schedule zb_v has 2 chunks to a rank, not 1");
  EXPECT_NE(why(ScheduleKind::dualpipe_v, 4, 3, 8), "");
  EXPECT_NE(why(ScheduleKind::interleaved, 4, 1, 8), "");
  EXPECT_EQ(why(ScheduleKind::interleaved, 4, 2, 7), "");
  EXPECT_NE(why(ScheduleKind::one_f_one_b, 0, 1, 8), "");
  EXPECT_NE(why(ScheduleKind::one_f_one_b, 2, 1, 0), "");
  EXPECT_THROW(make_schedules({ScheduleKind::zb_v, 4, 1, 8}), Error);
}

// Every (chunk, microbatch): each kind of computation in ascending order of microbatches
// and all of them; forward, then backward; weights after their inputs.
void check_computations(const PipelineShape& shape, const Schedule& schedule,
                        bool backward) {
  using Counts = std::array<std::int64_t, 3>;  // forwards, backward inputs, weights
  std::vector<Counts> done(static_cast<std::size_t>(shape.chunks));
  for (const Action& action : schedule) {
    if (action.kind >= ActionKind::send) continue;
    auto& [f, i, w] = done[static_cast<std::size_t>(action.chunk)];
    const std::int64_t m = action.microbatch;
    if (action.kind == ActionKind::forward) {
      ASSERT_EQ(m, f++);
    }
    if (action.kind == ActionKind::backward ||
        action.kind == ActionKind::backward_input) {
      ASSERT_EQ(m, i++);
    }
    if (action.kind == ActionKind::backward ||
        action.kind == ActionKind::backward_weight) {
      ASSERT_EQ(m, w++);
    }
    ASSERT_LE(w, i);
    ASSERT_LE(i, f);
  }
  for (const auto& [f, i, w] : done) {
    ASSERT_EQ(f, shape.microbatches);
    ASSERT_EQ(i, backward ? shape.microbatches : 0);
    ASSERT_EQ(w, i);
  }
}

// (payload, stage that it goes to, microbatch).
using Content = std::tuple<Payload, int, std::int64_t>;

// Sends meet receives in order, and are what the stages need from other ranks. A send
// comes after what it sends was made, a receive is posted before its use.
void check_messages(const PipelineShape& shape, const std::vector<Schedule>& schedules) {
  std::map<std::pair<int, int>, std::array<std::vector<Content>, 2>> channels;
  for (int r = 0; r < shape.ranks; ++r) {
    std::map<Content, int> made, posted;
    for (const Action& a : schedules[static_cast<std::size_t>(r)]) {
      const int stage = stage_of(shape, r, a.chunk);
      const std::int64_t m = a.microbatch;
      const bool activation = a.payload == Payload::activation;
      if (a.kind == ActionKind::send) {
        const int to = stage + (activation ? 1 : -1);
        ASSERT_EQ(place_of(shape, to).rank, a.peer);
        ASSERT_EQ((made[{a.payload, stage, m}]), 1);
        channels[{r, a.peer}][0].push_back({a.payload, to, m});
      } else if (a.kind == ActionKind::receive) {
        ASSERT_EQ(place_of(shape, stage + (activation ? -1 : 1)).rank, a.peer);
        ASSERT_EQ((posted[{a.payload, stage, m}]++), 0);
        channels[{a.peer, r}][1].push_back({a.payload, stage, m});
      } else if (a.kind != ActionKind::backward_weight) {
        const bool forward = a.kind == ActionKind::forward;
        const Payload payload = forward ? Payload::activation : Payload::gradient;
        const int from = stage + (forward ? -1 : 1);
        const bool needs =
            from >= 0 && from < stages(shape) && place_of(shape, from).rank != r;
        ASSERT_EQ((posted[{payload, stage, m}]), needs ? 1 : 0);
        ++made[{payload, stage, m}];
      }
    }
  }
  for (const auto& [ranks, contents] : channels) {
    ASSERT_NE(ranks.first, ranks.second);
    ASSERT_EQ(contents[0], contents[1]) << ranks.first << " to " << ranks.second;
  }
}

TEST(Schedule, ComputesEverythingOnceAndInOrder) {
  for_each_shape([](const PipelineShape& shape) {
    SCOPED_TRACE(name_of(shape));
    for (const Schedule& schedule : make_schedules(shape)) {
      ASSERT_NO_FATAL_FAILURE(check_computations(shape, schedule, true));
    }
    for (const Schedule& schedule : forward_schedules(shape)) {
      ASSERT_NO_FATAL_FAILURE(check_computations(shape, schedule, false));
    }
  });
}

TEST(Schedule, SendsMatchReceivesInOrder) {
  for_each_shape([](const PipelineShape& shape) {
    SCOPED_TRACE(name_of(shape));
    ASSERT_NO_FATAL_FAILURE(check_messages(shape, make_schedules(shape)));
    ASSERT_NO_FATAL_FAILURE(check_messages(shape, forward_schedules(shape)));
  });
}

// The published number of (chunk, microbatch) that rank r keeps for its backward.
std::int64_t published_live(const PipelineShape& shape, std::int64_t r) {
  const std::int64_t p = shape.ranks, v = shape.chunks, m = shape.microbatches;
  switch (shape.kind) {
    case ScheduleKind::gpipe: return m;
    case ScheduleKind::one_f_one_b: return std::min(m, p - r);
    case ScheduleKind::interleaved:
      return std::min(v * m, 2 * (p - 1 - r) + (v - 1) * p + 1);
    case ScheduleKind::zb_h1: return std::min(m, p);
    case ScheduleKind::zb_v: return std::min(2 * m, 2 * p);
    case ScheduleKind::dualpipe_v: return std::min(2 * m, 2 * p + 1);
  }
  return 0;
}

TEST(Schedule, LiveActivationsAreThePublishedNumber) {
  for_each_shape([](const PipelineShape& shape) {
    const std::int64_t p = shape.ranks, m = shape.microbatches;
    // Where the published form has that many microbatches; with fewer, at most as many.
    const bool exact = shape.kind == ScheduleKind::interleaved  ? m % p == 0
                       : shape.kind == ScheduleKind::dualpipe_v ? m >= 2 * p
                       : shape.kind == ScheduleKind::zb_v       ? m >= 2 * p - 1
                                                                : true;
    const auto schedules = make_schedules(shape);
    for (std::size_t r = 0; r < schedules.size(); ++r) {
      const std::int64_t live = live_microbatches(schedules[r]);
      const std::int64_t published = published_live(shape, static_cast<std::int64_t>(r));
      if (exact && !(p == 1 && is_v_shaped(shape.kind))) {
        ASSERT_EQ(live, published) << name_of(shape) << " rank " << r;
      } else {
        ASSERT_LE(live, published) << name_of(shape) << " rank " << r;
      }
    }
  });
}

// ZB-H1 keeps as many for their input gradient as 1F1B does on every rank, and really
// defers: rank r owes r weight gradients.
TEST(Schedule, ZbH1OwesWeightGradientsOnly) {
  for_each_shape([](const PipelineShape& shape) {
    if (shape.kind != ScheduleKind::zb_h1) return;
    const auto schedules = make_schedules(shape);
    for (std::size_t r = 0; r < schedules.size(); ++r) {
      std::int64_t waiting = 0, most_waiting = 0, owed = 0, most_owed = 0;
      for (const Action& action : schedules[r]) {
        if (action.kind == ActionKind::forward)
          most_waiting = std::max(most_waiting, ++waiting);
        if (action.kind == ActionKind::backward_weight) --owed;
        if (action.kind != ActionKind::backward_input) continue;
        --waiting;
        most_owed = std::max(most_owed, ++owed);
      }
      const auto rank = static_cast<std::int64_t>(r);
      ASSERT_EQ(most_waiting, std::min(shape.microbatches, shape.ranks - rank));
      const std::int64_t owes = std::min(shape.microbatches, rank + 1);
      if (shape.microbatches >= shape.ranks) {
        ASSERT_EQ(most_owed, owes) << name_of(shape);
      } else {  // there are gaps to fill earlier
        ASSERT_LE(most_owed, owes) << name_of(shape);
      }
    }
  });
}

TEST(Schedule, NeighboursOnOneRankHandOverInMemory) {
  const auto alone = make_schedules(shape_of(ScheduleKind::interleaved, 1, 3));
  EXPECT_EQ(order(alone[0]), text(alone[0]));
}

TEST(Schedule, WithoutABackwardAnInputLivesUntilItsForward) {
  const Schedule two = {{ActionKind::forward, 0, 0},
                        {ActionKind::forward, 1, 0},
                        {ActionKind::forward, 0, 1},
                        {ActionKind::forward, 1, 1}};
  EXPECT_EQ(live_slots(two, 0), 1);
}

// What a send sends lies in its microbatch's slot (an output, or the gradient of an input
// in the input's place): no receive or forward before it has taken the slot over.
TEST(Schedule, SlotsAreKeptUntilTheirSends) {
  for_each_shape([](const PipelineShape& shape) {
    SCOPED_TRACE(name_of(shape));
    for (const Schedule& schedule : make_schedules(shape)) {
      std::map<std::pair<int, std::int64_t>, std::int64_t> owner;  // of (chunk, slot)
      std::vector<std::vector<std::int64_t>> slots;
      for (int c = 0; c < shape.chunks; ++c)
        slots.push_back(assign_slots(schedule, c, Lifetime::input));
      for (const Action& action : schedule) {
        const bool gradient = action.payload == Payload::gradient;
        if (action.kind == ActionKind::receive && gradient) continue;
        const auto chunk = static_cast<std::size_t>(action.chunk);
        const std::int64_t slot =
            slots[chunk][static_cast<std::size_t>(action.microbatch)];
        auto& holder = owner[{action.chunk, slot}];
        const bool takes =
            action.kind == ActionKind::receive || action.kind == ActionKind::forward;
        if (takes) holder = action.microbatch;
        ASSERT_EQ(holder, action.microbatch) << describe(action);
      }
    }
  });
}

// Receives are posted ahead, which costs a slot or few; a chunk's slots are not shared.
TEST(Schedule, SlotsAreFewAndNeverShared) {
  for_each_shape([](const PipelineShape& shape) {
    SCOPED_TRACE(name_of(shape));
    for (const Schedule& schedule : make_schedules(shape)) {
      for (int c = 0; c < shape.chunks; ++c) {
        const std::int64_t saved = most_live(schedule, c, Lifetime::saved);
        ASSERT_LE(saved, live_slots(schedule, c));
        ASSERT_LE(live_slots(schedule, c), saved + 2);
        ASSERT_LE(gradient_receive_slots(schedule, c), 3);
        const auto slots = assign_slots(schedule, c, Lifetime::saved);
        std::map<std::int64_t, std::int64_t> owner;
        for (const Action& action : schedule) {
          if (action.chunk != c || action.kind >= ActionKind::send) continue;
          const std::int64_t slot = slots[static_cast<std::size_t>(action.microbatch)];
          ASSERT_LT(slot, saved);
          if (action.kind == ActionKind::forward) {
            ASSERT_TRUE(owner.emplace(slot, action.microbatch).second);
          } else {
            ASSERT_EQ(owner.at(slot), action.microbatch);
          }
          if (action.kind == ActionKind::backward ||
              action.kind == ActionKind::backward_weight) {
            owner.erase(slot);
          }
        }
        ASSERT_TRUE(owner.empty());
      }
    }
  });
}

// However many stages are planned, whoever holds them.
TEST(Schedule, SharedOnesAreMadeOnceWhileTheyAreHeld) {
  PipelineShape shape{ScheduleKind::zb_h1, 4, 1, 8};
  auto held = shared_schedules(shape);
  EXPECT_EQ(shared_schedules(shape), held);
  EXPECT_EQ(held->size(), 4u);
  for (std::size_t rank = 0; rank < held->size(); ++rank)
    EXPECT_EQ((*held)[rank].size(), make_schedules(shape)[rank].size());
  shape.microbatches = 9;
  const auto other = shared_schedules(shape);
  EXPECT_NE(other, held);
  EXPECT_GT(other->front().size(), held->front().size());
  const std::weak_ptr<const std::vector<Schedule>> watched = held;
  held.reset();
  EXPECT_TRUE(watched.expired());
}

}  // namespace
}  // namespace trireme::schedule
