// The gated delta rule in chunks against the rule row by row, forward and backward.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/delta_rule.hpp"

#include "kernels/elementwise.hpp"
#include "kernels/reference/delta_rule.hpp"
#include "unit/kernels/elementwise_tensors.hpp"

namespace trireme::test {
namespace {

using kernels::DeltaInputs;
using kernels::DeltaShape;
using kernels::reference::DeltaVectors;

class DeltaRule : public testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(Types, DeltaRule, every_type, type_name);

constexpr std::size_t arena_bytes = std::size_t{64} << 20;

// Documents that begin at these rows of every sequence.
std::vector<int> starts_of(const DeltaShape& shape, const std::vector<int>& begins) {
  std::vector<int> starts;
  for (std::int64_t row = 0; row < shape.batch * shape.sequence; ++row) {
    int start = 0;
    for (const int begin : begins)
      if (begin <= static_cast<int>(row % shape.sequence)) start = begin;
    starts.push_back(start);
  }
  return starts;
}

struct Case {
  DeltaShape shape;
  DType dtype;
  Tensor qkv, dqkv, g, beta, dg, dbeta, o, d_o, states;
  std::vector<int> starts;
  Buffer starts_T;

  Case(DType type, const DeltaShape& of, const std::vector<int>& begins)
      : shape(of),
        dtype(type),
        qkv(Tensor::normal(type, {rows(), width()}, 1, 3)),
        dqkv(type, {rows(), width()}, 3),
        g(accumulator_of(type), {rows(), of.value_heads}),
        beta(accumulator_of(type), {rows(), of.value_heads}),
        dg(accumulator_of(type), {rows(), of.value_heads}),
        dbeta(accumulator_of(type), {rows(), of.value_heads}),
        o(type, {rows(), of.value_heads * of.value_width}, 5),
        d_o(Tensor::normal(type, {rows(), of.value_heads * of.value_width}, 2, 5)),
        states(accumulator_of(type), of.states()) {
    const Tensor a = Tensor::normal(DType::f64, g.view().shape(), 3),
                 b = Tensor::normal(DType::f64, g.view().shape(), 4);
    Vector gates = a.values(), betas = b.values();
    for (double& x : gates) x = -std::log1p(std::exp(x - 2));
    for (double& x : betas) x = 1 / (1 + std::exp(-x));
    g.set(gates);
    beta.set(betas);
    if (begins.empty()) return;
    starts = starts_of(shape, begins);
    starts_T = Buffer(test_device(), DType::i32, {rows()}, MemoryClass::data, "starts");
    Stream stream(test_device());
    copy_bytes(stream, TensorView(starts.data(), DType::i32, {rows()}), starts_T.view());
    stream.synchronize();
    shape.starts_T = starts_T.view();
  }

  std::int64_t rows() const { return shape.batch * shape.sequence; }
  std::int64_t keys() const { return shape.key_heads * shape.key_width; }
  std::int64_t width() const {
    return 2 * keys() + shape.value_heads * shape.value_width;
  }
  DeltaInputs in(const Tensor& all, const Tensor& gates, const Tensor& betas) const {
    const TensorView& x = all.view();
    return {x.columns(0, keys()), x.columns(keys(), keys()),
            x.columns(2 * keys(), width() - 2 * keys()), gates, betas};
  }
  Vector part(const Tensor& all, std::int64_t begin, std::int64_t count) const {
    const Vector whole = all.values();
    Vector of;
    for (std::int64_t t = 0; t < rows(); ++t)
      for (std::int64_t c = 0; c < count; ++c)
        of.push_back(whole[static_cast<std::size_t>(t * width() + begin + c)]);
    return of;
  }
  DeltaVectors vectors(const Tensor& all, const Tensor& gates,
                       const Tensor& betas) const {
    return {part(all, 0, keys()), part(all, keys(), keys()),
            part(all, 2 * keys(), width() - 2 * keys()), gates.values(), betas.values()};
  }
};

// Sums of a few hundred terms, through a triangular system whose inverse is not large for
// keys of length 1: relative to the largest element k eps sqrt(S K), k = 32, and one
// rounding to the type of the result.
void expect_close(const Vector& made, const Vector& expected, DType dtype,
                  const DeltaShape& shape, const char* what) {
  const double terms = std::sqrt(
      static_cast<double>(shape.sequence * std::max(shape.key_width, shape.value_width)));
  const double most = std::max(largest(expected), 1e-3);
  const double sums = 32 * roundoff(accumulator_of(dtype)) * terms * most;
  ASSERT_EQ(made.size(), expected.size()) << what;
  for (std::size_t i = 0; i < made.size(); ++i)
    ASSERT_NEAR(made[i], expected[i], storing(dtype, expected[i]) + sums)
        << what << " " << i;
}

void expect_right(DType dtype, const DeltaShape& shape, const std::vector<int>& begins) {
  SCOPED_TRACE(testing::Message()
               << "S " << shape.sequence << " H " << shape.key_heads << " G "
               << shape.value_heads << " K " << shape.key_width << " V "
               << shape.value_width << " documents " << begins.size());
  Case of(dtype, shape, begins);
  Stream stream(test_device());
  Arena scratch(test_device(), arena_bytes, MemoryClass::workspace, "scratch");
  const DeltaInputs in = of.in(of.qkv, of.g, of.beta);
  const DType wide = accumulator_of(dtype);
  kernels::delta_rule(stream, scratch, of.shape, in, of.o, of.states);
  const DeltaVectors values = of.vectors(of.qkv, of.g, of.beta);
  expect_close(of.o.values(), kernels::reference::delta_rule(of.shape, values, of.starts),
               dtype, of.shape, "o");
  for (int time = 0; time < 2; ++time) {  // written, not added to
    kernels::delta_rule_backward(stream, scratch, of.shape, of.d_o, in, of.states,
                                 of.in(of.dqkv, of.dg, of.dbeta));
    const DeltaVectors made = of.vectors(of.dqkv, of.dg, of.dbeta);
    const DeltaVectors expected = kernels::reference::delta_rule_backward(
        of.shape, values, of.starts, of.d_o.values());
    expect_close(made.q, expected.q, dtype, of.shape, "dq");
    expect_close(made.k, expected.k, dtype, of.shape, "dk");
    expect_close(made.v, expected.v, dtype, of.shape, "dv");
    expect_close(made.g, expected.g, wide, of.shape, "dg");
    expect_close(made.beta, expected.beta, wide, of.shape, "dbeta");
  }
  EXPECT_TRUE(of.o.padding_is_intact());
  EXPECT_TRUE(of.dqkv.padding_is_intact());
}

DeltaShape sizes(std::int64_t B, std::int64_t S, std::int64_t H, std::int64_t G,
                 std::int64_t K, std::int64_t V) {
  return {.batch = B,
          .sequence = S,
          .key_heads = H,
          .value_heads = G,
          .key_width = K,
          .value_width = V};
}

TEST_P(DeltaRule, ChunksAreTheRuleRowByRow) {
  expect_right(GetParam(), sizes(1, 1, 1, 1, 2, 1), {});
  expect_right(GetParam(), sizes(2, 5, 1, 2, 3, 5), {});
  expect_right(GetParam(), sizes(1, 64, 2, 2, 8, 4), {});
  expect_right(GetParam(), sizes(2, 67, 2, 6, 7, 9), {});
  expect_right(GetParam(), sizes(1, 200, 1, 2, 16, 16), {});
}

// Within a chunk, at its first row, and longer than one.
TEST_P(DeltaRule, DocumentsBeginWithNothing) {
  expect_right(GetParam(), sizes(2, 9, 1, 2, 3, 5), {0, 4, 5});
  expect_right(GetParam(), sizes(1, 150, 2, 2, 5, 3), {0, 64, 70, 127, 128});
}

// A sequence in pieces, as generation meets it: what a piece ends with goes into the
// next.
TEST_P(DeltaRule, GoesOnFromAState) {
  const DType dtype = GetParam();
  Case of(dtype, sizes(1, 80, 2, 4, 6, 5), {});
  Stream stream(test_device());
  Arena scratch(test_device(), arena_bytes, MemoryClass::workspace, "scratch");
  const DeltaVectors values = of.vectors(of.qkv, of.g, of.beta);
  const DType wide = accumulator_of(dtype);
  const Tensor state = Tensor::normal(wide, of.shape.state(), 9);
  Vector expected_state = state.values();
  const Vector expected =
      kernels::reference::delta_rule(of.shape, values, {}, &expected_state);
  std::int64_t begin = 0;
  for (const std::int64_t count : {70, 1, 1, 8}) {
    const auto rows = [&](const TensorView& x) { return x.rows(begin, count); };
    const DeltaInputs in = of.in(of.qkv, of.g, of.beta);
    DeltaShape piece = of.shape;
    piece.sequence = count;
    kernels::delta_rule(
        stream, scratch, piece,
        {rows(in.q_THK), rows(in.k_THK), rows(in.v_TGV), rows(in.g_TG), rows(in.beta_TG)},
        rows(of.o), {}, state);
    begin += count;
  }
  expect_close(of.o.values(), expected, dtype, of.shape, "o");
  expect_close(state.values(), expected_state, wide, of.shape, "state");
}

// The oracle's own gradients: the difference of <o, d_o> along a random direction.
TEST(DeltaOracle, GradientsAreDifferences) {
  Case of(DType::f64, sizes(2, 12, 2, 4, 3, 5), {0, 7});
  const DeltaVectors in = of.vectors(of.qkv, of.g, of.beta);
  const Vector d_o = of.d_o.values();
  const DeltaVectors d =
      kernels::reference::delta_rule_backward(of.shape, in, of.starts, d_o);
  const Random random(5, 1);
  DeltaVectors ahead = in, behind = in;
  constexpr double h = 1e-6;
  double slope = 0;
  std::uint64_t at = 0;
  const auto move = [&](const Vector& gradient, Vector& up, Vector& down) {
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      const double by = random.normal(at++);
      slope += by * gradient[i];
      up[i] += h * by;
      down[i] -= h * by;
    }
  };
  move(d.q, ahead.q, behind.q);
  move(d.k, ahead.k, behind.k);
  move(d.v, ahead.v, behind.v);
  move(d.g, ahead.g, behind.g);
  move(d.beta, ahead.beta, behind.beta);
  const auto value = [&](const DeltaVectors& x) {
    const Vector o = kernels::reference::delta_rule(of.shape, x, of.starts);
    double sum = 0;
    for (std::size_t i = 0; i < o.size(); ++i) sum += o[i] * d_o[i];
    return sum;
  };
  // Rounding gives 1e-16 |value| / h and the third derivative h^2: 1e-9 of a slope of
  // some tens is 10 times both.
  EXPECT_NEAR((value(ahead) - value(behind)) / (2 * h), slope,
              1e-7 * (1 + std::abs(slope)));
}

// g = -e^decay softplus(a + bias), beta = sigma(b), and their gradients.
TEST_P(DeltaRule, GatesHaveTheirFormulas) {
  const DType dtype = GetParam(), wide = accumulator_of(dtype);
  for (const std::int64_t T : {1, 33}) {
    constexpr std::int64_t G = 3;
    Stream stream(test_device());
    const Tensor a = Tensor::normal(dtype, {T, G}, 1, 2),
                 b = Tensor::normal(dtype, {T, G}, 2, 2);
    const Tensor decay = Tensor::normal(dtype, {G}, 3),
                 bias(dtype, {G}, Vector{1, 8, -40});
    const Tensor g(wide, {T, G}), beta(wide, {T, G});
    const Tensor da(dtype, {T, G}, 1), db(dtype, {T, G}, 1);
    kernels::delta_gates(stream, a, b, decay, bias, g, beta);
    const Tensor dg = Tensor::normal(wide, {T, G}, 4),
                 dbeta = Tensor::normal(wide, {T, G}, 5);
    const Vector from_g = dg.values(), from_beta = dbeta.values();
    kernels::delta_gates_backward(stream, a, b, decay, bias, dg, dbeta, da, db);
    const Vector in_a = a.values(), in_b = b.values(), rates = decay.values(),
                 shifts = bias.values(), made_g = g.values(), made_beta = beta.values(),
                 made_a = da.values(), made_b = db.values(), terms = dg.values(),
                 bias_terms = dbeta.values();
    const auto near = [&](double made, double expected, DType type) {
      // A rounding of a + bias moves the result by that part of it at most 41 times.
      EXPECT_NEAR(made, expected,
                  storing(type, expected) + 128 * roundoff(wide) * std::abs(expected));
    };
    for (std::size_t i = 0; i < in_a.size(); ++i) {
      const std::size_t h = i % G;
      const double x = in_a[i] + shifts[h], rate = -std::exp(rates[h]);
      const double sigma = 1 / (1 + std::exp(-x)), share = 1 / (1 + std::exp(-in_b[i]));
      const double soft = std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x)));
      near(made_g[i], rate * soft, wide);
      near(made_beta[i], share, wide);
      near(made_a[i], from_g[i] * rate * sigma, dtype);
      near(made_b[i], from_beta[i] * share * (1 - share), dtype);
      near(terms[i], from_g[i] * rate * soft, wide);
      near(bias_terms[i], from_g[i] * rate * sigma, wide);
    }
  }
}

TEST(DeltaChecks, NameWhatIsWrong) {
  Case of(DType::f32, sizes(1, 4, 2, 4, 3, 5), {});
  Stream stream(test_device());
  Arena scratch(test_device(), arena_bytes, MemoryClass::workspace, "scratch");
  DeltaShape wrong = of.shape;
  wrong.key_heads = 3;
  EXPECT_THROW(kernels::delta_rule(stream, scratch, wrong, of.in(of.qkv, of.g, of.beta),
                                   of.o, of.states),
               Error);
  EXPECT_THROW(kernels::delta_rule(stream, scratch, of.shape,
                                   of.in(of.qkv, of.g, of.beta), of.o, {}),
               Error);
}

}  // namespace
}  // namespace trireme::test
