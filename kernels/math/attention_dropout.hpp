// Which probabilities of attention dropout keeps, the same on hosts and GPUs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include "base/error.hpp"
#include "base/host_device.hpp"
#include "base/philox.hpp"
#include "kernels/attention.hpp"
#include "kernels/math/sequence_number.hpp"

namespace trireme::kernels::math {

// Two keys share the 64 bits of a draw.
class AttentionMask {
 public:
  explicit AttentionMask(const AttentionDropout& of)
      : random_(of.seed, of.stream),
        queries_(of.query_chunks),
        keys_(of.key_chunks),
        first_sequence_(of.first_sequence, of.first_sequence_1),
        heads_(of.heads),
        first_head_(of.first_head),
        sequence_(of.sequence),
        draws_((of.sequence + 1) / 2),
        below_(static_cast<std::uint64_t>(std::llround(of.rate * 0x1p32))) {}

  // Of a query: the first of its draws, one for two positions.
  TRIREME_HOST_DEVICE std::uint64_t draws_of(std::int64_t b, std::int64_t head,
                                             std::int64_t row) const {
    const std::int64_t line =
        ((first_sequence_.value() + b) * heads_ + first_head_ + head) * sequence_ +
        queries_.position(row);
    return static_cast<std::uint64_t>(line) * static_cast<std::uint64_t>(draws_);
  }
  TRIREME_HOST_DEVICE bool keeps(std::uint64_t draws, std::int64_t key_row) const {
    const std::int64_t position = keys_.position(key_row);
    const std::uint64_t bits =
        random_.bits(draws + static_cast<std::uint64_t>(position / 2));
    return (position % 2 == 0 ? bits & 0xffffffffu : bits >> 32) >= below_;
  }

 private:
  // Rows of a sequence are positions in at most two ranges, one behind the other.
  class Rows {
   public:
    explicit Rows(const std::vector<Range>& chunks) {
      require(chunks.size() <= 2, "attention dropout: rows of {} ranges of positions",
              chunks.size());
      if (!chunks.empty()) first_ = chunks[0].begin;
      if (chunks.size() < 2) return;
      count_ = chunks[0].count();
      second_ = chunks[1].begin;
    }
    TRIREME_HOST_DEVICE std::int64_t position(std::int64_t row) const {
      return row < count_ ? first_ + row : second_ + row - count_;
    }

   private:
    std::int64_t first_ = 0, count_ = INT64_MAX, second_ = 0;
  };

  Random random_;
  Rows queries_, keys_;
  SequenceNumber first_sequence_;
  std::int64_t heads_, first_head_, sequence_, draws_;
  std::uint64_t below_;
};

}  // namespace trireme::kernels::math
