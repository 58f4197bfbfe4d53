// Rotary positions, embeddings and cross-entropy.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "base/split.hpp"
#include "kernels/cross_entropy.hpp"
#include "kernels/embedding.hpp"
#include "kernels/reference/cross_entropy.hpp"
#include "kernels/reference/embedding.hpp"
#include "kernels/reference/rope.hpp"
#include "kernels/rope.hpp"
#include "selftest/kernel_checks.hpp"

namespace trireme::selftest {
namespace {

namespace reference = kernels::reference;

// Targets of C rows; some are ignored.
std::vector<std::int32_t> targets_of(std::int64_t C, std::int64_t V) {
  std::vector<std::int32_t> targets;
  for (std::int64_t c = 0; c < C; ++c)
    targets.push_back(c % 5 == 3 ? kernels::ignore_index
                                 : static_cast<std::int32_t>(c * 131 % V));
  return targets;
}

// The rows of a vocabulary that so many ranks share.
void check_loss(Probe& probe, DType dtype, DType type, std::int64_t V,
                std::int64_t ranks) {
  constexpr std::int64_t C = 7;
  constexpr double z_loss = 0.01;
  Stream& stream = probe.stream();
  const auto targets = targets_of(C, V);
  const Integers ids = probe.integers({C}, targets);
  const Tensor logits = probe.normal(dtype, {C, V}, 1);
  const DType sums = accumulator_of(dtype);
  const Tensor parts = probe.zeros(sums, {ranks, C, 3}), loss = probe.zeros(sums, {C});
  const Tensor stats = probe.zeros(sums, {C, 3});
  const Tensor dlogits = probe.zeros(type, {C, V}, 3);
  for (std::int64_t r = 0; r < ranks; ++r) {
    const Range mine = split_range(V, ranks, r);
    kernels::cross_entropy_statistics(
        stream, logits.view().columns(mine.begin, mine.count()), ids, mine.begin,
        parts.view().rows(r, 1).reshape({C, 3}));
  }
  kernels::cross_entropy_combine(stream, parts, stats);
  kernels::cross_entropy_loss(stream, stats, ids, z_loss, loss);
  for (std::int64_t r = 0; r < ranks; ++r) {
    const Range mine = split_range(V, ranks, r);
    kernels::cross_entropy_gradient(
        stream, logits.view().columns(mine.begin, mine.count()), stats, ids, mine.begin,
        1.0, z_loss, dlogits.view().columns(mine.begin, mine.count()));
  }
  const auto expected = reference::cross_entropy(
      logits.values(), static_cast<std::size_t>(V), targets, z_loss);
  const double error = roundoff(sums) * (8 + std::sqrt(static_cast<double>(V))) * 4;
  probe.close(sums, loss.values(), expected.loss_C, error * 4);
  probe.close(type, dlogits.values(), expected.dlogits_CV, error);
}

}  // namespace

// Two products and a sum of numbers below max |x|, and the table's rounding; in f64 the
// angle itself, up to 60, is rounded.
void check_rope(Probe& probe, DType dtype) {
  constexpr double theta = 10000.0;
  const DType wide = accumulator_of(dtype);
  for (const std::int64_t K : {2, 64, 254}) {
    const std::int64_t T = 17, heads = 3;
    std::vector<std::int32_t> positions;
    for (std::int32_t t = 0; t < T; ++t) positions.push_back(t * 7 % 61);
    const Tensor x = probe.normal(dtype, {T, heads * K}, 1, 3);
    const Tensor table = probe.zeros(wide, {61, K});
    kernels::rope_table(probe.stream(), theta, table);
    const Integers at = probe.integers({T}, positions);
    for (const double sign : {1.0, -1.0}) {
      const Vector before = x.values();
      kernels::rope(probe.stream(), x, {heads}, at, table,
                    sign > 0 ? Direction::forward : Direction::backward);
      probe.close(dtype, x.values(),
                  reference::rope(before, static_cast<std::size_t>(heads),
                                  static_cast<std::size_t>(K), positions, theta, sign),
                  largest(before) * roundoff(wide) * (dtype == DType::f64 ? 246 : 6));
    }
  }
}

// Angles are made in double, and up to 16 here: an angle's rounding moves its cosine by
// 16 roundings at most, which a library's own and a power's add a few to.
void check_rope_tables(Probe& probe, DType dtype) {
  constexpr std::int64_t pairs = 131, first = 3, positions = 9, half = 3;
  const double error = 16 * 8 * roundoff(DType::f64);
  const auto compare = [&](const Tensor& table, double factor, const auto& angle) {
    const std::int64_t R = table.view().dim(1) / 2;
    Vector right;
    for (std::int64_t p = 0; p < table.view().dim(0); ++p)
      for (std::int64_t i = 0; i < 2 * R; ++i)
        right.push_back(factor *
                        (i < R ? std::cos(angle(p, i)) : std::sin(angle(p, i - R))));
    probe.close(dtype, table.values(), right, error);
  };
  Vector frequencies;
  for (std::int64_t j = 0; j < pairs; ++j)
    frequencies.push_back(1.0 / static_cast<double>(j + 1));
  const Tensor table = probe.zeros(dtype, {positions, 2 * pairs});
  kernels::rope_angles(probe.stream(), frequencies, 1.5, table, first);
  compare(table, 1.5, [&](std::int64_t p, std::int64_t pair) {
    return static_cast<double>(p + first) * frequencies[static_cast<std::size_t>(pair)];
  });
  kernels::RopeScaling scaling{kernels::RopeScalingKind::dynamic};
  scaling.factor = 3;
  scaling.original = 4;
  const Tensor ends = probe.zeros(dtype, {positions, 2 * half});
  kernels::rope_table_of_ends(probe.stream(), 100.0, ends, scaling);
  compare(ends, 1, [](std::int64_t p, std::int64_t pair) {
    const double grown =
        3 * static_cast<double>(std::max<std::int64_t>(p + 1, 4)) / 4 - 2;
    const double base = 100 * std::pow(grown, 6.0 / 4);
    return static_cast<double>(p) * std::pow(base, -static_cast<double>(pair) / half);
  });
}

// Rows of a table of which this rank has some. The gradient of a row is a sum of about
// T / R numbers below 5.
void check_embedding(Probe& probe, DType dtype) {
  const DType sums = accumulator_of(dtype);
  for (const std::int64_t D : {1, 17, 264}) {
    const std::int64_t T = 127, R = 11, first = 5;
    std::vector<std::int32_t> index;
    for (std::int64_t t = 0; t < T; ++t)
      index.push_back(static_cast<std::int32_t>(t * 7 % (R + 4) + 3));
    const Integers ids = probe.integers({T}, index);
    const Tensor table = probe.normal(dtype, {R, D}, 1, 5);
    const Tensor y = probe.normal(dtype, {T, D}, 2), dy = probe.normal(dtype, {T, D}, 3);
    const auto width = static_cast<std::size_t>(D);
    const Vector looked_up = reference::embedding(index, table.values(), width, first);
    const Vector sum = added(y.values(), looked_up);
    kernels::embedding(probe.stream(), ids, table, first, kernels::Accumulate::yes, y);
    probe.close(dtype, y.values(), sum, 8 * roundoff(sums));
    kernels::embedding(probe.stream(), ids, table, first, kernels::Accumulate::no, y);
    probe.equal(y.values(), looked_up);
    const Tensor dtable = probe.zeros(sums, {R, D}, 8);
    kernels::embedding_backward(probe.stream(), dy, ids, first, dtable);
    probe.close(sums, dtable.values(),
                reference::embedding_backward(dy.values(), index,
                                              static_cast<std::size_t>(R), width, first),
                5 * roundoff(sums) * std::pow(static_cast<double>(T) / 8 + 2, 2));
  }
}

// exp, a sum of V terms in lanes, log: relative to z and to logits below 16. The gradient
// may have fewer bits than the logits. Sums of parts add no more roundings than a sum of
// V terms may have.
void check_cross_entropy(Probe& probe, DType dtype) {
  for (const std::int64_t V : {17, 1025, 4097})
    for (const std::int64_t ranks : {1, 3})
      for (const DType type : {dtype, DType::bf16})
        check_loss(probe, dtype, type, V, ranks);
}

}  // namespace trireme::selftest
