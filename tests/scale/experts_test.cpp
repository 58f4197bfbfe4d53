// Experts of a layer shared out over 320 simulated ranks, one each, as in DeepSeek-V3.
// SPDX-License-Identifier: Apache-2.0
// Rows go to their experts and come home, at once and in rounds. A rank talks to the
// others in the exchange of counts, and then to those alone to which rows go.
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <vector>

#include "comm/mesh.hpp"
#include "comm/world.hpp"
#include "kernels/moe.hpp"
#include "parallel/expert_dispatch.hpp"
#include "scale/fake_mpi.hpp"

namespace trireme::scale {
namespace {

constexpr int ranks = 320;
constexpr std::int64_t T = 4, K = 2;

struct Rank {
  std::unique_ptr<comm::World> world;
  std::unique_ptr<comm::Mesh> mesh;
};

// The experts of each token of a rank.
using Choice = std::array<std::int32_t, T * K>;
Choice even(int rank) {
  Choice choice;
  for (int i = 0; i < T * K; ++i)
    choice[static_cast<std::size_t>(i)] = (rank + i) % ranks;
  return choice;
}
Choice crowded(int) { return {0, 1, 0, 1, 0, 1, 0, 1}; }

// y_t = sum over the token's experts e of (e + 1) x_t, with memory for `memory` times the
// even load. Returns the number of rounds.
int exchange(const Rank& rank, int number, Choice choice, double memory) {
  const parallel::ExpertDispatch dispatch(rank.mesh->experts(), memory);
  Stream stream;
  Arena arena(Device::host(), 1 << 17, MemoryClass::workspace, "experts");
  const TensorView choice_TK(choice.data(), DType::i32, {T, K});
  const TensorView x_TD = arena.take(DType::f64, {T, 1}, "x");
  for (int t = 0; t < T; ++t) x_TD.data<double>()[t] = number + 0.25 * t;
  const auto all = dispatch.route(stream, arena, choice_TK, ranks, T);
  const TensorView leaving_ND = arena.take(DType::f64, {all.leaving, 1}, "leaving");
  const TensorView home_ND = arena.take(DType::f64, {all.leaving, 1}, "home");
  kernels::gather_rows(stream, x_TD, all.token_N, leaving_ND);
  for (int round = 0; round < all.rounds; ++round) {
    const ArenaScope scope(arena);
    const auto part = all.in_rounds() ? dispatch.part(stream, all, round) : all;
    const TensorView rows_RD = arena.take(DType::f64, {part.rows, 1}, "rows");
    dispatch.to_experts(stream, arena, part, leaving_ND, rows_RD);
    for (double& row : rows_RD.span<double>()) row *= number + 1;
    dispatch.to_source_ranks(stream, arena, part, rows_RD, home_ND);
  }
  const TensorView y_TD = arena.take(DType::f64, {T, 1}, "y");
  kernels::combine_rows(stream, home_ND, all.row_TK, {}, kernels::Accumulate::no, y_TD);
  for (std::size_t t = 0; t < T; ++t)
    EXPECT_EQ(y_TD.data<double>()[t],
              (choice[2 * t] + choice[2 * t + 1] + 2) * x_TD.data<double>()[t]);
  return all.rounds;
}

TEST(Scale, ExpertsOf320Ranks) {
  FakeJob job(ranks, 8);
  std::vector<Rank> all(ranks);
  const auto on_each = [&](const auto& work) {
    job.reset();
    job.run([&](int number) { work(all[static_cast<std::size_t>(number)], number); });
  };
  on_each([](Rank& rank, int) {
    rank.world = std::make_unique<comm::World>(0, nullptr);
    rank.mesh =
        std::make_unique<comm::Mesh>(*rank.world, comm::MeshShape{.data = ranks},
                                     comm::Folding{.shard = ranks, .expert = ranks});
  });
  // An even load needs one round: counts to all, with a bound twice, rows to eight.
  constexpr std::int64_t others = ranks - 1, rows = 2 * T * K;
  for (const double memory : {0.0, 1.0}) {
    on_each([&](Rank& rank, int number) {
      EXPECT_EQ(exchange(rank, number, even(number), memory), 1);
    });
    for (const int rank : {0, 7, ranks - 1})
      EXPECT_LE(job.of(rank).messages, (memory > 0 ? 2 : 1) * others + rows);
  }
  // All rows to two of the ranks, which have memory for ten times an even load of eight:
  // a round for each eighty of their 1,280, all of which all ranks go through.
  on_each([&](Rank& rank, int number) {
    EXPECT_EQ(exchange(rank, number, crowded(number), 10), ranks * T / (10 * T * K));
  });
  EXPECT_LE(job.of(ranks - 1).messages, 2 * others + 2 * T);
  on_each([](Rank& rank, int) {
    rank.world->barrier();
    rank = {};
  });
}

}  // namespace
}  // namespace trireme::scale
