// What starting, stepping and ending costs a rank when there are 64 to 4,096 of them.
// SPDX-License-Identifier: Apache-2.0
// The program's own control plane runs on simulated ranks (fake_mpi.hpp). Nothing may
// grow faster than log P per rank, nor on rank 0, and on ranks that hand on a large part
// of a tree, by more than 100 bytes for each rank.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "comm/mesh.hpp"
#include "comm/mpi/mpi.hpp"
#include "comm/world.hpp"
#include "scale/fake_mpi.hpp"

namespace trireme::scale {
namespace {

constexpr int ranks_on_node = 8;

// What a rank holds between the phases of a run.
struct Rank {
  std::unique_ptr<comm::World> world;
  std::unique_ptr<comm::Mesh> mesh;
};

// The ranks that are looked at: the first, the one below which half of a tree lies, the
// first of another node, the last.
enum Who : std::size_t { first, half, leader, last };
constexpr std::array<const char*, 4> names = {"rank 0", "rank P/2", "leader", "rank P-1"};

enum Quantity : std::size_t { messages, peers, bytes, memory, opens };
constexpr std::array<const char*, 5> quantities = {"messages", "peers", "bytes", "memory",
                                                   "opens"};
using Amounts = std::array<double, quantities.size()>;

Amounts amounts_of(const Counts& c) {
  return {static_cast<double>(std::max(c.messages, c.received)),
          static_cast<double>(c.peers.size()), static_cast<double>(c.bytes),
          static_cast<double>(c.peak), static_cast<double>(c.opens)};
}

// Of one phase: by number of ranks.
using Measured = std::map<int, std::array<Amounts, names.size()>>;
using Table = std::map<std::string, Measured>;

class Simulation {
 public:
  explicit Simulation(int ranks) : job_(ranks, ranks_on_node), ranks_(job_.ranks()) {}

  template <class F>
  void phase(Table& table, const std::string& name, const F& work) {
    job_.reset();
    job_.run([&](int rank) { work(ranks_[static_cast<std::size_t>(rank)], rank); });
    const int P = job_.ranks();
    table[name][P] = {amounts_of(job_.of(0)), amounts_of(job_.of(P / 2)),
                      amounts_of(job_.of(ranks_on_node)), amounts_of(job_.of(P - 1))};
  }

 private:
  FakeJob job_;
  std::vector<Rank> ranks_;
};

comm::MeshShape shape_of(int ranks) {
  return {.pipeline = 4, .data = ranks / 32, .context = 1, .tensor = 8};
}

void start(Rank& rank, int ranks) {
  rank.world = std::make_unique<comm::World>(0, nullptr);
  EXPECT_EQ(rank.world->sum(1.0), ranks);
  const comm::Folding folding{.shard = ranks / 32, .expert = 1};
  rank.mesh = std::make_unique<comm::Mesh>(*rank.world, shape_of(ranks), folding);
}

// The small reductions of a step, as the engine makes them: tokens, loss, what ranks
// agree on, norm, work of the pipeline's ranks.
void step(Rank& rank, int number) {
  std::array<double, 4> values{};
  Stream stream;
  const auto reduce = [&](comm::Group& group, std::int64_t count, comm::Reduce how) {
    const TensorView x(values.data(), DType::f64, {count});
    group.all_reduce(stream, x, how).wait();
  };
  comm::Mesh& mesh = *rank.mesh;
  for (int i = 0; i < 2; ++i) {
    values = {1.0};
    reduce(mesh.replicas(), 1, comm::Reduce::sum);
    EXPECT_EQ(values[0], mesh.replicas().size());
  }
  reduce(mesh.group(comm::Axis::pipeline), 1, comm::Reduce::sum);
  values = {0, static_cast<double>(number), 0.25, 0};
  reduce(mesh.everyone(), 4, comm::Reduce::max);
  EXPECT_EQ(values[1], mesh.everyone().size() - 1);
  values = {1.0, 0.5, 0.25, 0.125};
  reduce(mesh.everyone(), 1, comm::Reduce::sum);
  reduce(mesh.everyone(), 4, comm::Reduce::sum);
  EXPECT_EQ(values[1], 0.5 * mesh.everyone().size());
}

void end(Rank& rank) {
  rank.world->barrier();
  rank = {};
}

void measure(Table& table, int ranks) {
  Simulation run(ranks);
  run.phase(table, "start", [&](Rank& rank, int) { start(rank, ranks); });
  run.phase(table, "step", [&](Rank& rank, int number) { step(rank, number); });
  run.phase(table, "end", [&](Rank& rank, int) { end(rank); });
}

// The power of P that the amounts grow with: least squares of logarithms.
double exponent(const Measured& measured, std::size_t who, std::size_t quantity) {
  double n = 0, x = 0, y = 0, xx = 0, xy = 0;
  for (const auto& [P, at] : measured) {
    const double a = std::log(P), b = std::log(std::max(at[who][quantity], 1.0));
    n += 1, x += a, y += b, xx += a * a, xy += a * b;
  }
  return (n * xy - x * y) / (n * xx - x * x);
}

// What is wrong with how an amount grows; empty: nothing.
std::string complaint(const Measured& measured, std::size_t who, std::size_t quantity) {
  const auto& [P0, few] = *measured.begin();
  const auto& [P1, many] = *measured.rbegin();
  const double a = few[who][quantity], b = many[who][quantity];
  // Twice the logarithm may cost twice as much; a quarter more is left for what comes in
  // steps, and a little for what was next to nothing.
  const bool in_bytes = quantity == bytes || quantity == memory;
  const double by_log = a * std::log2(P1) / std::log2(P0) * 1.25 + (in_bytes ? 512 : 4);
  if (b <= by_log) return {};
  if ((who == first || who == half) && in_bytes && b <= by_log + 100.0 * (P1 - P0))
    return {};
  return format("{} of {} grow from {} on {} ranks to {} on {}, as P^{}",
                quantities[quantity], names[who], fixed(a, 0), P0, fixed(b, 0), P1,
                fixed(exponent(measured, who, quantity), 2));
}

std::vector<std::string> complaints(const Table& table) {
  std::vector<std::string> all;
  for (const auto& [phase, measured] : table)
    for (std::size_t who = 0; who < names.size(); ++who)
      for (std::size_t quantity = 0; quantity < quantities.size(); ++quantity)
        if (const auto text = complaint(measured, who, quantity); !text.empty())
          all.push_back(phase + ": " + text);
  return all;
}

// At 100,000 ranks: with the logarithm, but on rank 0 with what a rank adds to it.
double extrapolated(const Measured& measured, std::size_t who, std::size_t quantity) {
  constexpr double there = 100000;
  const auto& [P1, many] = *measured.rbegin();
  const auto& [P0, few] = *std::prev(measured.end(), 2);
  const double slope = (many[who][quantity] - few[who][quantity]) / (P1 - P0);
  const bool linear = exponent(measured, who, quantity) > 0.4;
  return linear ? many[who][quantity] + slope * (there - P1)
                : many[who][quantity] * std::log2(there) / std::log2(P1);
}

void print(const Table& table) {
  std::printf("%-6s %-9s %-9s", "phase", "rank", "amount");
  for (const auto& [P, at] : table.begin()->second) std::printf(" %10d", P);
  std::printf(" %9s %10s\n", "exponent", "100,000");
  for (const auto& [phase, measured] : table)
    for (std::size_t who = 0; who < names.size(); ++who)
      for (std::size_t quantity = 0; quantity < quantities.size(); ++quantity) {
        std::printf("%-6s %-9s %-9s", phase.c_str(), names[who], quantities[quantity]);
        for (const auto& [P, at] : measured) std::printf(" %10.0f", at[who][quantity]);
        std::printf(" %9.2f %10.0f\n", exponent(measured, who, quantity),
                    extrapolated(measured, who, quantity));
      }
}

TEST(Scale, NothingGrowsFasterThanTheLogarithm) {
  Table table;
  for (const int ranks : {64, 256, 1024, 4096}) measure(table, ranks);
  print(table);
  for (const std::string& text : complaints(table)) ADD_FAILURE() << text;
}

// Everyone to everyone, as small reductions are on few ranks.
TEST(Scale, FlatReductionsAreSeen) {
  comm::RouteLimits& limits = comm::route_limits();
  const comm::RouteLimits before = limits;
  limits.direct_ranks = limits.table_ranks = 1 << 20;
  Table table;
  for (const int ranks : {64, 256}) measure(table, ranks);
  limits = before;
  EXPECT_FALSE(complaints({{"step", table["step"]}}).empty());
}

// All ranks to rank 0, one by one.
TEST(Scale, AFlatGatherIsSeen) {
  Table table;
  for (const int ranks : {64, 256, 1024}) {
    Simulation run(ranks);
    run.phase(table, "gather", [&](Rank&, int rank) {
      double value = rank;
      MPI_Request request;
      for (int peer = 1; rank == 0 && peer < ranks; ++peer) {
        MPI_Irecv(&value, 8, MPI_BYTE, peer, 0, MPI_COMM_WORLD, &request);
        for (int done = 0; done == 0;) MPI_Test(&request, &done, MPI_STATUS_IGNORE);
      }
      if (rank > 0) {
        MPI_Isend(&value, 8, MPI_BYTE, 0, 0, MPI_COMM_WORLD, &request);
        MPI_Request_free(&request);
      }
    });
  }
  const auto found = complaints(table);
  ASSERT_FALSE(found.empty());
  EXPECT_NE(found[0].find("of rank 0 grow"), std::string::npos) << found[0];
}

}  // namespace
}  // namespace trireme::scale

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
