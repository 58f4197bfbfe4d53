// Experts with memory for a multiple of the even load: what is beyond goes in rounds.
// SPDX-License-Identifier: Apache-2.0
// On every split of the ranks all sums equal those of one rank, and those of memory for
// any load; all ranks go through as many rounds as the one with most rows; memory is what
// was measured, to the byte, where it is used up.
#include <cmath>

#include "kernels/moe.hpp"
#include "ranks/moe_mesh.hpp"

namespace trireme::test {
namespace {

// Tokens of a microbatch on one rank of the expert axis, whose ranks share out E experts.
struct Load {
  std::int64_t ranks, tokens;
};
Load load_of(const Split& split) {
  const auto& shape = split.shape;
  const std::int64_t expert =
      split.expert == comm::Axis::data ? shape.data : shape.context;
  return {expert, B * S / shape.data / shape.context};
}

// Rows are multiplied and summed one by one: with f64 products of a library, whose bits
// may depend on how many rows there are, to the last digits. Weights' sums are cut.
void expect_equal_outputs(const Outcome& rounds, const Outcome& at_once) {
  EXPECT_LE(relative(rounds.y, at_once.y), 1e-14);
  EXPECT_LE(relative(rounds.dx, at_once.dx), 1e-14);
  expect_equal(rounds, at_once);
}

void compare(const nn::MoeConfig& config, Change change,
             const std::vector<Way>& ways = {{.memory = 1}, {.memory = 1.3}}) {
  comm::Mesh alone = comm::Mesh::meta({}, 0);
  const Outcome one = run(config, alone, {}, change);
  for_each_split(config, [&](const Split& split, comm::Mesh& mesh) {
    if (load_of(split).ranks == 1) return;
    const Outcome at_once = run(config, mesh, split, change);
    EXPECT_EQ(at_once.rounds, 1);
    for (const Way& way : ways) {
      SCOPED_TRACE(format("memory {}", way.memory));
      const Outcome rounds = run(config, mesh, split, change, way);
      expect_equal(rounds, one);
      expect_equal_outputs(rounds, at_once);
    }
  });
}

TEST(MoeRounds, SharedExpertAndAllLosses) { compare(full_config(), nothing); }
TEST(MoeRounds, HalfOfTheExperts) { compare(full_config(), half_of_the_experts); }
TEST(MoeRounds, Biases) {
  auto config = moe_config(E, 2);
  config.activation = kernels::Activation::clamped_swiglu;
  config.expert_names.biases = true;
  compare(config, nothing);
  config.activation = kernels::Activation::gelu;  // without a gate
  compare(config, nothing);
}
TEST(MoeRounds, Capacity) {
  auto config = moe_config(E, 2);
  config.capacity_factor = 1.5;
  compare(config, one_expert, {{.memory = 1}});
}
TEST(MoeRounds, WhatIsMadeAgain) {
  compare(full_config(), half_of_the_experts,
          {{.memory = 1, .recompute = {.activation = true}},
           {.memory = 1, .recompute = {.activation = true, .up = true}}});
}

// What a round writes over is added before the next one comes, the rest when backward has
// returned; each weight's contribution is complete once, also with one round.
TEST(MoeRounds, GradientsOfWeightsThatArePutOff) {
  const std::vector<Way> ways = {
      {.memory = 1, .deferred = true},
      {.memory = 99, .deferred = true},
      {.memory = 1, .recompute = {.activation = true, .up = true}, .deferred = true}};
  compare(full_config(), half_of_the_experts, ways);
  auto config = moe_config(E, 2);
  config.activation = kernels::Activation::gelu;
  config.expert_names.biases = true;
  compare(config, nothing, ways);
}

nn::MoeConfig one_choice() {
  auto config = moe_config(E, 1);
  config.normalise = false;
  return config;
}

// All P T tokens go to one rank, which has memory for T and some, and the others have
// none to work on: rounds are as many as it needs, on every rank of all groups.
TEST(MoeRounds, AllTokensToOneExpert) {
  const auto config = one_choice();
  compare(config, one_expert, {{.memory = 1}, {.memory = 1.25}, {.memory = 1.99}});
  for_each_split(config, [&](const Split& split, comm::Mesh& mesh) {
    const Load load = load_of(split);
    if (load.ranks == 1) return;
    for (const double memory : {1.0, 1.25, 1.99, 4.0}) {
      const Outcome out = run(config, mesh, split, one_expert,
                              {.memory = memory, .deferred = memory < 1.5});
      const auto bound = std::min(
          static_cast<std::int64_t>(std::ceil(memory * static_cast<double>(load.tokens))),
          load.ranks * load.tokens);
      EXPECT_EQ(out.rounds, divide_up(load.ranks * load.tokens, bound));
      const bool has_all = mesh.coordinate(split.expert) == 0;
      EXPECT_TRUE(out.is_full || !has_all) << "memory " << memory;
    }
  });
}

// In rounds, too, nothing is allocated for more than the bound.
TEST(MoeRounds, MemoryIsThatOfTheBound) {
  comm::World& world = test::world();
  comm::Mesh mesh(world, {.data = world.size()});
  const parallel::TensorRegion region(mesh.group(comm::Axis::tensor), false);
  const std::int64_t T = B * S / world.size();
  const auto bytes = [&](double memory) {
    const parallel::ExpertAxes axes{
        parallel::ExpertDispatch(mesh.group(comm::Axis::data), memory), {}};
    const MoeCase c(one_choice(), region, axes, DType::f64, S,
                    {world.rank() * B / world.size(), B / world.size()}, B);
    return static_cast<std::int64_t>(c.saved_bytes);
  };
  // A row of the model's width, u and a, and its place.
  const std::int64_t row = 8 * (10 + 2 * 7 + 7) + 4, slack = 4 * Arena::alignment;
  EXPECT_NEAR(bytes(0) - bytes(1), (world.size() - 1) * T * row, slack);
  EXPECT_EQ(bytes(world.size()), bytes(0));
}

// An even load goes in one round; the planner counts its messages, and two numbers more
// than without a bound: where each expert's rows begin, and how many a rank gets.
TEST(MoeRounds, TrafficIsPlannedForAnEvenLoad) {
  const auto bytes = [&](double memory) {
    comm::Mesh mesh = comm::Mesh::meta({.data = 4}, 1);
    comm::Group& group = mesh.group(comm::Axis::data);
    const parallel::ExpertDispatch dispatch(group, memory);
    Stream stream(Device::meta());
    Arena arena(Device::meta(), 0, MemoryClass::activations, "planned");
    const std::int64_t T = 8, K = 2, D = 10;
    const TensorView choice(nullptr, DType::i32, {T, K}, Device::meta());
    const auto route = dispatch.route(stream, arena, choice, E, T);
    const TensorView leaving = arena.take(DType::f64, {route.leaving, D}, "leaving");
    EXPECT_EQ(route.rounds, 1);
    const auto part = memory > 0 ? dispatch.part(stream, route, 0) : route;
    EXPECT_EQ(part.rows, memory > 0 ? 1.5 * T * K : 4 * T * K);
    const TensorView rows = arena.take(DType::f64, {part.rows, D}, "rows");
    dispatch.to_experts(stream, arena, part, leaving, rows);
    dispatch.to_source_ranks(stream, arena, part, rows, leaving);
    return group.bytes_sent();
  };
  EXPECT_EQ(bytes(1.5) - bytes(0), 3 * (E / 4 + 1) * 4);
}

// Parts follow one another in the order of all rows, each rank's in one piece. With
// blocks an expert's rows from a rank are cut between them alone.
void expect_parts(std::int64_t block) {
  comm::World& world = test::world();
  const int P = world.size();
  comm::Mesh mesh(world, {.data = P});
  const parallel::ExpertDispatch at_once(mesh.group(comm::Axis::data));
  const parallel::ExpertDispatch bounded(mesh.group(comm::Axis::data), 1, block);
  Stream stream;
  Arena arena(Device::host(), 1 << 20, MemoryClass::workspace, "test");
  const std::int64_t T = 7, experts = 2 * P;
  const std::int64_t bound = divide_up(T, block) * block;
  // Rank p sends token t to expert t p % 3, of rank 0 or 1; token 3 is dropped.
  std::vector<std::int32_t> choice;
  std::vector<double> x;
  for (int t = 0; t < T; ++t) {
    choice.push_back(t == 3 ? -1 : static_cast<std::int32_t>(t * world.rank() % 3));
    x.push_back(100 * world.rank() + t);
  }
  const TensorView choice_TK(choice.data(), DType::i32, {T, 1});
  const TensorView x_TD(x.data(), DType::f64, {T, 1});
  const auto whole = at_once.route(stream, arena, choice_TK, experts, T);
  const Values expected =
      MoeCase::values(at_once.dispatch(stream, arena, arena, whole, x_TD));
  const auto all = bounded.route(stream, arena, choice_TK, experts, T);
  EXPECT_EQ(all.bound, bound);
  const auto most = static_cast<std::int64_t>(world.max(static_cast<double>(whole.rows)));
  EXPECT_GE(all.rounds, divide_up(most, bound));
  const TensorView leaving = arena.take(DType::f64, {all.leaving, 1}, "leaving");
  kernels::gather_rows(stream, x_TD, all.token_N, leaving);
  const TensorView home = arena.take(DType::f64, {all.leaving, 1}, "home");
  Values rows;
  std::vector<std::int64_t> before(all.arriving_PL.size());
  for (int round = 0; round < all.rounds; ++round) {
    const auto part = bounded.part(stream, all, round);
    if (block == 1) {
      EXPECT_EQ(part.rows, std::clamp<std::int64_t>(whole.rows - round * T, 0, T));
    }
    EXPECT_LE(part.rows, bound);
    for (std::size_t i = 0; i < before.size(); ++i) {
      if (part.arriving_PL[i] > 0) {
        EXPECT_EQ(before[i] % block, 0);
      }
      before[i] += part.arriving_PL[i];
      EXPECT_LE(before[i], all.arriving_PL[i]);
    }
    const TensorView some = arena.take(DType::f64, {part.rows, 1}, "rows");
    bounded.to_experts(stream, arena, part, leaving, some);
    for (const double v : MoeCase::values(some)) rows.push_back(v);
    bounded.to_source_ranks(stream, arena, part, some, home);
  }
  EXPECT_EQ(rows, expected);
  EXPECT_EQ(MoeCase::values(home), MoeCase::values(leaving));
}

TEST(MoeRounds, PartsMakeAllRowsInOrder) {
  for (const std::int64_t block : {1, 2, 3, 4}) {
    SCOPED_TRACE(block);
    expect_parts(block);
  }
}

}  // namespace
}  // namespace trireme::test
