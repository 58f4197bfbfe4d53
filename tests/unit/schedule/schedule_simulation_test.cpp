// Simulated schedules: no deadlock, published bubbles, and errors that name the action.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <sstream>
#include <string>

#include "base/error.hpp"
#include "schedule/simulation.hpp"
#include "schedule/stage_cut.hpp"
#include "unit/schedule/schedule_cases.hpp"

namespace trireme::schedule {
namespace {

// Costs are small integers and halves, whose sums are exact in double: bubbles are
// compared for equality.
SimulationOptions costs(double f, double i, double w, double latency = 0.0,
                        SendMode sends = SendMode::rendezvous) {
  return {{{f, i, w, 1.0}}, latency, sends};
}

double idle_of(const PipelineShape& shape, double f, double i, double w) {
  const Simulation simulation = simulate(shape, make_schedules(shape), costs(f, i, w));
  const double work =
      static_cast<double>(shape.chunks * shape.microbatches) * (f + i + w);
  EXPECT_DOUBLE_EQ(simulation.ranks[0].busy, work);
  EXPECT_NEAR(simulation.bubble, simulation.total / work - 1.0, 1e-15);
  return simulation.total - work;
}

TEST(ScheduleSimulation, NothingDeadlocksEvenIfEverySendBlocks) {
  for_each_shape([](const PipelineShape& shape) {
    const auto steps = make_schedules(shape), forwards = forward_schedules(shape);
    for (const SendMode sends : {SendMode::rendezvous, SendMode::blocking}) {
      ASSERT_NO_THROW(simulate(shape, steps, costs(1, 1, 1, 0.5, sends)))
          << name_of(shape);
      ASSERT_NO_THROW(simulate(shape, forwards, costs(1, 1, 1, 0.5, sends)))
          << name_of(shape);
    }
  });
}

// (p - 1) (F + B) of m (F + B), whatever F and B.
TEST(ScheduleSimulation, BubbleOfGpipeAndOneFOneB) {
  for (const int p : {1, 2, 3, 4, 8, 16, 64}) {
    for (const std::int64_t m : {1, 2, 3, 4, 8, 16, 63, 64, 65, 256}) {
      for (const auto kind : {ScheduleKind::gpipe, ScheduleKind::one_f_one_b}) {
        const PipelineShape shape = shape_of(kind, p, m);
        EXPECT_EQ(idle_of(shape, 1, 1, 1), (p - 1) * 3) << name_of(shape);
        EXPECT_EQ(idle_of(shape, 2, 1.5, 1), (p - 1) * 4.5) << name_of(shape);
        EXPECT_EQ(idle_of(shape, 1, 2, 1), (p - 1) * 4) << name_of(shape);
      }
    }
  }
}

// (p - 1) (F + B) of v m (F + B), F and B of a chunk.
TEST(ScheduleSimulation, BubbleOfInterleaved) {
  for (const int p : {1, 2, 3, 4, 8, 16}) {
    for (const int v : {2, 3, 4}) {
      for (const int groups : {1, 2, 3, 5}) {
        const PipelineShape shape =
            shape_of(ScheduleKind::interleaved, p, std::int64_t{p} * groups, v);
        EXPECT_EQ(idle_of(shape, 1, 1, 1), (p - 1) * 3) << name_of(shape);
        EXPECT_EQ(idle_of(shape, 2, 1.5, 1), (p - 1) * 4.5) << name_of(shape);
      }
    }
  }
}

// With a last group that is not full, no more idle time than with a full one, plus the
// work that is not there.
TEST(ScheduleSimulation, InterleavedWithAnyNumberOfMicrobatches) {
  for_each_shape([](const PipelineShape& shape) {
    if (shape.kind != ScheduleKind::interleaved) return;
    PipelineShape full = shape;
    full.microbatches =
        (shape.microbatches + shape.ranks - 1) / shape.ranks * shape.ranks;
    const double total = simulate(shape, make_schedules(shape)).total;
    ASSERT_LE(total, simulate(full, make_schedules(full)).total) << name_of(shape);
  });
}

// The playbook's table for 8 ranks: (microbatches, chunks) and bubble to 3 digits. Its
// (4, 8) is left to the next test: 4 microbatches cannot be interleaved over 8 ranks.
TEST(ScheduleSimulation, BubbleTableForEightRanks) {
  struct Row {
    std::int64_t m;
    int v;
    double bubble;
  };
  for (const Row& row :
       {Row{32, 8, .027}, Row{16, 8, .055}, Row{32, 4, .055}, Row{32, 2, .109},
        Row{16, 4, .109}, Row{8, 8, .109}, Row{32, 1, .219}, Row{16, 2, .219},
        Row{8, 4, .219}, Row{16, 1, .4375}, Row{8, 1, .875}, Row{4, 1, 1.75},
        Row{2, 1, 3.5}, Row{1, 1, 7.0}}) {
    const auto kind = row.v == 1 ? ScheduleKind::one_f_one_b : ScheduleKind::interleaved;
    const PipelineShape shape = shape_of(kind, 8, row.m, row.v);
    EXPECT_NEAR(simulate(shape, make_schedules(shape)).bubble, row.bubble, 0.0005)
        << name_of(shape);
  }
}

TEST(ScheduleSimulation, OneMicrobatchCannotBeFasterThanItsPath) {
  const PipelineShape shape = shape_of(ScheduleKind::interleaved, 8, 4, 8);
  const double formula = 7.0 / (8 * 4);
  const Simulation simulation = simulate(shape, make_schedules(shape));
  EXPECT_GE(simulation.total, 64 * 3);  // S (F + B)
  EXPECT_GT(simulation.bubble, formula);
}

// (p - 1) (F + B - 2 W), where B = I + W is a full backward and F >= W.
TEST(ScheduleSimulation, BubbleOfZbH1) {
  for (const int p : {1, 2, 3, 4, 8, 16, 64}) {
    for (const std::int64_t m : {p, p + 1, 2 * p, 3 * p + 1, 100}) {
      const PipelineShape shape = shape_of(ScheduleKind::zb_h1, p, m);
      if (m < p) continue;
      EXPECT_EQ(idle_of(shape, 1, 1, 1), p - 1) << name_of(shape);
      EXPECT_EQ(idle_of(shape, 2, 2, 1), (p - 1) * 3) << name_of(shape);
      EXPECT_EQ(idle_of(shape, 2, 2, 1.5), (p - 1) * 2.5) << name_of(shape);
    }
  }
}

// With unit costs no rank idles between its first and its last action; rank r starts r
// late, so that all are done after the work and p - 1 of half a stage.
TEST(ScheduleSimulation, ZbVHasNoBubble) {
  for (const int p : {1, 2, 3, 4, 7, 8, 16, 32}) {
    for (const std::int64_t m : {p, 2 * p - 1, 2 * p, 2 * p + 1, 3 * p + 1, 100}) {
      const PipelineShape shape = shape_of(ScheduleKind::zb_v, p, m);
      if (m < p) continue;
      const Simulation simulation = simulate(shape, make_schedules(shape));
      EXPECT_EQ(simulation.total, static_cast<double>(6 * m + p - 1)) << name_of(shape);
      for (const RankSimulation& rank : simulation.ranks) {
        if (m >= 2 * p - 1) {
          EXPECT_EQ(rank.idle_inside, 0.0) << name_of(shape);
        }
        EXPECT_LE(rank.most_live, 2 * p);
      }
    }
  }
}

// DualPipe-V on its own clock: a forward with the backward that overlaps it is one thing
// that takes F&B and gives both results at its end. An independent reckoning.
double dualpipe_total(const PipelineShape& shape, double f, double i, double w,
                      double both) {
  const int last = 2 * shape.ranks - 1;
  const auto runs = static_cast<std::size_t>(2 * shape.ranks * shape.microbatches);
  std::array<std::vector<double>, 2> made = {std::vector<double>(runs, -1.0),
                                             std::vector<double>(runs, -1.0)};
  auto schedules = make_schedules(shape);
  std::vector<std::size_t> next(schedules.size());
  std::vector<double> now(schedules.size());
  for (Schedule& schedule : schedules) {
    std::erase_if(schedule, [](const Action& a) { return a.kind >= ActionKind::send; });
  }
  const auto time_of = [&](bool forward, int stage, std::int64_t m) -> double& {
    return made[forward ? 0 : 1]
               [static_cast<std::size_t>(stage * shape.microbatches + m)];
  };
  const auto ready = [&](int r, const Action& a) {
    const int stage = stage_of(shape, r, a.chunk);
    if (a.kind == ActionKind::backward_weight) return 0.0;
    if (a.kind == ActionKind::forward) {
      return stage == 0 ? 0.0 : time_of(true, stage - 1, a.microbatch);
    }
    return stage == last ? time_of(true, stage, a.microbatch)
                         : time_of(false, stage + 1, a.microbatch);
  };
  const auto finish = [&](int r, const Action& a, double time) {
    if (a.kind == ActionKind::backward_weight) return;
    time_of(a.kind == ActionKind::forward, stage_of(shape, r, a.chunk), a.microbatch) =
        time;
  };
  const auto step = [&](int rank) {
    const auto r = static_cast<std::size_t>(rank);
    if (next[r] == schedules[r].size()) return false;
    const Action& a = schedules[r][next[r]];
    const bool pair =
        a.kind == ActionKind::forward &&
        schedules[r][next[r] + 1].kind == ActionKind::backward &&
        // The last rank's first two are published as not overlapped.
        !(rank == shape.ranks - 1 && a.chunk == 0 && a.microbatch == shape.ranks);
    const Action& b = schedules[r][next[r] + (pair ? 1 : 0)];
    if (ready(rank, a) < 0 || ready(rank, b) < 0) return false;
    now[r] = std::max({now[r], ready(rank, a), ready(rank, b)});
    const double alone[] = {f, i + w, i, w};
    now[r] += pair ? both : alone[static_cast<int>(a.kind)];
    finish(rank, a, now[r]);
    finish(rank, b, now[r]);
    next[r] += pair ? 2 : 1;
    return true;
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (int r = 0; r < shape.ranks; ++r) moved |= step(r);
  }
  for (std::size_t r = 0; r < next.size(); ++r) EXPECT_EQ(next[r], schedules[r].size());
  return *std::max_element(now.begin(), now.end());
}

// (p - 1) (F&B + B - 3 W) for F = I and F&B = F + B, where no rank has to wait inside the
// steady state. (README of DualPipe; p is its PP / 2.)
TEST(ScheduleSimulation, BubbleOfDualPipeV) {
  for (const int p : {1, 2, 3, 4, 8, 16}) {
    for (const std::int64_t m : {2 * p, 2 * p + 1, 3 * p, 5 * p}) {
      const PipelineShape shape = shape_of(ScheduleKind::dualpipe_v, p, m);
      const auto published = [&](double f, double i, double w) {
        return (p - 1) * (f + i + w + i + w - 3 * w);
      };
      const auto simulated = [&](double f, double i, double w) {
        return dualpipe_total(shape, f, i, w, f + i + w) -
               static_cast<double>(2 * m) * (f + i + w);
      };
      EXPECT_EQ(simulated(1, 1, 1), published(1, 1, 1)) << name_of(shape);
      EXPECT_EQ(simulated(2, 2, 1), published(2, 2, 1)) << name_of(shape);
      // One after the other, the first of a pair sends its result on before the second:
      // that saves p - 1 input gradients, (p - 1) (F + I - W) is left.
      EXPECT_EQ(idle_of(shape, 1, 1, 1), p - 1) << name_of(shape);
      EXPECT_EQ(idle_of(shape, 2, 2, 1), (p - 1) * 3) << name_of(shape);
    }
  }
}

// No schedule is faster than one microbatch through all stages and back, nor than the
// work after the last rank's late start; and none idles more than running one microbatch
// after the other would.
TEST(ScheduleSimulation, TotalsLieBetweenTheBounds) {
  for_each_shape([](const PipelineShape& shape) {
    const double total = simulate(shape, make_schedules(shape)).total;
    const auto m = static_cast<double>(shape.microbatches);
    const double path = 2.0 * stages(shape) + 1;  // F and I everywhere, then W
    ASSERT_GE(total, path) << name_of(shape);
    ASSERT_GE(total, 3 * shape.chunks * m + shape.ranks - 1) << name_of(shape);
    ASSERT_LE(total, 3 * shape.chunks * m + 3 * (stages(shape) - 1)) << name_of(shape);
  });
}

TEST(ScheduleSimulation, LatencyAndUnequalStagesAreOnTheCriticalPath) {
  const PipelineShape shape = shape_of(ScheduleKind::one_f_one_b, 2, 1);
  SimulationOptions options;
  options.stages = {{1, 2, 3, 10}, {4, 5, 6, 20}};
  options.latency = 0.5;
  const Simulation simulation = simulate(shape, make_schedules(shape), options);
  // F 1, message, F 4, B 11, message, B 5.
  EXPECT_EQ(simulation.total, 1 + 0.5 + 4 + 11 + 0.5 + 5);
  EXPECT_EQ(simulation.ranks[0].busy, 6);
  EXPECT_EQ(simulation.ranks[0].idle_inside, 16);
  EXPECT_DOUBLE_EQ(simulation.ranks[1].idle_share, 1.0 - 15.0 / 22.0);
  EXPECT_EQ(simulation.ranks[1].most_saved, 20);
  // Rank 1: receive, forward, backward, send.
  const auto& actions = simulation.ranks[1].actions;
  ASSERT_EQ(actions.size(), 4u);
  EXPECT_EQ(actions[0].end, 0);
  EXPECT_EQ(actions[1].start, 1.5);
  EXPECT_EQ(actions[2].end, 16.5);
}

// Rank 0: F0, F1, B0, B1. Rank 1: F0, B0, F1, B1. The times of an action are its own:
// with their means both ranks of the first case would wait less.
TEST(ScheduleSimulation, EachActionTakesItsOwnTime) {
  const PipelineShape shape = shape_of(ScheduleKind::one_f_one_b, 2, 2);
  const auto schedules = make_schedules(shape);
  const auto run = [&](const std::vector<std::vector<double>>& computations) {
    SimulationOptions options{.stages = {{100, 100, 100, 1}}, .latency = 0.5};
    for (std::size_t r = 0; r < schedules.size(); ++r) {
      auto next = computations[r].begin();
      for (const Action& action : schedules[r]) {
        const bool message =
            action.kind == ActionKind::send || action.kind == ActionKind::receive;
        options.actions.resize(r + 1);
        options.actions[r].push_back(message ? 1000 : *next++);
      }
    }
    return simulate(shape, schedules, options);
  };
  // Rank 0: F0 0-1, F1 1-8, B0 8-10 (its gradient came at 6), B1 from 15.5.
  // Rank 1: F0 1.5-3.5, B0 3.5-5.5, F1 8.5-11, B1 11-15.
  const Simulation uneven = run({{1, 7, 2, 3}, {2, 2, 2.5, 4}});
  EXPECT_EQ(uneven.total, 15 + 0.5 + 3);
  EXPECT_EQ(uneven.ranks[0].busy, 13);
  EXPECT_EQ(uneven.ranks[1].busy, 10.5);
  EXPECT_DOUBLE_EQ(uneven.ranks[1].idle_share, 1 - 10.5 / 18.5);
  // Rank 0: F 4 each, B 2.5 each. Rank 1: F 2.25, B 3: F0 4.5-6.75, B0 -9.75, F1 -12, B1
  // -15.
  const Simulation even = run({{4, 4, 2.5, 2.5}, {2.25, 3, 2.25, 3}});
  EXPECT_EQ(even.total, 15 + 0.5 + 2.5);
  EXPECT_THROW(simulate(shape, schedules, {.actions = {{1.0}}}), Error);
}

TEST(ScheduleSimulation, CountsLiveActivationsByChunk) {
  const PipelineShape shape = shape_of(ScheduleKind::interleaved, 2, 2);
  SimulationOptions options;
  options.stages = {{1, 1, 1, 1}, {1, 1, 1, 1}, {1, 1, 1, 100}, {1, 1, 1, 1}};
  const Simulation simulation = simulate(shape, make_schedules(shape), options);
  EXPECT_EQ(simulation.ranks[0].most_live, 4);
  EXPECT_EQ(simulation.ranks[0].most_live_of_chunk, (std::vector<std::int64_t>{2, 2}));
  EXPECT_EQ(simulation.ranks[0].most_saved, 202);
}

// Changes one schedule and expects the error's text.
void expect_error(const std::function<void(std::vector<Schedule>&)>& change,
                  const std::string& part) {
  const PipelineShape shape = shape_of(ScheduleKind::one_f_one_b, 2, 3);
  auto schedules = make_schedules(shape);
  change(schedules);
  try {
    simulate(shape, schedules);
    ADD_FAILURE() << "no error: " << part;
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

// Rank 0: 0 F0, 1 <G0, 2 >A0, 3 F1, 4 >A1, 5 B0, 6 <G1, 7 F2, 8 <G2, 9 >A2, 10 B1, 11 B2.
// Rank 1: 0 <A0, 1 F0, 2 <A1, 3 B0, 4 >G0, 5 F1, 6 <A2, 7 B1, 8 >G1, 9 F2, 10 B2, 11 >G2.
TEST(ScheduleSimulation, ErrorsNameRankAndAction) {
  const auto erase = [](int rank, int action) {
    return [=](std::vector<Schedule>& schedules) {
      auto& schedule = schedules[static_cast<std::size_t>(rank)];
      schedule.erase(schedule.begin() + action);
    };
  };
  const auto exchange = [](int rank, std::size_t a, std::size_t b) {
    return [=](std::vector<Schedule>& schedules) {
      auto& schedule = schedules[static_cast<std::size_t>(rank)];
      std::swap(schedule[a], schedule[b]);
    };
  };
  expect_error(
      erase(1, 6),
      "rank 1, action 8: forward of microbatch 2, chunk 0 has no receive posted");
  expect_error(
      exchange(1, 2, 6),
      "rank 1, action 2: receive from rank 0 of the activation of microbatch 2, "
      "chunk 0 meets message 1 of rank 0, its send to rank 1 of the activation of "
      "microbatch 1, chunk 0");
  expect_error(
      exchange(0, 2, 4),
      "rank 0, action 2: send to rank 1 of the activation of microbatch 1, chunk 0 "
      "comes before what it sends is made");
  expect_error(erase(0, 4),
               "rank 1, action 2: receive from rank 0 of the activation of microbatch 1, "
               "chunk 0 meets message 1");
  expect_error(erase(0, 9),
               "the schedule deadlocks: rank 0 waits in action 10, backward "
               "of microbatch 2, chunk 0; rank 1 waits in action 9, forward "
               "of microbatch 2, chunk 0");
  expect_error(exchange(0, 0, 5),
               "backward of microbatch 0, chunk 0 comes before its "
               "forward");
  expect_error(
      [](auto& s) {
        s[1].push_back({ActionKind::forward, 0});
      },
      "rank 1, action 12: forward of microbatch 0, chunk 0 runs twice");
  expect_error([](auto& s) { s[1][1].chunk = 1; }, "chunk 1 is out of range");
  expect_error(
      [](auto& s) {
        s[1].push_back({ActionKind::send, 0, 0, Payload::gradient, 0});
      },
      "rank 1, action 12: send to rank 0 of the gradient of microbatch 0, chunk 0 is "
      "received by nobody");
}

// Both ranks send before they post: fine with buffers, a deadlock without.
TEST(ScheduleSimulation, StrictModeFindsDeadlocksThatBuffersHide) {
  const PipelineShape shape = shape_of(ScheduleKind::one_f_one_b, 2, 2);
  auto schedules = make_schedules(shape);
  // Rank 0 posts its first gradient only when it has sent both outputs, and rank 1 wants
  // the second output only when its gradient is gone.
  const auto act = [](ActionKind kind, std::int64_t m) { return Action{kind, m}; };
  const auto message = [](ActionKind kind, std::int64_t m, Payload payload, int peer) {
    return Action{kind, m, 0, payload, peer};
  };
  using enum ActionKind;
  using enum Payload;
  schedules[0] = {act(forward, 0),
                  message(send, 0, activation, 1),
                  act(forward, 1),
                  message(send, 1, activation, 1),
                  message(receive, 0, gradient, 1),
                  act(backward, 0),
                  message(receive, 1, gradient, 1),
                  act(backward, 1)};
  schedules[1] = {message(receive, 0, activation, 0),
                  act(forward, 0),
                  act(backward, 0),
                  message(send, 0, gradient, 0),
                  message(receive, 1, activation, 0),
                  act(forward, 1),
                  act(backward, 1),
                  message(send, 1, gradient, 0)};
  EXPECT_NO_THROW(simulate(shape, schedules, costs(1, 1, 1, 0, SendMode::buffered)));
  EXPECT_NO_THROW(simulate(shape, schedules, costs(1, 1, 1, 0, SendMode::rendezvous)));
  EXPECT_THROW(simulate(shape, schedules, costs(1, 1, 1, 0, SendMode::blocking)), Error);
}

TEST(StageCut, OnlyTheEndsAreWithoutABlock) {
  model::ModelConfig model;
  model.layers = 6;
  model.hidden = 32;
  model.heads = model.kv_heads = 4;
  model.feed_forward = model.vocabulary = 64;
  model.sequence = 16;
  const auto counts = [&](int stages, const std::vector<std::int64_t>& given) {
    std::ostringstream text;
    for (const Range& blocks : cut_stages(model, stages, given)) text << blocks.count();
    return text.str();
  };
  EXPECT_EQ(counts(6, {}), "111111");
  EXPECT_EQ(counts(7, {}), "1111110");
  EXPECT_EQ(counts(8, {}), "01111110");
  EXPECT_THROW(counts(9, {}), Error);
  EXPECT_EQ(counts(4, {0, 2, 4, 0}), "0240");
  EXPECT_THROW(counts(4, {2, 0, 4, 0}), Error);
  EXPECT_THROW(counts(4, {0, 2, 3, 0}), Error);
}

}  // namespace
}  // namespace trireme::schedule
