// Cross-entropy, whole and split over ranks, against the reference and closed forms.
// SPDX-License-Identifier: Apache-2.0
// Finite differences and logits at the edge of the number range are tested, too.
#include "kernels/cross_entropy.hpp"

#include <limits>

#include "base/split.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/reference/cross_entropy.hpp"
#include "unit/kernels/elementwise_tensors.hpp"

namespace trireme::test {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

Indices some_targets(std::int64_t C, std::int64_t V) {
  std::vector<std::int32_t> targets;
  for (std::int64_t c = 0; c < C; ++c)
    targets.push_back(c % 5 == 3 ? kernels::ignore_index
                                 : static_cast<std::int32_t>(c * 131 % V));
  return Indices(targets);
}

struct Result {
  Vector loss, dlogits;
};

// Loss and gradient with the vocabulary cut into `ranks` parts.
Result run(const Tensor& logits_CV, const Indices& targets, double z_loss,
           std::int64_t ranks, const kernels::LossScale& scale, DType gradient_type) {
  Stream stream(test_device());
  const TensorView& logits = logits_CV;
  const std::int64_t C = logits.dim(0), V = logits.dim(1);
  const DType sums = accumulator_of(logits.dtype());
  const Tensor parts(sums, {ranks, C, 3}), loss(sums, {C});
  const Tensor dlogits(gradient_type, {C, V}, std::int64_t{3});
  const auto stats_of = [&](std::int64_t r) {
    return parts.view().rows(r, 1).reshape({C, 3});
  };
  for (std::int64_t r = 0; r < ranks; ++r) {
    const Range range = split_range(V, ranks, r);
    kernels::cross_entropy_statistics(stream, logits.columns(range.begin, range.count()),
                                      targets, range.begin, stats_of(r));
  }
  const TensorView stats = stats_of(0);
  kernels::cross_entropy_combine(stream, parts, stats);
  kernels::cross_entropy_loss(stream, stats, targets, z_loss, loss);
  for (std::int64_t r = 0; r < ranks; ++r) {
    const Range range = split_range(V, ranks, r);
    kernels::cross_entropy_gradient(stream, logits.columns(range.begin, range.count()),
                                    stats, targets, range.begin, scale, z_loss,
                                    dlogits.view().columns(range.begin, range.count()));
  }
  EXPECT_TRUE(dlogits.padding_is_intact());
  return {loss.values(), dlogits.values()};
}

// A scale in memory is read when the kernel runs, and gives the bits of the number.
TEST(CrossEntropyScale, MayLieInMemory) {
  const std::int64_t C = 7, V = 41;
  const Indices targets = some_targets(C, V);
  const Tensor logits = Tensor::normal(DType::f32, {C, V}, 1, 5), scale(DType::f64, {1});
  Stream stream(test_device());
  for (const double value : {0.25, 3e-5}) {
    kernels::fill(stream, scale, value);
    const kernels::LossScale in_memory{scale.view()};
    EXPECT_EQ(run(logits, targets, 0.01, 1, in_memory, DType::bf16).dlogits,
              run(logits, targets, 0.01, 1, value, DType::bf16).dlogits);
  }
}

// Factors of rows multiply the scale, a number or one in memory.
TEST(CrossEntropyScale, MayHaveAFactorForEachRow) {
  const std::int64_t C = 7, V = 41;
  const Indices targets = some_targets(C, V);
  const Tensor logits = Tensor::normal(DType::f32, {C, V}, 1, 5), scale(DType::f64, {1});
  const Tensor factors(DType::f64, {C});
  Stream stream(test_device());
  kernels::fill(stream, scale, 0.25);
  for (std::int64_t c = 0; c < C; ++c)
    kernels::fill(stream, factors.view().rows(c, 1), 0.5 - 0.25 * static_cast<double>(c));
  const kernels::LossScale in_memory{scale.view()};
  const auto got = run(logits, targets, 0, 1, in_memory.times(factors), DType::f32);
  EXPECT_EQ(
      run(logits, targets, 0, 1, kernels::LossScale(0.25).times(factors), DType::f32)
          .dlogits,
      got.dlogits);
  for (std::int64_t c = 0; c < C; ++c) {
    const auto alone =
        run(logits, targets, 0, 1, 0.25 * (0.5 - 0.25 * double(c)), DType::f32);
    for (std::int64_t v = 0; v < V; ++v) {
      const auto i = static_cast<std::size_t>(c * V + v);
      EXPECT_EQ(got.dlogits[i], alone.dlogits[i]) << c;
    }
  }
}

class CrossEntropyTest : public testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(Types, CrossEntropyTest, testing::Values(DType::f64, DType::f32),
                         type_name);

TEST_P(CrossEntropyTest, MatchesReferenceWholeAndSplit) {
  const double u = roundoff(GetParam());
  for (const std::int64_t V : {1, 3, 17, 64, 127, 257, 1025, 3001})
    for (const std::int64_t ranks : {1, 2, 3, 4})
      for (const double z_loss : {0.0, 0.01}) {
        const std::int64_t C = 7;
        const auto targets = some_targets(C, V);
        const Tensor logits = Tensor::normal(GetParam(), {C, V}, 1, 5);
        const auto expected = kernels::reference::cross_entropy(
            logits.values(), static_cast<std::size_t>(V), targets.values(), z_loss);
        const auto got = run(logits, targets, z_loss, ranks, 0.25, GetParam());
        const std::string what = format("V = {}, ranks = {}", V, ranks);
        // exp, a sum of V terms in lanes, log: relative to z and to logits below 16.
        const double error = u * (8 + std::sqrt(double(V))) * 4;
        expect_close(GetParam(), got.loss, expected.loss_C, error * 4, what);
        Vector scaled = expected.dlogits_CV;
        for (double& v : scaled) v *= 0.25;
        expect_close(GetParam(), got.dlogits, scaled, error, what);
        for (std::size_t c = 3; c < 7; c += 5) {
          EXPECT_EQ(got.loss[c], 0.0);
          EXPECT_EQ(got.dlogits[c * static_cast<std::size_t>(V)], 0.0);
        }
      }
}

// Widths around those of a pack, a warp and a block, and rows that begin anywhere; a
// vocabulary of which a row is more than one block writes; more rows than fit at once.
TEST_P(CrossEntropyTest, MatchesReferenceAtEverySizeAndAlignment) {
  struct Case {
    std::int64_t C, V, padding;
  };
  for (const auto [C, V, padding] :
       {Case{3, 8, 4}, Case{3, 31, 1}, Case{3, 33, 2}, Case{2, 1024, 4}, Case{2, 4097, 3},
        Case{2, 70001, 1}, Case{400, 12, 0}}) {
    const auto targets = some_targets(C, V);
    const Tensor logits = Tensor::normal(GetParam(), {C, V}, 3, padding);
    const auto expected = kernels::reference::cross_entropy(
        logits.values(), static_cast<std::size_t>(V), targets.values(), 0.01);
    const std::string what = format("C = {}, V = {}, padding = {}", C, V, padding);
    const double error = roundoff(GetParam()) * (8 + std::sqrt(double(V))) * 4;
    for (const DType type : {GetParam(), DType::bf16}) {
      const auto got = run(logits, targets, 0.01, 1, 1.0, type);
      expect_close(GetParam(), got.loss, expected.loss_C, error * 4, what);
      expect_close(type, got.dlogits, expected.dlogits_CV, error, what);
    }
  }
}

// Logits of 16 bits are numbers like others: sums of them are f32's, so that only the
// gradient has their roundoff.
TEST(CrossEntropyNarrow, MatchesReferenceAtEverySizeAndAlignment) {
  for (const DType type : {DType::bf16, DType::f16})
    for (const std::int64_t V : {1, 7, 16, 31, 264, 1025, 33001})
      for (const std::int64_t padding : {0, 1, 7, 8})
        for (const std::int64_t ranks : {1, 3}) {
          const std::int64_t C = 5;
          const auto targets = some_targets(C, V);
          const Tensor logits = Tensor::normal(type, {C, V}, 1, padding);
          const auto expected = kernels::reference::cross_entropy(
              logits.values(), static_cast<std::size_t>(V), targets.values(), 0.01);
          const std::string what = format("{}, V = {}, padding = {}, ranks = {}",
                                          name_of(type), V, padding, ranks);
          const double error = roundoff(DType::f32) * (8 + std::sqrt(double(V))) * 4;
          const auto got = run(logits, targets, 0.01, ranks, 1.0, type);
          expect_close(DType::f32, got.loss, expected.loss_C, error * 4, what);
          expect_close(type, got.dlogits, expected.dlogits_CV, error, what);
        }
}

// A gradient that is written over its logits has the bits of one beside them; -infinity
// has no weight, and rows without a target become zeros.
TEST(CrossEntropyNarrow, GradientTakesThePlaceOfTheLogits) {
  Stream stream(test_device());
  for (const DType type : {DType::bf16, DType::f16})
    for (const std::int64_t V : {8, 257, 40003}) {
      const std::int64_t C = 7;
      const auto targets = some_targets(C, V);
      const Tensor stats(DType::f32, {C, 3});
      Tensor logits = Tensor::normal(type, {C, V}, 1, 8);
      Vector values = logits.values();
      values[1] = -infinity;
      logits.set(values);
      const auto beside = run(logits, targets, 0.0, 1, 0.25, type);
      kernels::cross_entropy_statistics(stream, logits, targets, 0, stats);
      kernels::cross_entropy_gradient(stream, logits, stats, targets, 0, 0.25, 0.0,
                                      logits);
      EXPECT_EQ(logits.values(), beside.dlogits);
      EXPECT_EQ(logits.values()[1], 0.0);
      EXPECT_TRUE(logits.padding_is_intact());
    }
}

TEST_P(CrossEntropyTest, TargetsAtBothEndsOfEveryPart) {
  const std::int64_t V = 70001;
  std::vector<std::int32_t> targets;
  for (const std::int32_t at : {0, 32767, 32768, 65535, 65536, 70000})
    targets.push_back(at);
  const auto C = static_cast<std::int64_t>(targets.size());
  // With equal logits a gradient is 1 / V, less 1 at the target.
  const auto got =
      run(Tensor(GetParam(), {C, V}), Indices(targets), 0.0, 1, 1.0, GetParam());
  for (std::int64_t c = 0; c < C; ++c)
    for (std::int64_t v = 0; v < V; ++v)
      ASSERT_NEAR(got.dlogits[static_cast<std::size_t>(c * V + v)],
                  1.0 / double(V) - (v == targets[static_cast<std::size_t>(c)] ? 1 : 0),
                  2 * roundoff(GetParam()))
          << c << ", " << v;
}

TEST_P(CrossEntropyTest, GradientInEveryTypeAndInPlace) {
  const std::int64_t C = 7, V = 257;
  const auto targets = some_targets(C, V);
  const Tensor logits = Tensor::normal(GetParam(), {C, V}, 1);
  const auto exact = run(logits, targets, 0.0, 1, 0.25, GetParam());
  for (const DType type : {DType::f64, DType::f32, DType::bf16, DType::f16}) {
    const auto got = run(logits, targets, 0.0, 1, 0.25, type);
    expect_close(type, got.dlogits, exact.dlogits, 0.0, std::string(name_of(type)));
  }
  Stream stream(test_device());
  const Tensor stats(GetParam(), {C, 3});
  kernels::cross_entropy_statistics(stream, logits, targets, 0, stats);
  kernels::cross_entropy_gradient(stream, logits, stats, targets, 0, 0.25, 0.0, logits);
  EXPECT_EQ(logits.values(), exact.dlogits);
}

TEST_P(CrossEntropyTest, ZeroLogitsGiveTheLogarithmOfTheVocabulary) {
  for (const std::int64_t V : {1, 3, 257, 50257}) {
    const Tensor logits(GetParam(), {2, V});
    const auto got = run(logits, Indices({0, static_cast<std::int32_t>(V - 1)}), 0.0, 1,
                         1.0, GetParam());
    for (const double loss : got.loss)
      EXPECT_NEAR(loss, std::log(double(V)), 2 * roundoff(GetParam()) * 11);
  }
}

TEST_P(CrossEntropyTest, GradientOfARowSumsToZero) {
  const Tensor logits = Tensor::normal(GetParam(), {2, 1025}, 1);
  const auto got = run(logits, Indices({0, 1024}), 0.0, 3, 1.0, GetParam());
  double sum = 0;
  for (const double d : got.dlogits) sum += d;
  EXPECT_NEAR(sum, 0.0, roundoff(GetParam()) * 8 * std::sqrt(1025.0));
}

TEST(CrossEntropy, GradientIsTheDerivative) {
  const std::int64_t C = 7, V = 33;
  const auto targets = some_targets(C, V);
  const Tensor logits = Tensor::normal(DType::f64, {C, V}, 1);
  for (const double z_loss : {0.0, 0.1}) {
    const auto loss = [&](const Vector& values) {
      return run(Tensor(DType::f64, {C, V}, values), targets, z_loss, 2, 1.0, DType::f64)
          .loss;
    };
    const auto got = run(logits, targets, z_loss, 2, 1.0, DType::f64);
    expect_derivative(loss, logits.values(), Vector(static_cast<std::size_t>(C), 1.0),
                      got.dlogits, format("z_loss = {}", z_loss));
  }
}

TEST_P(CrossEntropyTest, HugeLogitsNeitherOverflowNorVanish) {
  // The second row is the first, shifted; rising values make every block rescale.
  const std::int64_t V = 3000;
  Vector values;
  for (const double shift : {0.0, 20000.0, -20000.0})
    for (std::int64_t v = 0; v < V; ++v)
      values.push_back(shift + 0.125 * double(v % 2999));
  const Tensor logits(GetParam(), {3, V}, values);
  const Indices targets({2998, 2998, 2998});
  const auto got = run(logits, targets, 0.0, 1, 1.0, GetParam());
  const auto expected =
      kernels::reference::cross_entropy(values, 3000, targets.values(), 0.0);
  // The loss is the small difference of numbers near 20375.
  expect_close(GetParam(), got.loss, expected.loss_C, 4 * 20375 * roundoff(GetParam()),
               "loss");
  expect_close(GetParam(), got.dlogits, expected.dlogits_CV, 256 * roundoff(GetParam()),
               "dlogits");
}

TEST_P(CrossEntropyTest, NoColumnsAndMaskedColumns) {
  Stream stream(test_device());
  const Tensor none(GetParam(), {2, 0}), stats(GetParam(), {2, 3});
  kernels::cross_entropy_statistics(stream, none, Indices({0, -100}), 5, stats);
  EXPECT_EQ(stats.values(), (Vector{-infinity, 0, 0, -infinity, 0, 0}));
  // Columns of -infinity (a padded vocabulary) have no weight, in whichever block.
  Vector values(5000, -infinity);
  values[4] = 1.0, values[4000] = 1.0;
  const auto got =
      run(Tensor(GetParam(), {1, 5000}, values), Indices({4}), 0.0, 3, 1.0, GetParam());
  EXPECT_NEAR(got.loss[0], std::log(2.0), 4 * roundoff(GetParam()));
  EXPECT_NEAR(got.dlogits[4000], 0.5, 4 * roundoff(GetParam()));
  EXPECT_EQ(got.dlogits[5], 0.0);
}

TEST_P(CrossEntropyTest, NotANumberReachesTheLoss) {
  for (const std::size_t at : {0, 7, 1500, 2999}) {
    Vector values(3000, 0.5);
    values[at] = std::nan("");
    const auto got =
        run(Tensor(GetParam(), {1, 3000}, values), Indices({3}), 0.0, 2, 1.0, GetParam());
    EXPECT_TRUE(std::isnan(got.loss[0])) << at;
  }
}

TEST(CrossEntropy, TargetsOfOtherRanksHaveNoLogitHere) {
  Stream stream(test_device());
  const Tensor logits = Tensor::normal(DType::f32, {3, 10}, 1), stats(DType::f32, {3, 3});
  kernels::cross_entropy_statistics(stream, logits, Indices({19, 20, 29}), 20, stats);
  EXPECT_EQ(stats.values()[2], 0.0);
  EXPECT_EQ(stats.values()[5], logits.values()[10]);
  EXPECT_EQ(stats.values()[8], logits.values()[29]);
}

TEST(CrossEntropy, RefusesWrongTypes) {
  Stream stream(test_device());
  const Tensor logits(DType::bf16, {2, 3}), stats(DType::bf16, {2, 3});
  EXPECT_THROW(
      kernels::cross_entropy_statistics(stream, logits, Indices({0, 1}), 0, stats),
      Error);
}

}  // namespace
}  // namespace trireme::test
