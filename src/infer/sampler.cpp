// Sampler: penalties, temperature and what cuts the distribution, then a draw.
// SPDX-License-Identifier: Apache-2.0
#include "infer/sampler.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "base/error.hpp"
#include "base/philox.hpp"

namespace trireme::infer {
namespace {

// Tokens that may be drawn, likeliest first, with weights that need not sum to 1.
struct Candidates {
  std::vector<std::int32_t> ids;
  std::vector<double> weights;

  double total() const { return std::accumulate(weights.begin(), weights.end(), 0.0); }
  void keep_first(std::size_t count) {
    ids.resize(count);
    weights.resize(count);
  }
};

std::vector<double> penalised(std::span<const double> logits, double penalty,
                              std::span<const std::int32_t> text) {
  std::vector<double> result(logits.begin(), logits.end());
  for (const std::int32_t id : text) {
    const auto at = static_cast<std::size_t>(id);
    result[at] = logits[at] < 0 ? logits[at] * penalty : logits[at] / penalty;
  }
  return result;
}

Candidates candidates_of(std::span<const double> logits, const SamplerConfig& config) {
  Candidates all;
  all.ids.resize(logits.size());
  std::iota(all.ids.begin(), all.ids.end(), 0);
  const auto logit = [&](std::int32_t id) {
    return logits[static_cast<std::size_t>(id)];
  };
  const auto likelier = [&](auto a, auto b) { return logit(a) > logit(b); };
  if (config.top_k > 0 && static_cast<std::size_t>(config.top_k) < all.ids.size()) {
    std::vector<double> values(logits.begin(), logits.end());
    const auto kth = values.begin() + config.top_k - 1;
    std::nth_element(values.begin(), kth, values.end(), std::greater<>());
    std::erase_if(all.ids, [&, least = *kth](auto id) { return logit(id) < least; });
  }
  std::stable_sort(all.ids.begin(), all.ids.end(), likelier);
  const double largest = logit(all.ids.front());
  for (const auto id : all.ids)
    all.weights.push_back(std::exp((logit(id) - largest) / config.temperature));
  return all;
}

void cut_top_p(Candidates& all, double top_p) {
  const double total = all.total();
  std::size_t kept = 0;
  double mass = 0;
  while (kept < all.ids.size() && mass < top_p * total) mass += all.weights[kept++];
  all.keep_first(std::max<std::size_t>(kept, 1));
}

void cut_min_p(Candidates& all, double min_p) {
  std::size_t kept = 1;
  while (kept < all.ids.size() && all.weights[kept] >= min_p * all.weights.front())
    ++kept;
  all.keep_first(kept);
}

// Tokens are sorted by how far their surprise is from the mean surprise.
void cut_typical(Candidates& all, double typical_p) {
  const double total = all.total();
  double entropy = 0;
  for (const double weight : all.weights)
    if (weight > 0) entropy -= weight / total * std::log(weight / total);
  std::vector<double> distance;
  for (const double weight : all.weights)
    distance.push_back(std::abs(-std::log(weight / total) - entropy));
  std::vector<std::size_t> order(all.ids.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](auto a, auto b) { return distance[a] < distance[b]; });
  double mass = 0;
  std::size_t last = 0;
  for (; last + 1 < order.size(); ++last) {
    mass += all.weights[order[last]] / total;
    if (mass >= typical_p) break;
  }
  const double most = distance[order[last]];
  Candidates kept;
  for (std::size_t i = 0; i < all.ids.size(); ++i)
    if (distance[i] <= most) {
      kept.ids.push_back(all.ids[i]);
      kept.weights.push_back(all.weights[i]);
    }
  all = std::move(kept);
}

// The first of the largest.
std::int32_t likeliest_of(std::span<const double> logits) {
  double most = logits.front();
#pragma omp simd reduction(max : most)
  for (std::size_t i = 0; i < logits.size(); ++i)
    most = logits[i] > most ? logits[i] : most;
  return static_cast<std::int32_t>(std::find(logits.begin(), logits.end(), most) -
                                   logits.begin());
}

void require_numbers(std::span<const double> logits) {
  double sum = 0;  // of differences from itself, which infinity and NaN do not have
#pragma omp simd reduction(+ : sum)
  for (std::size_t i = 0; i < logits.size(); ++i) sum += logits[i] - logits[i];
  require(sum == 0, Status::bad_content, "the model's logits are NaN or infinite: {}",
          why_not_finite);
}

}  // namespace

std::int32_t Sampler::choose(std::span<const double> logits, std::int64_t position,
                             std::span<const std::int32_t> text) const {
  require(!logits.empty(), "no logits to choose from");
  require_numbers(logits);
  std::vector<double> changed;
  if (config_.repetition_penalty != 1.0) {
    changed = penalised(logits, config_.repetition_penalty, text);
    logits = changed;
  }
  if (config_.temperature == 0) return likeliest_of(logits);
  Candidates all = candidates_of(logits, config_);
  cut_top_p(all, config_.top_p);
  if (config_.min_p > 0) cut_min_p(all, config_.min_p);
  if (config_.typical_p < 1) cut_typical(all, config_.typical_p);
  const Random random(config_.seed,
                      hash_name("sampler") + static_cast<std::uint64_t>(config_.sample));
  double left = random.uniform(static_cast<std::uint64_t>(position)) * all.total();
  for (std::size_t i = 0; i + 1 < all.ids.size(); ++i) {
    left -= all.weights[i];
    if (left < 0) return all.ids[i];
  }
  return all.ids.back();
}

double log_of_sum(std::span<const double> logits) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const double logit : logits) sum += std::exp(logit - largest);
  return largest + std::log(sum);
}

std::vector<std::int32_t> likeliest(std::span<const double> logits, std::int64_t count) {
  std::vector<std::int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  const auto kept = std::min<std::int64_t>(count, static_cast<std::int64_t>(ids.size()));
  std::partial_sort(ids.begin(), ids.begin() + kept, ids.end(), [&](auto a, auto b) {
    const double x = logits[static_cast<std::size_t>(a)],
                 y = logits[static_cast<std::size_t>(b)];
    return x > y || (x == y && a < b);
  });
  ids.resize(static_cast<std::size_t>(kept));
  return ids;
}

}  // namespace trireme::infer
