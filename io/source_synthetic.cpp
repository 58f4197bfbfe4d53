// The "synthetic" source: a Markov chain whose entropy is known.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <numbers>

#include "base/error.hpp"
#include "base/philox.hpp"
#include "io/source_stream.hpp"

namespace trireme::io {
namespace {

constexpr std::int64_t most_successors = 4;

std::int64_t successors(std::int64_t vocabulary) {
  return std::min(vocabulary, most_successors);
}

class SyntheticSource final : public SampleSource {
 public:
  explicit SyntheticSource(const SourceConfig& config)
      : sequence_(config.sequence), vocabulary_(config.vocabulary), seed_(config.seed) {}

  // Unbounded to anyone who trains, and small enough that no product overflows.
  std::int64_t samples() const override { return std::int64_t{1} << 40; }
  std::int64_t tokens() const override { return 0; }

  void sample(std::int64_t index, std::span<std::int32_t> tokens) const override {
    require(index >= 0 && index < samples(), "sample {} of {}", index, samples());
    require(std::ssize(tokens) == sequence_ + 1, "{} tokens for a sample of {}",
            tokens.size(), sequence_ + 1);
    const Random walk(seed_, walk_stream_ + static_cast<std::uint64_t>(index));
    std::int64_t token =
        static_cast<std::int64_t>(walk.below(0, static_cast<std::uint64_t>(vocabulary_)));
    tokens[0] = static_cast<std::int32_t>(token);
    for (std::size_t j = 1; j < tokens.size(); ++j) {
      token = successor(token, choose(walk.bits(j)));
      tokens[j] = static_cast<std::int32_t>(token);
    }
  }

  std::string describe() const override {
    return format(
        "synthetic: a Markov chain on {} tokens, samples of {}, entropy {} nats",
        vocabulary_, sequence_,
        fixed(synthetic_entropy({.kind = SourceKind::synthetic,
                                 .paths = {},
                                 .sequence = sequence_,
                                 .vocabulary = vocabulary_,
                                 .seed = seed_}),
              6));
  }

 private:
  // Choice k has probability 2^-(k+1); the last one takes what remains.
  std::int64_t choose(std::uint64_t bits) const {
    return std::min<std::int64_t>(std::countl_zero(bits), successors(vocabulary_) - 1);
  }

  // Successor k of a token. Draw k is uniform among the V - k tokens not drawn before it:
  // a rank among them, shifted past the earlier draws in ascending order.
  std::int64_t successor(std::int64_t token, std::int64_t k) const {
    const Random table(seed_, table_stream_);
    std::array<std::int64_t, most_successors> drawn{};  // sorted
    for (std::int64_t i = 0;; ++i) {
      auto next = static_cast<std::int64_t>(
          table.below(static_cast<std::uint64_t>(token * most_successors + i),
                      static_cast<std::uint64_t>(vocabulary_ - i)));
      const auto end = drawn.begin() + i;
      auto at = drawn.begin();
      for (; at != end && next >= *at; ++at) ++next;
      if (i == k) return next;
      std::copy_backward(at, end, end + 1);
      *at = next;
    }
  }

  std::uint64_t walk_stream_ = hash_name("synthetic source: walk");
  std::uint64_t table_stream_ = hash_name("synthetic source: successors");
  std::int64_t sequence_, vocabulary_;
  std::uint64_t seed_;
};

}  // namespace

std::unique_ptr<SampleSource> open_synthetic(const SourceConfig& config) {
  require(config.vocabulary >= 1 && config.sequence >= 1,
          "a synthetic source of {} tokens and sequence length {}", config.vocabulary,
          config.sequence);
  return std::make_unique<SyntheticSource>(config);
}

// -sum_k p_k ln p_k, the same after every token: with n successors p_k = 2^-(k+1) but for
// the last, which equals the one before it, so ln 2 (2 - 2^(2-n)).
double synthetic_entropy(const SourceConfig& config) {
  const auto n = static_cast<int>(successors(config.vocabulary));
  return std::numbers::ln2 * (2.0 - std::ldexp(1.0, 2 - n));
}

}  // namespace trireme::io
