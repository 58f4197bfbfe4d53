// The turns of blended sources, and the order of each.
// SPDX-License-Identifier: Apache-2.0
#include "train/sample_turns.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/philox.hpp"
#include "train/sample_order.hpp"

namespace trireme::train {

SourceInterleave::SourceInterleave(std::vector<double> weights)
    : weights_(std::move(weights)), taken_(weights_.size()) {}

SourceInterleave::Turn SourceInterleave::at(std::int64_t index) {
  require(index >= 0 && !weights_.empty(), "place {} of a blend of {}", index,
          weights_.size());
  if (index + 1 < next_) {
    std::fill(taken_.begin(), taken_.end(), 0);
    next_ = 0;
  }
  for (; next_ <= index; ++next_) {
    const double place = std::max(static_cast<double>(next_), 1.0);
    std::size_t most = 0;
    double lag = weights_[0] * place - static_cast<double>(taken_[0]);
    for (std::size_t i = 1; i < weights_.size(); ++i) {
      const double own = weights_[i] * place - static_cast<double>(taken_[i]);
      if (own > lag) most = i, lag = own;
    }
    last_ = {most, taken_[most]++};
  }
  return last_;
}

SampleOrder::SampleOrder(const io::SampleSource& source, std::uint64_t seed)
    : source_(source),
      seed_(seed),
      turns_(source.blend() != nullptr ? source.blend()->weights
                                       : std::vector<double>{}) {
  if (source.blend() == nullptr) return;
  const std::uint64_t stream = hash_name("blend");
  for (std::size_t i = 0; i < source.blend()->weights.size(); ++i)
    seeds_.push_back(Random(seed, stream).bits(i));
}

SamplePlace SampleOrder::at(std::int64_t global_index) {
  const io::Blend* blend = source_.blend();
  if (blend == nullptr)
    return {sample_at(seed_, global_index, source_.samples()),
            global_index / source_.samples(), 0};
  const auto [source, number] = turns_.at(global_index);
  const std::int64_t samples = blend->samples[source];
  return {blend->begins[source] + sample_at(seeds_[source], number, samples),
          number / samples, source};
}

}  // namespace trireme::train
