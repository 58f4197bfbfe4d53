// Head: what the loss of pairs of answers makes of the losses of tokens.
// SPDX-License-Identifier: Apache-2.0
// Legend: T tokens, G places for answers. Numbers of pairs are few: the host computes
// with them in double, in the order of tokens and pairs.
#include "base/device_memory.hpp"
#include "kernels/elementwise.hpp"
#include "nn/head.hpp"

namespace trireme::nn {
namespace {

std::vector<double> on_host(Stream& stream, const TensorView& x) {
  std::vector<double> values(static_cast<std::size_t>(x.elements()));
  if (x.dtype() == DType::f64) {
    copy_bytes(stream, x, TensorView(values.data(), DType::f64, x.shape()));
    return values;
  }
  std::vector<float> narrow(values.size());
  copy_bytes(stream, x, TensorView(narrow.data(), DType::f32, x.shape()));
  values.assign(narrow.begin(), narrow.end());
  return values;
}

}  // namespace

Head::Known Head::take_known(Pass& pass, DType dtype) const {
  const std::int64_t T = pass.tokens();
  const DType accumulator = accumulator_of(dtype);
  Known known;
  known.stats_T3 = pass.scratch.take(accumulator, {T, 3}, "head.merged");
  known.loss_T = pass.scratch.take(accumulator, {T}, "head.loss");
  if (pass.losses.preferences != nullptr)
    known.factors_T = pass.scratch.take(DType::f64, {T}, "head.factors");
  return known;
}

std::vector<double> Head::answer_sums(Pass& pass, const TensorView& loss_T) const {
  const Preferences& preferences = *pass.losses.preferences;
  const std::int64_t G = preferences.answers.references_G2.dim(0);
  std::vector<double> sums(static_cast<std::size_t>(G));
  const bool on_meta = pass.stream.device().is_meta();
  if (!on_meta) {
    const std::vector<double> losses = on_host(pass.stream, loss_T);
    const auto numbers = preferences.answers.numbers_T.span<std::int32_t>();
    for (std::size_t t = 0; t < losses.size(); ++t)
      if (numbers[t] >= 0) sums[static_cast<std::size_t>(numbers[t])] -= losses[t];
  }
  if (!preferences.sequence_sum.divided()) return sums;
  const ArenaScope scope(pass.scratch);
  const TensorView sums_G = pass.scratch.take(DType::f64, {G}, "head.answers");
  const TensorView host_G(sums.data(), DType::f64, {G});
  copy_bytes(pass.stream, host_G, sums_G);
  preferences.sequence_sum.sum(pass.stream, sums_G);
  copy_bytes(pass.stream, sums_G, host_G);
  return sums;
}

void Head::weigh_answers(Pass& pass, const Known& known) const {
  const Preferences& preferences = *pass.losses.preferences;
  const std::vector<double> sums = answer_sums(pass, known.loss_T);
  if (pass.stream.device().is_meta()) return;
  const double* const references = preferences.answers.references_G2.data<double>();
  // Every rank that shares the sequences has the whole loss of each pair.
  const double share = preferences.sequence_sum.share(1.0);
  std::vector<double> factors_G(sums.size());
  double loss = 0;
  for (std::size_t g = 0; g < sums.size(); g += 2) {
    const auto score = [&](std::size_t answer) {
      return AnswerScore{sums[answer], references[2 * answer],
                         static_cast<std::int64_t>(references[2 * answer + 1])};
    };
    const AnswerScore preferred = score(g), other = score(g + 1);
    if (preferred.tokens == 0) continue;
    const PairLoss pair = pair_loss(preferences.rule, preferred, other);
    loss += share * pair.loss;
    // The gradient is made of cross-entropies, which are negative log-probabilities.
    factors_G[g] = -pair.gradient[0];
    factors_G[g + 1] = -pair.gradient[1];
    preferences.sums->add(pair, preferred, other, share);
  }
  const auto numbers = preferences.answers.numbers_T.span<std::int32_t>();
  std::vector<double> factors(numbers.size());
  for (std::size_t t = 0; t < factors.size(); ++t)
    if (numbers[t] >= 0) factors[t] = factors_G[static_cast<std::size_t>(numbers[t])];
  copy_bytes(pass.stream, TensorView(factors.data(), DType::f64, known.factors_T.shape()),
             known.factors_T);
  const ArenaScope scope(pass.scratch);
  const TensorView loss_1 = pass.scratch.take(DType::f64, {1}, "head.pairs");
  kernels::fill(pass.stream, loss_1, loss);
  kernels::add_sum(pass.stream, loss_1, pass.losses.loss_1);
}

}  // namespace trireme::nn
