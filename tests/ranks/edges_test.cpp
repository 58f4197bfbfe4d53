// Every edge is the adjoint of its backward, with one generic test.
// SPDX-License-Identifier: Apache-2.0
// It is <A x, u> = <x, A^T u>,
// where the inner product of a value over the ranks of the axis follows from its place.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/philox.hpp"
#include "comm/mesh.hpp"
#include "parallel/edge.hpp"
#include "parallel/tensor_region.hpp"
#include "support/world.hpp"

namespace trireme {
namespace {

constexpr std::int64_t columns = 5;

// A value with `rows` rows at `place`: equal on all ranks where the place says so.
std::vector<double> make_value(Place place, std::int64_t rows, int rank,
                               std::uint64_t stream) {
  const bool same = place == Place::replicate || place == Place::invariant;
  const Random random(7, stream + (same ? 0 : 1000 + static_cast<std::uint64_t>(rank)));
  std::vector<double> value(static_cast<std::size_t>(rows * columns));
  for (std::size_t i = 0; i < value.size(); ++i) value[i] = random.normal(i);
  return value;
}

// <value, gradient> over the axis. A gradient pairs with its value so that the sum of
// local products over ranks counts each logical element once: for invariant values every
// rank has the whole product, so it is divided by the number of ranks. For replicate
// values the gradient is partial, for partial values it is replicated: local products
// just add up.
double inner(comm::Group& group, Place place, const std::vector<double>& value,
             const double* gradient) {
  double local = 0;
  for (std::size_t i = 0; i < value.size(); ++i) local += value[i] * gradient[i];
  if (place == Place::invariant) local /= group.size();
  Buffer sum(Device::host(), DType::f64, {1}, MemoryClass::workspace, "inner");
  sum.view().data<double>()[0] = local;
  Stream stream;
  group.all_reduce(stream, sum.view()).wait();
  return sum.view().data<double>()[0];
}

TensorView put(Arena& arena, const std::vector<double>& value) {
  const auto rows = static_cast<std::int64_t>(value.size()) / columns;
  const TensorView view = arena.take(DType::f64, {rows, columns}, "value");
  std::copy(value.begin(), value.end(), view.data<double>());
  return view;
}

TEST(Edges, BackwardIsTheAdjointOfForward) {
  comm::World& world = test::world();
  comm::Mesh mesh(world, {.tensor = world.size()});
  comm::Group& group = mesh.group(comm::Axis::tensor);
  Stream stream;
  for (const parallel::Edge& edge : parallel::edge::all()) {
    SCOPED_TRACE(std::string(edge.name));
    Arena arena(Device::host(), 1 << 20, MemoryClass::workspace, "test");
    const std::int64_t rows = 3 * group.size();
    const auto x = make_value(edge.source, rows, group.rank(), 1);
    const TensorView y = edge.forward(group, stream, arena, put(arena, x)).wait();
    const std::vector<double> y_values(y.data<double>(), y.data<double>() + y.elements());
    // u is a gradient of y: it lies where gradients of y's place lie.
    const auto u =
        make_value(gradient_place(edge.destination), y.dim(0), group.rank(), 2);
    const double left = inner(group, edge.destination, y_values, u.data());
    const TensorView dx = edge.backward(group, stream, arena, put(arena, u)).wait();
    ASSERT_EQ(dx.elements(), static_cast<std::int64_t>(x.size()));
    const double right = inner(group, edge.source, x, dx.data<double>());
    // Sums of n products of order one in another order: k eps sqrt(n), k = 8.
    const double n = static_cast<double>(rows * columns * group.size());
    EXPECT_NEAR(left, right, 8 * 2.3e-16 * std::sqrt(n) * std::sqrt(n));
  }
}

TEST(Edges, ForwardMakesTheNamedPlace) {
  comm::World& world = test::world();
  comm::Mesh mesh(world, {.tensor = world.size()});
  comm::Group& group = mesh.group(comm::Axis::tensor);
  Stream stream;
  for (const parallel::Edge& edge : parallel::edge::all()) {
    SCOPED_TRACE(std::string(edge.name));
    Arena arena(Device::host(), 1 << 20, MemoryClass::workspace, "test");
    const auto x = make_value(edge.source, 2 * group.size(), group.rank(), 3);
    const TensorView y = edge.forward(group, stream, arena, put(arena, x)).wait();
    if (edge.destination == Place::varying) continue;
    // The same bits on every rank: the maximum and the minimum over ranks agree.
    const TensorView most = arena.take(DType::f64, {y.elements()}, "max");
    const TensorView least = arena.take(DType::f64, {y.elements()}, "min");
    for (std::int64_t i = 0; i < y.elements(); ++i) {
      most.data<double>()[i] = y.data<double>()[i];
      least.data<double>()[i] = -y.data<double>()[i];
    }
    group.all_reduce(stream, most, comm::Reduce::max).wait();
    group.all_reduce(stream, least, comm::Reduce::max).wait();
    for (std::int64_t i = 0; i < y.elements(); ++i) {
      EXPECT_EQ(most.data<double>()[i], -least.data<double>()[i]);
    }
  }
}

// A sum whose terms are made in parts of rows has the bits of the whole sum, whatever the
// parts: also of unequal rows, and more of them than rows. Both kinds of region, and both
// ways through it; the product is asked for each row once.
TEST(TensorRegion, SumsInPartsAreTheSum) {
  comm::World& world = test::world();
  comm::Mesh mesh(world, {.tensor = world.size()});
  comm::Group& group = mesh.group(comm::Axis::tensor);
  Stream stream;
  for (const bool sequence : {false, true}) {
    const std::int64_t rows = 5 * (sequence ? group.size() : 1);
    const auto terms = make_value(Place::partial, rows, group.rank(), 4);
    const auto sum = [&](int chunks, bool forward) {
      const parallel::TensorRegion region(group, sequence, chunks);
      Arena arena(Device::host(), 1 << 20, MemoryClass::workspace, "test");
      const TensorView x = arena.take(DType::f64, {rows, columns}, "x");
      std::vector<int> asked(static_cast<std::size_t>(rows), 0);
      const auto product = [&](const Range& range, const TensorView& to) {
        EXPECT_EQ(to.dim(0), range.count());
        std::copy_n(terms.begin() + range.begin * columns, range.count() * columns,
                    to.data<double>());
        for (std::int64_t row = range.begin; row < range.end; ++row)
          ++asked[static_cast<std::size_t>(row)];
      };
      auto transfer = forward ? region.leave(stream, arena, x, product)
                              : region.enter_backward(stream, arena, x, product);
      const TensorView y = transfer.wait();
      for (const int times : asked) EXPECT_EQ(times, 1);
      return std::vector<double>(y.data<double>(), y.data<double>() + y.elements());
    };
    for (const bool forward : {true, false}) {
      const std::vector<double> whole = sum(1, forward);
      for (const int chunks : {2, 3, 5, 8}) EXPECT_EQ(sum(chunks, forward), whole);
    }
  }
}

}  // namespace
}  // namespace trireme
