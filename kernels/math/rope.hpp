// The formulas of rotary position embedding.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/host_device.hpp"

// Source: Su et al., "RoFormer", 2021, section 3.2.
namespace trireme::kernels::math {

// How the angles of a model are changed, so that it reads longer texts than it was
// first trained on.
enum class RopeScalingKind : std::uint8_t {
  none,
  linear,
  dynamic,
  llama3,
  yarn,
  longrope
};

struct RopeScaling {
  RopeScalingKind kind = RopeScalingKind::none;
  double factor = 1;            // how many times longer
  double low = 1, high = 4;     // llama3: turns within `original` positions
  double original = 0;          // all but linear: positions before the change
  double fast = 32, slow = 1;   // yarn: turns within `original` positions
  bool whole_pairs = true;      // yarn: the range begins and ends at whole pairs
  double attention_factor = 1;  // of cosines and sines
  // longrope: what the frequency of each pair is divided by, in texts of at most
  // `original` positions, and in longer ones.
  std::vector<double> short_divisors{}, long_divisors{};

  bool operator==(const RopeScaling&) const = default;
};

// The pair (a real number) that turns `turns` times within the first positions. Source:
// Peng et al., "YaRN", 2023, section 3.2.
inline double yarn_pair(double turns, std::int64_t half, double theta, double original) {
  const double full_turn = 2 * 3.14159265358979323846;
  return static_cast<double>(half) * std::log(original / (turns * full_turn)) /
         std::log(theta);
}

// The share of the pair's frequency that is divided by the factor.
inline double yarn_share(std::int64_t pair, std::int64_t half, double theta,
                         const RopeScaling& s) {
  double begin = yarn_pair(s.fast, half, theta, s.original);
  double end = yarn_pair(s.slow, half, theta, s.original);
  if (s.whole_pairs) {
    begin = std::floor(begin);
    end = std::ceil(end);
  }
  const auto last = static_cast<double>(2 * half - 1);
  begin = begin < 0 ? 0 : begin;
  end = end > last ? last : end;
  if (begin == end) end += 0.001;
  const double share = (static_cast<double>(pair) - begin) / (end - begin);
  return share < 0 ? 0 : share > 1 ? 1 : share;
}

// The same for Llama 3.1: pairs of long waves are divided, of short ones are not.
inline double llama3_share(double frequency, const RopeScaling& s) {
  const double turns = s.original * frequency / (2 * 3.14159265358979323846);
  if (turns < s.low) return 1;
  if (turns > s.high) return 0;
  return 1 - (turns - s.low) / (s.high - s.low);
}

// The base of texts of `length` positions, of which more than `original` make it larger,
// so that the slowest pair turns as far as it did within these. Source: Peng et al.,
// "YaRN", 2023, section 3.1 (NTK-aware) and 3.3 (dynamic scaling).
inline double dynamic_theta(std::int64_t half, double theta, const RopeScaling& s,
                            std::int64_t length) {
  const double beyond = static_cast<double>(length) / s.original - 1;
  if (beyond <= 0) return theta;
  const auto pairs = static_cast<double>(half);
  return theta * std::pow(1 + s.factor * beyond, pairs / (pairs - 1));
}

// theta^(-pair / half), scaled: the angle by which pair `pair` of `half` turns at each
// position of a text of `length` positions, which only dynamic and longrope ask for.
// Source of the last: Ding et al., "LongRoPE", 2024, section 3.
inline double rope_frequency(std::int64_t pair, std::int64_t half, double theta,
                             const RopeScaling& s = {}, std::int64_t length = 0) {
  if (s.kind == RopeScalingKind::dynamic) theta = dynamic_theta(half, theta, s, length);
  const double plain =
      std::pow(theta, -static_cast<double>(pair) / static_cast<double>(half));
  double share = 0;
  switch (s.kind) {
    case RopeScalingKind::none:
    case RopeScalingKind::dynamic: return plain;
    case RopeScalingKind::linear: share = 1; break;
    case RopeScalingKind::llama3: share = llama3_share(plain, s); break;
    case RopeScalingKind::yarn: share = yarn_share(pair, half, theta, s); break;
    case RopeScalingKind::longrope: {
      const bool beyond = static_cast<double>(length) > s.original;
      const auto& divisors = beyond ? s.long_divisors : s.short_divisors;
      return plain / divisors.at(static_cast<std::size_t>(pair));
    }
  }
  return plain / s.factor * share + plain * (1 - share);
}

template <class A>
struct Pair {
  A first, second;
};

// (a, b) turned by the angle of this cosine and sine: the same on hosts and GPUs.
template <class A>
TRIREME_HOST_DEVICE Pair<A> rotated(A a, A b, A cosine, A sine) {
  return {a * cosine - b * sine, b * cosine + a * sine};
}

}  // namespace trireme::kernels::math
