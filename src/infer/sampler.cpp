// Sampler: chooses the next token by temperature, top-k and top-p.
// SPDX-License-Identifier: Apache-2.0
#include "infer/sampler.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.hpp"
#include "base/philox.hpp"

namespace trireme::infer {

std::int32_t Sampler::choose(std::span<const double> logits,
                             std::int64_t position) const {
  require(!logits.empty(), "no logits to choose from");
  if (config_.temperature == 0) {
    return static_cast<std::int32_t>(std::max_element(logits.begin(), logits.end()) -
                                     logits.begin());
  }
  std::vector<std::int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) {
    return logits[static_cast<std::size_t>(a)] > logits[static_cast<std::size_t>(b)];
  });
  if (config_.top_k > 0 && static_cast<std::size_t>(config_.top_k) < order.size()) {
    order.resize(static_cast<std::size_t>(config_.top_k));
  }
  const double largest = logits[static_cast<std::size_t>(order.front())];
  std::vector<double> weight;
  double total = 0;
  for (const auto id : order) {
    const double logit = logits[static_cast<std::size_t>(id)];
    weight.push_back(std::exp((logit - largest) / config_.temperature));
    total += weight.back();
  }
  std::size_t kept = 0;
  double mass = 0;
  while (kept < weight.size() && mass < config_.top_p * total) mass += weight[kept++];
  kept = std::max<std::size_t>(kept, 1);
  mass = std::max(mass, weight.front());
  const Random random(config_.seed, hash_name("sampler"));
  double left = random.uniform(static_cast<std::uint64_t>(position)) * mass;
  for (std::size_t i = 0; i + 1 < kept; ++i) {
    left -= weight[i];
    if (left < 0) return order[i];
  }
  return order[kept - 1];
}

}  // namespace trireme::infer
