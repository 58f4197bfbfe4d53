// Attention in plain double loops.
// Legend: B sequences, S positions, T = B * S, H query heads, G key/value heads, K width.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/reference/attention.hpp"

#include <algorithm>
#include <cmath>

namespace trireme::kernels::reference {
namespace {

// Where the rows of one sequence and head begin, and how far apart they lie.
struct Head {
  std::size_t first, step, width;
  std::size_t at(std::size_t t) const { return first + t * step; }
};

Head head_of(std::int64_t rows, std::int64_t heads, std::int64_t width, std::int64_t b,
             std::int64_t h) {
  const auto size = [](std::int64_t n) { return static_cast<std::size_t>(n); };
  return {size((b * rows * heads + h) * width), size(heads * width), size(width)};
}

double dot(std::span<const double> a, std::size_t a_at, std::span<const double> b,
           std::size_t b_at, std::size_t width) {
  double sum = 0;
  for (std::size_t c = 0; c < width; ++c) sum += a[a_at + c] * b[b_at + c];
  return sum;
}

// to[j] = softmax over j < to.size() of scale q k_j^T; returns the log of the sum.
double softmax(double scale, std::span<const double> q, std::size_t q_at,
               std::span<const double> k, const Head& keys, std::vector<double>& to) {
  for (std::size_t j = 0; j < to.size(); ++j)
    to[j] = scale * dot(q, q_at, k, keys.at(j), keys.width);
  const double maximum = *std::max_element(to.begin(), to.end());
  double sum = 0;
  for (double& x : to) sum += x = std::exp(x - maximum);
  for (double& x : to) x /= sum;
  return maximum + std::log(sum);
}

template <class F>
void for_heads(const AttentionShape& shape, const F& f) {
  for (std::int64_t b = 0; b < shape.batch; ++b)
    for (std::int64_t h = 0; h < shape.heads; ++h)
      f(b, h, std::int64_t{shape.kv_head[static_cast<std::size_t>(h)]});
}

}  // namespace

AttentionResult attention(const AttentionShape& shape, std::int64_t past,
                          std::span<const double> q_THK, std::span<const double> k_TGK,
                          std::span<const double> v_TGK) {
  const std::int64_t S = shape.sequence, K = shape.head_width;
  AttentionResult result{
      std::vector<double>(q_THK.size()),
      std::vector<double>(static_cast<std::size_t>(shape.batch * S * shape.heads))};
  for_heads(shape, [&](std::int64_t b, std::int64_t h, std::int64_t g) {
    const Head queries = head_of(S, shape.heads, K, b, h);
    const Head keys = head_of(past + S, shape.kv_heads, K, b, g);
    const Head sums = head_of(S, shape.heads, 1, b, h);
    for (std::size_t i = 0; i < static_cast<std::size_t>(S); ++i) {
      std::vector<double> p(static_cast<std::size_t>(past) + i + 1);
      const std::size_t row = queries.at(i);
      result.lse_TH[sums.at(i)] = softmax(shape.scale, q_THK, row, k_TGK, keys, p);
      for (std::size_t j = 0; j < p.size(); ++j)
        for (std::size_t c = 0; c < keys.width; ++c)
          result.o_THK[row + c] += p[j] * v_TGK[keys.at(j) + c];
    }
  });
  return result;
}

AttentionGradients attention_backward(const AttentionShape& shape,
                                      std::span<const double> do_THK,
                                      std::span<const double> q_THK,
                                      std::span<const double> k_TGK,
                                      std::span<const double> v_TGK) {
  const std::int64_t S = shape.sequence, K = shape.head_width;
  AttentionGradients d{std::vector<double>(q_THK.size()),
                       std::vector<double>(k_TGK.size()),
                       std::vector<double>(v_TGK.size())};
  for_heads(shape, [&](std::int64_t b, std::int64_t h, std::int64_t g) {
    const Head queries = head_of(S, shape.heads, K, b, h);
    const Head keys = head_of(S, shape.kv_heads, K, b, g);
    for (std::size_t i = 0; i < static_cast<std::size_t>(S); ++i) {
      std::vector<double> p(i + 1), dp(i + 1);
      const std::size_t row = queries.at(i);
      softmax(shape.scale, q_THK, row, k_TGK, keys, p);
      double mean = 0;
      for (std::size_t j = 0; j < p.size(); ++j) {
        dp[j] = dot(do_THK, row, v_TGK, keys.at(j), keys.width);
        mean += p[j] * dp[j];
      }
      for (std::size_t j = 0; j < p.size(); ++j) {
        const double ds = shape.scale * p[j] * (dp[j] - mean);
        for (std::size_t c = 0; c < keys.width; ++c) {
          d.dq_THK[row + c] += ds * k_TGK[keys.at(j) + c];
          d.dk_TGK[keys.at(j) + c] += ds * q_THK[row + c];
          d.dv_TGK[keys.at(j) + c] += p[j] * do_THK[row + c];
        }
      }
    }
  });
  return d;
}

}  // namespace trireme::kernels::reference
