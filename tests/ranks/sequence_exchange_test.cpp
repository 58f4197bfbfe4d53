// Parts of sequences exchanged for parts of heads, and back, in both orders.
// SPDX-License-Identifier: Apache-2.0
#include "parallel/sequence_exchange.hpp"

#include <gtest/gtest.h>

#include "comm/mesh.hpp"
#include "kernels/elementwise.hpp"
#include "support/world.hpp"
#include "unit/kernels/attention/attention_case.hpp"

namespace trireme::test {
namespace {

using parallel::ContextOrder;
using parallel::SequenceExchange;

constexpr std::int64_t B = 2, heads_of_a_rank = 2;

// Two kinds of columns, 3 and 1 of each head, side by side with a column between them.
constexpr std::int64_t first_width = 3, second_width = 1;

double element(std::int64_t b, std::int64_t position, std::int64_t head,
               std::int64_t column) {
  return static_cast<double>(((b * 100 + position) * 100 + head) * 10 + column);
}

struct Fused {
  Fused(std::int64_t rows, std::int64_t heads)
      : memory(buffer(DType::f64, {rows, heads * (first_width + second_width) + 1})),
        first(memory.view().columns(0, heads * first_width)),
        second(memory.view().columns(heads * first_width + 1, heads * second_width)) {
    Stream stream;
    kernels::fill(stream, memory.view(), -1);
  }
  // Calls f(element, b, row, head, column) for all of `heads` heads.
  template <class F>
  void for_all(std::int64_t heads, const F& f) const {
    const std::int64_t rows = memory.view().dim(0) / B;
    const auto of = [&](const TensorView& x, std::int64_t width, std::int64_t name) {
      for (std::int64_t t = 0; t < B * rows; ++t)
        for (std::int64_t c = 0; c < heads * width; ++c)
          f(x.data<double>()[t * x.stride(0) + c], t / rows, t % rows, c / width,
            name + c % width);
    };
    of(first, first_width, 0);
    of(second, second_width, first_width);
  }
  Buffer memory;
  TensorView first, second;
};

class Exchange : public ::testing::TestWithParam<ContextOrder> {};

TEST_P(Exchange, HeadsHaveWholeSequencesAndRowsComeBack) {
  comm::World& world = test::world();
  comm::Mesh mesh(world, {.context = world.size()});
  comm::Group& group = mesh.group(comm::Axis::context);
  const std::int64_t n = group.size(), L = 4, H = n * heads_of_a_rank;
  const auto positions =
      parallel::context_positions(GetParam(), L * n, group.size(), group.rank());
  const auto here = [&](std::int64_t row) {
    return positions[static_cast<std::size_t>(row)];
  };
  SequenceExchange exchange(group, GetParam());
  const Range mine = exchange.part(H);
  EXPECT_EQ(mine.begin, group.rank() * heads_of_a_rank);
  EXPECT_EQ(exchange.whole(L), L * n);

  const Fused outside(B * L, H), inside(B * L * n, heads_of_a_rank), back(B * L, H);
  outside.for_all(H, [&](double& x, auto b, auto row, auto head, auto column) {
    x = element(b, here(row), head, column);
  });
  Stream stream;
  Arena scratch = host_arena();
  const SequenceExchange::Columns there[] = {{outside.first, inside.first},
                                             {outside.second, inside.second}};
  exchange.to_heads(stream, scratch, B, there);
  inside.for_all(heads_of_a_rank,
                 [&](double x, auto b, auto position, auto head, auto column) {
                   ASSERT_EQ(x, element(b, position, mine.begin + head, column));
                 });
  const SequenceExchange::Columns again[] = {{back.first, inside.first},
                                             {back.second, inside.second}};
  exchange.to_rows(stream, scratch, B, again);
  back.for_all(H, [&](double x, auto b, auto row, auto head, auto column) {
    ASSERT_EQ(x, element(b, here(row), head, column));
  });
}

TEST_P(Exchange, NumbersOfRowsAreGatheredByPosition) {
  comm::World& world = test::world();
  comm::Mesh mesh(world, {.context = world.size()});
  comm::Group& group = mesh.group(comm::Axis::context);
  const std::int64_t n = group.size(), L = 2, S = L * n;
  const auto positions =
      parallel::context_positions(GetParam(), S, group.size(), group.rank());
  const Buffer outside = buffer(DType::i32, {B * L}),
               inside = buffer(DType::i32, {B * S});
  for (std::int64_t t = 0; t < B * L; ++t)
    outside.view().data<std::int32_t>()[t] =
        static_cast<std::int32_t>(t / L * S + positions[static_cast<std::size_t>(t % L)]);
  SequenceExchange exchange(group, GetParam());
  Stream stream;
  Arena scratch = host_arena();
  exchange.gather(stream, scratch, B, outside.view(), inside.view());
  for (std::int64_t t = 0; t < B * S; ++t)
    ASSERT_EQ(inside.view().data<std::int32_t>()[t], t);
}

TEST_P(Exchange, RefusesHeadsThatRanksCannotShare) {
  comm::World& world = test::world();
  if (world.size() == 1) GTEST_SKIP() << "one rank takes any number";
  comm::Mesh mesh(world, {.context = world.size()});
  SequenceExchange exchange(mesh.group(comm::Axis::context), GetParam());
  EXPECT_THROW(exchange.part(world.size() + 1), Error);
}

INSTANTIATE_TEST_SUITE_P(Orders, Exchange,
                         ::testing::Values(ContextOrder::contiguous,
                                           ContextOrder::zigzag));

}  // namespace
}  // namespace trireme::test
