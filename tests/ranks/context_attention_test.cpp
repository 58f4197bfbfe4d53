// Attention over the context axis, ring and Ulysses, against whole sequences on one rank.
// SPDX-License-Identifier: Apache-2.0
// Outputs and every gradient are compared; finite differences, adjoint, bits, memory.
#include <gtest/gtest.h>

#include <memory>

#include "base/work_meter.hpp"
#include "comm/mesh.hpp"
#include "parallel/ring_attention.hpp"
#include "parallel/ulysses_attention.hpp"
#include "support/context_pairs.hpp"
#include "support/device.hpp"
#include "support/world.hpp"
#include "unit/kernels/attention/attention_case.hpp"

namespace trireme::test {
namespace {

using kernels::AttentionShape;
using parallel::ContextOrder;

enum class Kind { ring_contiguous, ring_zigzag, ulysses };
constexpr Kind kinds[] = {Kind::ring_contiguous, Kind::ring_zigzag, Kind::ulysses};

ContextOrder order_of(Kind kind) {
  return kind == Kind::ring_zigzag ? ContextOrder::zigzag : ContextOrder::contiguous;
}

std::unique_ptr<parallel::AttentionCore> make_core(Kind kind, comm::Group& group) {
  if (kind == Kind::ulysses) return std::make_unique<parallel::UlyssesAttention>(group);
  return std::make_unique<parallel::RingAttention>(group, order_of(kind));
}

comm::Group& context() {
  static comm::Mesh mesh(test::world(), {.context = test::world().size()});
  return mesh.group(comm::Axis::context);
}

// Sums over the ranks, in double.
double sum_over_ranks(double value) {
  const Buffer sum = buffer(DType::f64, {1});
  sum.view().data<double>()[0] = value;
  Stream stream;
  context().all_reduce(stream, sum.view()).wait();
  return sum.view().data<double>()[0];
}

// This rank's rows of [B * S, n] as [B * L, n], by values.
template <class T>
void keep_my_rows(const TensorView& whole, std::int64_t B,
                  const std::vector<std::int64_t>& positions, const TensorView& mine) {
  const auto L = static_cast<std::int64_t>(positions.size());
  const std::int64_t S = whole.dim(0) / B;
  for (std::int64_t b = 0; b < B; ++b)
    for (std::int64_t t = 0; t < L; ++t)
      std::copy_n(whole.data<T>() +
                      (b * S + positions[static_cast<std::size_t>(t)]) * whole.stride(0),
                  whole.dim(1), mine.data<T>() + (b * L + t) * mine.stride(0));
}

AttentionShape local_shape(const AttentionShape& shape) {
  AttentionShape local = shape;
  local.sequence = shape.sequence / context().size();
  return local;
}

// A whole problem, this rank's part of it, and a core that works on the parts.
template <class T>
struct ContextCase {
  using A = Accumulator<T>;

  // longest: of the documents; 0: none.
  ContextCase(Kind kind, const AttentionShape& shape, std::int64_t longest = 0)
      : core(make_core(kind, context())),
        positions(parallel::context_positions(order_of(kind), shape.sequence,
                                              context().size(), context().rank())),
        whole(shape),
        mine(local_shape(shape)) {
    keep(whole.q(), mine.q());
    keep(whole.k(), mine.k());
    keep(whole.v(), mine.v());
    keep(whole.d_o(), mine.d_o());
    if (longest == 0) return;
    whole.cut_documents(longest);
    mine.first_keys = buffer(DType::i32, {mine.rows});
    mine.shape.first_T = mine.first_keys.view();
    keep_my_rows<std::int32_t>(whole.shape.first_T.reshape({whole.rows, 1}),
                               whole.shape.batch, positions,
                               mine.shape.first_T.reshape({mine.rows, 1}));
  }

  void keep(const TensorView& all, const TensorView& part) const {
    keep_my_rows<T>(all, whole.shape.batch, positions, part);
  }

  void forward(Arena& scratch) {
    core->forward(stream, scratch, mine.shape, mine.q(), mine.k(), mine.v(), mine.o(),
                  mine.lse());
  }
  void backward(Arena& scratch) {
    core->backward(stream, scratch, mine.shape, mine.d_o(), mine.q(), mine.k(), mine.v(),
                   mine.o(), mine.lse(), mine.dq(), mine.dk(), mine.dv());
  }
  void run() {
    Arena scratch = host_arena();
    forward(scratch);
    backward(scratch);
    EXPECT_EQ(scratch.mark(), 0U);
  }

  // My rows of a result of the whole problem, like `part`.
  template <class E>
  Buffer expected(const TensorView& all, const TensorView& part) const {
    Buffer rows = buffer(dtype_of<E>, part.shape());
    keep_my_rows<E>(all, whole.shape.batch, positions, rows.view());
    return rows;
  }
  // Relative L2 distance of my part of a result from the whole's.
  template <class E = T>
  double error(const TensorView& part, const TensorView& all, double floor = 0) const {
    return distance(doubles<E>(part), doubles<E>(expected<E>(all, part).view()), floor);
  }

  Stream stream;
  std::unique_ptr<parallel::AttentionCore> core;
  std::vector<std::int64_t> positions;
  AttentionCase<T> whole, mine;
};

// Sequences that 1 to 4 ranks can share in both orders, and query heads that they can
// share: grouped heads in no order, heads that several ranks use, one that none uses, and
// ranks that use different numbers of them. Rows enough for several pieces of a part.
std::vector<AttentionShape> shapes() {
  std::vector<AttentionShape> all;
  all.push_back(attention_shape(1, 24, 20, 3, {1, 0, 1, 1, 0, 0, 1, 1, 0, 0, 0, 0}));
  all.push_back(attention_shape(3, 48, 33, 5, {4, 4, 4, 0, 1, 2, 0, 2, 1, 2, 0, 4}));
  all.push_back(attention_shape(3, 120, 8, 12, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}));
  all.push_back(attention_shape(1, is_watched() ? 240 : 1200, 16, 1,
                                {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}));
  return all;
}

template <class T>
class ContextAttention : public testing::Test {};
using Types = testing::Types<double, float, BFloat16>;
TYPED_TEST_SUITE(ContextAttention, Types);

// Both sides have the errors of accumulation; each merge rounds o and lse once more, and
// an error of lse, of size up to 10, is one of e^lse. o is then rounded to T on both
// sides: half an epsilon each. Gradients feel that rounding through delta; see the tests
// of the kernels.
template <class T>
void expect_agreement(ContextCase<T>& x) {
  using A = Accumulator<T>;
  x.whole.forward();
  x.whole.backward();
  x.run();
  const bool in_double = std::is_same_v<T, double>;
  const double tolerance =
      in_double ? 1e-12
                : 2 * x.whole.accumulated() + 12 * epsilon<A>() * context().size();
  const double rounding = in_double ? 0 : epsilon<T>();
  EXPECT_LT(x.error(x.mine.o(), x.whole.o()), tolerance + rounding);
  EXPECT_LT(x.template error<A>(x.mine.lse(), x.whole.lse(),
                                std::sqrt(static_cast<double>(x.mine.rows))),
            tolerance);
  const double limit = in_double ? 1e-12 : 3 * tolerance + 4 * rounding;
  EXPECT_LT(x.error(x.mine.dq(), x.whole.dq()), limit);
  EXPECT_LT(x.error(x.mine.dk(), x.whole.dk()), limit);
  EXPECT_LT(x.error(x.mine.dv(), x.whole.dv()), limit);
  x.mine.expect_margins_untouched();
}

TYPED_TEST(ContextAttention, AgreesWithWholeSequences) {
  auto all = shapes();
  all.push_back(all.front());
  all.back().cap = 1.5;  // of the scores
  for (const Kind kind : kinds)
    for (const AttentionShape& shape : all) {
      ContextCase<TypeParam> x(kind, shape);
      SCOPED_TRACE(format("kind {} {}", static_cast<int>(kind), x.whole.describe()));
      expect_agreement(x);
    }
}

// Documents shorter and longer than what a rank holds.
TYPED_TEST(ContextAttention, AgreesWithWholeSequencesOfDocuments) {
  for (const Kind kind : kinds)
    for (const std::int64_t longest : {5, 150}) {
      ContextCase<TypeParam> x(
          kind, attention_shape(2, 240, 20, 3, {1, 0, 1, 1, 0, 0, 1, 1, 0, 2, 2, 0}),
          longest);
      SCOPED_TRACE(format("kind {} documents {}", static_cast<int>(kind), longest));
      expect_agreement(x);
    }
}

// The kernels see what they see on one rank, and only gradients of shared heads are sums
// of rounded ones.
TYPED_TEST(ContextAttention, UlyssesHasTheBitsOfWholeSequences) {
  using T = TypeParam;
  for (const AttentionShape& shape : shapes()) {
    ContextCase<T> x(Kind::ulysses, shape);
    x.whole.forward();
    x.whole.backward();
    x.run();
    const auto same = [&]<class E>(E, const TensorView& part, const TensorView& all) {
      return same_bits(part, x.template expected<E>(all, part).view());
    };
    EXPECT_TRUE(same(T{}, x.mine.o(), x.whole.o()));
    EXPECT_TRUE(same(Accumulator<T>{}, x.mine.lse(), x.whole.lse()));
    EXPECT_TRUE(same(T{}, x.mine.dq(), x.whole.dq()));
    if (shape.heads != shape.kv_heads) continue;
    EXPECT_TRUE(same(T{}, x.mine.dk(), x.whole.dk()));
    EXPECT_TRUE(same(T{}, x.mine.dv(), x.whole.dv()));
  }
}

TYPED_TEST(ContextAttention, OneRankHasTheBitsOfLocalAttention) {
  using T = TypeParam;
  if (context().size() > 1) GTEST_SKIP() << "for one rank";
  for (const Kind kind : kinds) {
    ContextCase<T> x(kind, attention_shape(2, 300, 20, 2, {1, 0, 1}));
    x.whole.forward();
    x.whole.backward();
    x.run();
    EXPECT_TRUE(same_bits(x.mine.outputs.view(), x.whole.outputs.view()));
    EXPECT_TRUE(same_bits(x.mine.lse(), x.whole.lse()));
    EXPECT_TRUE(same_bits(x.mine.d_fused.view(), x.whole.d_fused.view()));
  }
}

// Twice the same, whatever the gradients held before, and nothing new is allocated.
TYPED_TEST(ContextAttention, RepeatsToTheBit) {
  using T = TypeParam;
  for (const Kind kind : kinds) {
    const AttentionShape shape =
        attention_shape(2, 240, 20, 3, {0, 2, 0, 1, 1, 0, 2, 2, 1, 1, 0, 0});
    ContextCase<T> x(kind, shape), y(kind, shape);
    x.run();
    for (const TensorView& view : {y.mine.dq(), y.mine.dk(), y.mine.dv(), y.mine.o()})
      fill<T>(view, 5);
    Arena scratch = host_arena();
    y.forward(scratch);
    y.backward(scratch);
    const std::int64_t allocations = memory_allocations();
    y.forward(scratch);
    y.backward(scratch);
    EXPECT_EQ(memory_allocations(), allocations);
    EXPECT_TRUE(same_bits(x.mine.outputs.view(), y.mine.outputs.view()));
    EXPECT_TRUE(same_bits(x.mine.lse(), y.mine.lse()));
    EXPECT_TRUE(same_bits(x.mine.d_fused.view(), y.mine.d_fused.view()));
  }
}

// o is linear in v: <A v', do> = <v', A^T do> over all ranks, for any v'.
TEST(ContextAttentionDouble, BackwardIsTheAdjointInTheValues) {
  for (const Kind kind : kinds) {
    ContextCase<double> x(kind, shapes()[1]);
    x.run();
    const auto dv = doubles<double>(x.mine.dv());
    fill_normal<double>(x.whole.v(), 50);
    x.keep(x.whole.v(), x.mine.v());
    Arena scratch = host_arena();
    x.forward(scratch);
    const auto dot = [](const std::vector<double>& a, const std::vector<double>& b) {
      double sum = 0;
      for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
      return sum_over_ranks(sum);
    };
    const auto d_o = doubles<double>(x.mine.d_o());
    const double left = dot(doubles<double>(x.mine.o()), d_o);
    const double right = dot(doubles<double>(x.mine.v()), dv);
    // Sums of n products of order one: k eps sqrt(n) of their sum's size, k = 16.
    const double n = static_cast<double>(d_o.size()) * context().size();
    EXPECT_NEAR(left, right, 16 * epsilon<double>() * std::sqrt(n) * std::sqrt(n));
  }
}

// <do, o> along random directions of q, k and v, over all ranks.
TEST(ContextAttentionDouble, AgreesWithFiniteDifferences) {
  const double h = std::cbrt(epsilon<double>());
  for (const Kind kind : kinds) {
    ContextCase<double> x(kind, shapes()[1]);
    x.run();
    const std::pair<TensorView, TensorView> pairs[] = {
        {x.mine.q(), x.mine.dq()}, {x.mine.k(), x.mine.dk()}, {x.mine.v(), x.mine.dv()}};
    std::uint64_t stream = 100;
    for (const auto& [operand, gradient] : pairs) {
      const Random random(11 + static_cast<std::uint64_t>(context().rank()), ++stream);
      const auto at = [&](const TensorView& view, std::size_t i) -> double& {
        const auto n = static_cast<std::int64_t>(i);
        const std::int64_t columns = operand.dim(1);
        return view.data<double>()[n / columns * view.stride(0) + n % columns];
      };
      const auto size = static_cast<std::size_t>(operand.elements());
      double squares = 0;
      for (std::size_t i = 0; i < size; ++i)
        squares += random.normal(i) * random.normal(i);
      const double unit = 1 / std::sqrt(sum_over_ranks(squares));
      const auto move = [&](double step) {
        for (std::size_t i = 0; i < size; ++i)
          at(operand, i) += step * unit * random.normal(i);
      };
      const auto value = [&](double step) {
        move(step);
        Arena scratch = host_arena();
        x.forward(scratch);
        move(-step);
        return doubles<double>(x.mine.o());
      };
      const auto above = value(h), below = value(-h);
      const auto d_o = doubles<double>(x.mine.d_o());
      double expected = 0, got = 0;
      for (std::size_t i = 0; i < d_o.size(); ++i)
        expected += d_o[i] * (above[i] - below[i]) / (2 * h);
      for (std::size_t i = 0; i < size; ++i)
        got += at(gradient, i) * unit * random.normal(i);
      const double size_of_do = std::sqrt(sum_over_ranks(norm(d_o) * norm(d_o)));
      EXPECT_NEAR(sum_over_ranks(got), sum_over_ranks(expected),
                  size_of_do * epsilon<double>() / h + 10 * h * h);
    }
  }
}

TensorView on_meta(const TensorView& view) {
  return TensorView(nullptr, view.dtype(), view.shape(), Device::meta());
}

// Adds up the FLOPs of attention that kernels on meta would do.
class AttentionMeter final : public WorkMeter {
 public:
  void kernel(const KernelWork& work) override {
    if (work.kind == WorkKind::attention)
      (work.backward ? backward : forward) += work.flops;
  }
  MessageFlight message(const MessageWork&) override { return {}; }
  double wait_for(const MessageFlight&) override { return 0; }
  double seconds() const override { return 0; }

  double forward = 0, backward = 0;
};

// The ring computes what context_pairs() says, forward and backward, and no more: 4 K
// FLOPs a pair and a head forward, and 10 K backward. In zigzag order that is the same
// on all ranks.
TEST(RingAttention, ComputesThePairsItShould) {
  const AttentionShape shape = attention_shape(2, 2400, 4, 1, {0});
  const int ranks = context().size();
  const comm::Mesh mesh = comm::Mesh::meta({.context = ranks}, context().rank());
  const AttentionCase<float> x(local_shape(shape));
  for (const ContextOrder order : {ContextOrder::contiguous, ContextOrder::zigzag}) {
    parallel::RingAttention ring(mesh.group(comm::Axis::context), order);
    Stream meta(Device::meta());
    Arena scratch(Device::meta(), 0, MemoryClass::workspace, "meta");
    AttentionMeter meter;
    {
      const WorkMeterInUse in_use(meter);
      ring.forward(meta, scratch, x.shape, on_meta(x.q()), on_meta(x.k()), on_meta(x.v()),
                   on_meta(x.o()), on_meta(x.lse()));
      ring.backward(meta, scratch, x.shape, on_meta(x.d_o()), on_meta(x.q()),
                    on_meta(x.k()), on_meta(x.v()), on_meta(x.o()), on_meta(x.lse()),
                    on_meta(x.dq()), on_meta(x.dk()), on_meta(x.dv()));
    }
    const auto pairs = static_cast<double>(
        context_pairs(order, shape.sequence, ranks, context().rank()));
    const double a_pair =
        static_cast<double>(shape.batch * shape.heads * shape.head_width);
    EXPECT_EQ(meter.forward, 4 * a_pair * pairs);
    EXPECT_EQ(meter.backward, 10 * a_pair * pairs);
    const double mean = sum_over_ranks(pairs) / ranks;
    if (order == ContextOrder::zigzag) {
      EXPECT_NEAR(pairs, mean, 0.02 * pairs);
    }
  }
}

// A meta run asks of the arena what a real one does, and an arena of that size suffices.
TYPED_TEST(ContextAttention, MetaMeasuresTheScratch) {
  using T = TypeParam;
  const comm::Mesh mesh =
      comm::Mesh::meta({.context = context().size()}, context().rank());
  for (const auto& [kind, longest] : {std::pair<Kind, std::int64_t>{kinds[0], 0},
                                      {kinds[1], 0},
                                      {kinds[2], 0},
                                      {kinds[1], 9},
                                      {kinds[2], 9}}) {
    ContextCase<T> x(kind, shapes()[1], longest);
    const auto core = make_core(kind, mesh.group(comm::Axis::context));
    const AttentionCase<T>& c = x.mine;
    AttentionShape shape = c.shape;
    if (longest > 0) shape.first_T = on_meta(shape.first_T);
    Stream meta(Device::meta());
    Arena forward(Device::meta(), 0, MemoryClass::workspace, "meta");
    Arena backward(Device::meta(), 0, MemoryClass::workspace, "meta");
    core->forward(meta, forward, shape, on_meta(c.q()), on_meta(c.k()), on_meta(c.v()),
                  on_meta(c.o()), on_meta(c.lse()));
    core->backward(meta, backward, shape, on_meta(c.d_o()), on_meta(c.q()),
                   on_meta(c.k()), on_meta(c.v()), on_meta(c.o()), on_meta(c.lse()),
                   on_meta(c.dq()), on_meta(c.dk()), on_meta(c.dv()));
    const auto room = [](const Arena& measured) {
      return Arena(Device::host(), measured.peak_bytes(), MemoryClass::workspace,
                   "exact");
    };
    Arena real_forward = room(forward), real_backward = room(backward);
    x.forward(real_forward);
    x.backward(real_backward);
    ASSERT_GT(forward.peak_bytes(), 0U);
    EXPECT_EQ(real_forward.peak_bytes(), forward.peak_bytes());
    EXPECT_EQ(real_backward.peak_bytes(), backward.peak_bytes());
    EXPECT_EQ(mesh.group(comm::Axis::context).bytes_sent() > 0, context().size() > 1);
  }
}

TEST(ContextAttentionChecks, RefuseWhatCannotBeDone) {
  if (context().size() == 1) GTEST_SKIP() << "one rank can do all";
  AttentionCase<float> x(attention_shape(1, 7, 8, 1, {0, 0, 0, 0, 0}));
  Stream stream;
  Arena scratch = host_arena();
  parallel::RingAttention zigzag(context(), ContextOrder::zigzag);
  EXPECT_THROW(
      zigzag.forward(stream, scratch, x.shape, x.q(), x.k(), x.v(), x.o(), x.lse()),
      Error);
  parallel::UlyssesAttention ulysses(context());
  EXPECT_THROW(
      ulysses.forward(stream, scratch, x.shape, x.q(), x.k(), x.v(), x.o(), x.lse()),
      Error);
}

}  // namespace
}  // namespace trireme::test
