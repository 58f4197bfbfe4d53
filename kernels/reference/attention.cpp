// Attention in plain double loops.
// SPDX-License-Identifier: Apache-2.0
// Legend: B sequences, S positions, T = B * S, H query heads, G key/value heads, K width.
#include "kernels/reference/attention.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/math/attention_dropout.hpp"

namespace trireme::kernels::reference {
namespace {

std::size_t size(std::int64_t n) { return static_cast<std::size_t>(n); }

// Where the rows of one sequence and head begin, and how far apart they lie.
struct Head {
  std::size_t first, step, width;
  std::size_t at(std::size_t t) const { return first + t * step; }
};

// Rows from `row` on of head h of sequence b, of a tensor [B, rows, heads, width].
Head head_of(std::int64_t rows, std::int64_t heads, std::int64_t width, std::int64_t b,
             std::int64_t h, std::int64_t row = 0) {
  return {size(((b * rows + row) * heads + h) * width), size(heads * width), size(width)};
}

double dot(std::span<const double> a, std::size_t a_at, std::span<const double> b,
           std::size_t b_at, std::size_t width) {
  double sum = 0;
  for (std::size_t c = 0; c < width; ++c) sum += a[a_at + c] * b[b_at + c];
  return sum;
}

double score(const AttentionShape& shape, std::span<const double> q, std::size_t q_at,
             std::span<const double> k, std::size_t k_at, std::size_t width) {
  const double s = shape.scale * dot(q, q_at, k, k_at, width);
  return shape.cap > 0 ? shape.cap * std::tanh(s / shape.cap) : s;
}

// softmax over the keys of the scores scale q k_j^T, capped; returns the log of the sum.
double softmax(const AttentionShape& shape, std::span<const double> q, std::size_t q_at,
               std::span<const double> k, const Head& keys, std::vector<double>& to) {
  if (to.empty()) return -std::numeric_limits<double>::infinity();
  for (std::size_t j = 0; j < to.size(); ++j)
    to[j] = score(shape, q, q_at, k, keys.at(j), keys.width);
  const double maximum = *std::max_element(to.begin(), to.end());
  double sum = 0;
  for (double& x : to) sum += x = std::exp(x - maximum);
  for (double& x : to) x /= sum;
  return maximum + std::log(sum);
}

// A query of one head: its row, the index of its lse, the keys that it sees and their
// number, and what dropout makes of the probability of each.
struct Query {
  std::size_t row, sum;
  Head keys;
  std::size_t seen;
  std::vector<double> factors;
};

std::vector<double> factors_of(const AttentionDropout& dropout, std::int64_t b,
                               std::int64_t h, std::int64_t row, const Range& keys) {
  std::vector<double> factors(size(keys.count()), 1.0);
  if (dropout.rate == 0) return factors;
  const math::AttentionMask mask(dropout);
  const std::uint64_t draws = mask.draws_of(b, h, row);
  for (std::size_t j = 0; j < factors.size(); ++j)
    factors[j] = mask.keeps(draws, keys.begin + static_cast<std::int64_t>(j))
                     ? 1 / (1 - dropout.rate)
                     : 0;
  return factors;
}

// f(query) for each head and query.
template <class F>
void for_queries(const AttentionShape& shape, std::span<const Range> visible_T,
                 std::span<const double> k_TGK, const F& f) {
  const std::int64_t S = shape.sequence, K = shape.head_width;
  const std::int64_t key_rows =
      static_cast<std::int64_t>(k_TGK.size()) /
      std::max<std::int64_t>(shape.batch * shape.kv_heads * K, 1);
  for (std::int64_t b = 0; b < shape.batch; ++b)
    for (std::int64_t h = 0; h < shape.heads; ++h)
      for (std::int64_t i = 0; i < S; ++i) {
        const Range seen = visible_T[size(b * S + i)];
        const std::int64_t g = shape.kv_head[size(h)];
        f(Query{head_of(S, shape.heads, K, b, h).at(size(i)),
                head_of(S, shape.heads, 1, b, h).at(size(i)),
                head_of(key_rows, shape.kv_heads, K, b, g, seen.begin),
                size(seen.count()), factors_of(shape.dropout, b, h, i, seen)});
      }
}

}  // namespace

std::vector<Range> causal_keys(const AttentionShape& shape, std::int64_t past) {
  std::vector<Range> visible_T;
  for (std::int64_t b = 0; b < shape.batch; ++b)
    for (std::int64_t i = 0; i < shape.sequence; ++i)
      visible_T.push_back({0, past + i + 1});
  return visible_T;
}

AttentionResult attention(const AttentionShape& shape, std::span<const Range> visible_T,
                          std::span<const double> q_THK, std::span<const double> k_TGK,
                          std::span<const double> v_TGK) {
  AttentionResult result{
      std::vector<double>(q_THK.size()),
      std::vector<double>(size(shape.batch * shape.sequence * shape.heads))};
  for_queries(shape, visible_T, k_TGK, [&](const Query& query) {
    const Head& keys = query.keys;
    std::vector<double> p(query.seen);
    result.lse_TH[query.sum] = softmax(shape, q_THK, query.row, k_TGK, keys, p);
    for (std::size_t j = 0; j < query.seen; ++j)
      for (std::size_t c = 0; c < keys.width; ++c)
        result.o_THK[query.row + c] += query.factors[j] * p[j] * v_TGK[keys.at(j) + c];
  });
  return result;
}

AttentionGradients attention_backward(const AttentionShape& shape,
                                      std::span<const Range> visible_T,
                                      std::span<const double> do_THK,
                                      std::span<const double> q_THK,
                                      std::span<const double> k_TGK,
                                      std::span<const double> v_TGK) {
  AttentionGradients d{std::vector<double>(q_THK.size()),
                       std::vector<double>(k_TGK.size()),
                       std::vector<double>(v_TGK.size())};
  for_queries(shape, visible_T, k_TGK, [&](const Query& query) {
    const Head& keys = query.keys;
    const std::size_t row = query.row;
    std::vector<double> p(query.seen), dp(query.seen);
    softmax(shape, q_THK, row, k_TGK, keys, p);
    double mean = 0;
    for (std::size_t j = 0; j < query.seen; ++j) {
      dp[j] = query.factors[j] * dot(do_THK, row, v_TGK, keys.at(j), keys.width);
      mean += p[j] * dp[j];
    }
    for (std::size_t j = 0; j < query.seen; ++j) {
      double ds = shape.scale * p[j] * (dp[j] - mean);
      if (shape.cap > 0) {
        const double s = score(shape, q_THK, row, k_TGK, keys.at(j), keys.width);
        ds *= 1 - s / shape.cap * (s / shape.cap);
      }
      for (std::size_t c = 0; c < keys.width; ++c) {
        d.dq_THK[row + c] += ds * k_TGK[keys.at(j) + c];
        d.dk_TGK[keys.at(j) + c] += ds * q_THK[row + c];
        d.dv_TGK[keys.at(j) + c] += query.factors[j] * p[j] * do_THK[row + c];
      }
    }
  });
  return d;
}

}  // namespace trireme::kernels::reference
