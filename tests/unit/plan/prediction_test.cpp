// The clock of a plan, and what is predicted from it.
// SPDX-License-Identifier: Apache-2.0
#include "plan/prediction.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "comm/trace.hpp"
#include "engine/activation_offload.hpp"
#include "plan/step_clock.hpp"
#include "small_deck.hpp"

namespace trireme::plan {
namespace {

// Powers of two, so that times are exact sums.
Machine simple_machine() {
  Machine machine;
  machine.name = "simple";
  machine.source = "measured";
  machine.ranks_per_node = 4;
  machine.memory_bytes = 1e12;
  machine.products = {.fp32 = 1e9, .bf16 = 2e9};
  machine.attention_forward = 0.5;
  machine.attention_backward = 0.25;
  machine.sweep_rate = 1e9;
  machine.links = {1e8, 1e-4, 1e7, 1e-3, 1};
  machine.write_rate = 1e8;
  machine.read_rate = 1e8;
  machine.failure_hours = 50000;
  machine.restart_seconds = 300;
  return machine;
}

config::RunConfig deck(int ranks, const std::string& more = "",
                       const std::vector<std::string>& overrides = {}) {
  std::vector<std::string> all = {"model.sequence=32", "batch.micro=2"};
  all.insert(all.end(), overrides.begin(), overrides.end());
  return small_deck(all, ranks, more);
}

std::vector<Plan> timed_plans(const config::RunConfig& config, const Machine& machine) {
  PlannedDevice on;
  on.machine = &machine;
  return plan_stages(config, on);
}

Prediction predicted(const config::RunConfig& config, const Machine& machine) {
  return predict(config, timed_plans(config, machine), machine);
}

TEST(StepClock, AddsUpWhatKernelsTake) {
  Machine machine = simple_machine();
  machine.kernel_seconds = 1e-3;
  machine.products.half_inner = 100;
  StepClock clock(machine, {}, {}, 0);
  clock.kernel({.bytes = 5e8});
  EXPECT_DOUBLE_EQ(clock.seconds(), 0.501);
  // Half of 2 GFLOP/s at an inner extent of 100.
  clock.kernel({.kind = WorkKind::product,
                .type = DType::bf16,
                .flops = 1e9,
                .rows = 1000,
                .columns = 1000,
                .inner = 100});
  EXPECT_DOUBLE_EQ(clock.seconds(), 0.501 + 1.001);
  clock.kernel(
      {.kind = WorkKind::attention, .flops = 1e9, .inner = 64, .backward = true});
  EXPECT_DOUBLE_EQ(clock.seconds(), 0.501 + 1.001 + 4.001);
  EXPECT_DOUBLE_EQ(clock.spent().attention, 4.001);
}

TEST(StepClock, KnowsTypesOfSweepsUpdatesAndWidthsOfHeads) {
  Machine machine = simple_machine();
  machine.kernel_seconds = 0;
  const auto seconds_of = [&](const KernelWork& work) {
    StepClock clock(machine, {}, {}, 0);
    clock.kernel(work);
    return clock.seconds();
  };
  const KernelWork narrow{.type = DType::bf16, .bytes = 1e9},
      update{.kind = WorkKind::update, .bytes = 1e9},
      attention{.kind = WorkKind::attention, .flops = 1e9, .inner = 32};
  const double wide = seconds_of({.bytes = 1e9}), sixty_four = seconds_of(attention);
  EXPECT_DOUBLE_EQ(seconds_of(narrow), wide);
  EXPECT_DOUBLE_EQ(seconds_of(update), wide);
  machine.narrow_sweep_rate = machine.sweep_rate / 2;
  machine.update_rate = machine.sweep_rate / 4;
  machine.attention_half_width = 96;
  EXPECT_DOUBLE_EQ(seconds_of(narrow), 2 * wide);
  EXPECT_DOUBLE_EQ(seconds_of(update), 4 * wide);
  EXPECT_DOUBLE_EQ(seconds_of(attention), 4 * sixty_four);
  // A host attends in fp32 whatever the operands' type, a GPU by its type's rate.
  KernelWork of_16_bits = attention;
  of_16_bits.type = DType::bf16;
  EXPECT_DOUBLE_EQ(seconds_of(of_16_bits), seconds_of(attention));
  machine.gpus = true;
  EXPECT_DOUBLE_EQ(seconds_of(of_16_bits) * machine.products.bf16,
                   seconds_of(attention) * machine.products.fp32);
}

TEST(StepClock, HidesMessagesBehindKernelsAsFarAsTheMachineCan) {
  Machine machine = simple_machine();
  machine.links.node_latency = 0;
  for (const double overlap : {0.0, 0.5, 1.0}) {
    machine.links.overlap = overlap;
    StepClock clock(machine, {.data = 4}, {}, 0);
    const MessageFlight flight =
        clock.message({.group = "data", .ranks = 4, .bytes = 1e8});  // 1 s
    clock.kernel({.bytes = 6e8});                                    // 0.6 s
    EXPECT_NEAR(clock.wait_for(flight), 1 - 0.6 * overlap, 1e-12);
    EXPECT_NEAR(clock.seconds(), 1.6 - 0.6 * overlap, 1e-12);
  }
}

TEST(StepClock, MessagesOfAGroupFollowOneAnother) {
  Machine machine = simple_machine();
  machine.links.node_latency = 0;
  StepClock clock(machine, {.data = 4}, {}, 0);
  const MessageWork second{.group = "data", .ranks = 4, .bytes = 1e8};
  const MessageFlight a = clock.message(second), b = clock.message(second);
  EXPECT_NEAR(clock.wait_for(b), 2, 1e-12);
  EXPECT_EQ(clock.wait_for(a), 0);
}

// Members by the definition of the mesh's coordinates, against the arithmetic of strides.
// Copies of activations take turns in each direction, and cost what is left of them when
// they are waited for; on CPUs the rank makes them itself.
TEST(StepClock, HidesCopiesOfActivationsBehindKernelsOnGpus) {
  const MessageWork out{.group = engine::activations_out, .to_one = true, .bytes = 1e6};
  MessageWork back = out;
  back.group = engine::activations_in;
  Machine machine = simple_machine();
  machine.gpus = true;
  machine.links.host_rate = 1e8;
  StepClock clock(machine, {}, {}, 0);
  const MessageFlight first = clock.message(out), second = clock.message(out),
                      other = clock.message(back);
  EXPECT_DOUBLE_EQ(clock.seconds(), 0);
  EXPECT_DOUBLE_EQ(clock.wait_for(first), 0.01);
  EXPECT_DOUBLE_EQ(clock.wait_for(other), 0);
  clock.kernel({.kind = WorkKind::sweep, .bytes = 4e6});
  EXPECT_DOUBLE_EQ(clock.wait_for(second), 0.006);
  EXPECT_DOUBLE_EQ(clock.wait_for(MessageFlight{}), 0);
  EXPECT_DOUBLE_EQ(clock.spent().host, 0.016);
  EXPECT_DOUBLE_EQ(clock.spent().waiting, 0);
  StepClock host(simple_machine(), {}, {}, 0);
  EXPECT_DOUBLE_EQ(host.wait_for(host.message(out)), 0);
  EXPECT_DOUBLE_EQ(host.spent().host, 2e-3);
  EXPECT_DOUBLE_EQ(host.seconds(), 2e-3);
}

TEST(Placement, CountsTheRanksOfANodeAsTheMeshOrdersThem) {
  const comm::MeshShape shape{.pipeline = 2, .data = 4, .context = 3, .tensor = 2};
  const std::pair<const char*, comm::Axis> named[] = {{"tensor", comm::Axis::tensor},
                                                      {"context", comm::Axis::context},
                                                      {"data", comm::Axis::data},
                                                      {"pipeline", comm::Axis::pipeline}};
  for (const auto& [name, axis] : named) {
    for (int rank = 0; rank < shape.size(); ++rank) {
      int first_node = -1, of_node = 0;
      std::set<int> nodes;
      for (int other = 0; other < shape.size(); ++other) {
        bool member = true;
        for (int a = 0; a < comm::axes; ++a) {
          const auto each = static_cast<comm::Axis>(a);
          member &= each == axis ||
                    shape.coordinate(other, each) == shape.coordinate(rank, each);
        }
        if (!member) continue;
        const int node = other / 8;
        if (first_node < 0) first_node = node;
        of_node += node == first_node ? 1 : 0;
        nodes.insert(node);
      }
      const Placement place = place_group(name, shape, {}, rank, 8);
      EXPECT_EQ(place.of_node, of_node) << name << " of rank " << rank;
      EXPECT_EQ(place.over_nodes, nodes.size() > 1) << name << " of rank " << rank;
    }
  }
}

TEST(Prediction, CountsTheFlopsOfTheModel) {
  // Attention and other kernels for nothing: what is left are 6 N FLOPs a token.
  Machine machine = simple_machine();
  machine.attention_forward = machine.attention_backward = 1e12;
  machine.sweep_rate = 1e18;
  const config::RunConfig config = deck(1);
  const Prediction p = predicted(config, machine);
  const double d = 64, f = 128, v = 128, layers = 4;
  const double weights = layers * (4 * d * d + 3 * d * f) + v * d;
  EXPECT_NEAR(p.step_seconds, 6 * weights * 16 * 32 / 1e9, 1e-6 * p.step_seconds);
  EXPECT_NEAR(p.products, p.step_seconds, 1e-6 * p.step_seconds);
}

TEST(Prediction, ExpertsTakeTheRowsOfAnEvenLoad) {
  Machine machine = simple_machine();
  machine.attention_forward = machine.attention_backward = 1e12;
  machine.sweep_rate = 1e18;
  const std::vector<std::string> overrides = {"model.architecture=mixtral",
                                              "model.moe.experts=4", "model.moe.top_k=2",
                                              "model.moe.expert_feed_forward=32"};
  const double d = 64, f = 32, v = 128, layers = 4;
  // Of a token: attention, the router, two experts of four, the head.
  const double active = layers * (4 * d * d + 4 * d + 2 * 3 * d * f) + v * d;
  const double seconds = 6 * active * 16 * 32 / 1e9;
  for (const int ranks : {1, 2, 4}) {
    const config::RunConfig config =
        deck(ranks, format("[parallel]\nexpert = {}\n", ranks), overrides);
    const Prediction p = predicted(config, machine);
    EXPECT_NEAR(p.products, seconds / ranks, 1e-6 * seconds) << ranks << " expert ranks";
    // Memory is that of the worst case still: all rows may come to one rank.
    const std::vector<Plan> untimed = plan_stages(config);
    EXPECT_EQ(untimed.front().memory, timed_plans(config, machine).front().memory);
  }
}

TEST(Prediction, IsTheSameEachTime) {
  const Machine machine = simple_machine();
  const config::RunConfig config = deck(8, "[parallel]\ntensor = 2\npipeline = 2\n");
  const std::string once = describe(predicted(config, machine), machine);
  EXPECT_EQ(once, describe(predicted(config, machine), machine));
  EXPECT_EQ(work_meter(), nullptr);
}

TEST(Prediction, IsTheSameOnAnyNumberOfThreads) {
  const Machine machine = simple_machine();
  const config::RunConfig config =
      deck(8, "[parallel]\npipeline = 4\nschedule = \"zb_h1\"\n", {"model.layers=4"});
  const auto text = [&](int threads) {
    PlannedDevice on;
    on.machine = &machine;
    on.threads = threads;
    const std::vector<Plan> plans = plan_stages(config, on);
    return describe(config, plans) + describe(predict(config, plans, machine), machine);
  };
  const std::string once = text(1);
  EXPECT_EQ(once, text(2));
  EXPECT_EQ(once, text(4));
}

TEST(Prediction, EntersNothingInTheFlightRecorder) {
  const std::int64_t before = comm::trace().count();
  const Machine machine = simple_machine();
  EXPECT_FALSE(
      timed_plans(deck(4, "[parallel]\ntensor = 2\n"), machine).front().traffic.empty());
  EXPECT_EQ(comm::trace().count(), before);
}

TEST(Prediction, APipelineTakesItsScheduleWithItsStagesOwnTimes) {
  Machine machine = simple_machine();
  machine.links = {1e18, 0, 1e18, 0, 1};
  const config::RunConfig config = deck(2, "[parallel]\npipeline = 2\n");
  const std::vector<Plan> plans = timed_plans(config, machine);
  const Prediction p = predict(config, plans, machine);
  double longest = 0, together = 0;
  for (const Plan& plan : plans) {
    double sum = 0;
    for (const double seconds : plan.timing.action_seconds) sum += seconds;
    longest = std::max(longest, sum);
    together += sum / 8;  // one microbatch of eight
  }
  // 1F1B of two stages: the longer one without a pause, and what fills and drains it.
  EXPECT_GE(p.step_seconds, longest + p.ending);
  EXPECT_LE(p.step_seconds, longest + together + p.ending);
  EXPECT_EQ(p.idle_shares.size(), 2u);
}

TEST(Prediction, SlowerLinksCostTimeOnlyWhereSomethingIsSent) {
  const Machine fast = simple_machine();
  Machine slow = fast;
  slow.links.node_rate /= 10;
  slow.links.network_rate /= 10;
  const config::RunConfig alone = deck(1);
  EXPECT_EQ(predicted(alone, fast).step_seconds, predicted(alone, slow).step_seconds);
  const config::RunConfig split = deck(4, "[parallel]\ntensor = 4\n");
  EXPECT_LT(predicted(split, fast).step_seconds, predicted(split, slow).step_seconds);
  EXPECT_LT(predicted(split, fast).exposed, predicted(split, slow).exposed);
}

TEST(Prediction, GoodputFallsWithRanksThatFail) {
  Machine machine = simple_machine();
  const config::RunConfig config = deck(1, "[checkpoint]\nevery = 10\n");
  const Prediction p = predicted(config, machine);
  const double every = 10 * p.step_seconds, between = 50000 * 3600;
  EXPECT_DOUBLE_EQ(p.save_seconds, p.checkpoint_bytes / 1e8);
  EXPECT_DOUBLE_EQ(p.goodput, every / (every + p.save_seconds) /
                                  (1 + (every / 2 + 300 + p.save_seconds) / between));
  machine.failure_hours = 1;
  EXPECT_LT(predicted(config, machine).goodput, p.goodput);
}

TEST(Prediction, NeedsARateOfTheDecksType) {
  Machine machine = simple_machine();
  machine.products.bf16 = 0;
  const config::RunConfig config = deck(1, "[precision]\ncompute = \"bf16\"\n");
  EXPECT_THROW(predicted(config, machine), Error);
}

}  // namespace
}  // namespace trireme::plan
