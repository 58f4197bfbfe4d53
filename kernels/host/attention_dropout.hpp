// Dropout of blocks of probabilities, on the host.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "kernels/host/attention_blocks.hpp"
#include "kernels/math/attention_dropout.hpp"

namespace trireme::kernels::blocks {

// What AttentionShape::dropout drops of the query blocks of a group. Rows of queries and
// keys count from the first of the part.
template <class A>
class DroppedBlocks {
 public:
  static std::int64_t memory(const AttentionShape& shape) {
    return shape.dropout.rate > 0 ? block * block : 0;
  }

  DroppedBlocks(const AttentionShape& shape, const PartBlocks& part, Pieces<A>& pieces)
      : query_(part.query_rows.begin), key_(part.key_rows.begin) {
    if (shape.dropout.rate == 0) return;
    mask_.emplace(shape.dropout);
    scale_ = static_cast<A>(1 / (1 - shape.dropout.rate));
    factors_t_ = pieces.take(memory(shape));
  }

  bool any() const { return mask_.has_value(); }

  // Block i of the group is queries [at, at + rows) of head h of sequence b.
  void load(std::int64_t i, std::int64_t b, std::int64_t h, std::int64_t at,
            std::int64_t rows) {
    if (!any()) return;
    for (std::int64_t r = 0; r < block; ++r)
      draws_[static_cast<std::size_t>(i * block + r)] =
          mask_->draws_of(b, h, query_ + at + std::min(r, rows - 1));
  }

  // Of a stripe of keys, which count from key `begin` on, on queries s.column to `end` of
  // block i: what their probabilities are multiplied by.
  void draw(const Stripe& s, std::int64_t end, std::int64_t i, std::int64_t begin) {
    const std::uint64_t* draws = draws_.data() + i * block;
    for (std::int64_t j = s.key; j < s.key + s.keys; ++j)
      for (std::int64_t c = s.column; c < end; ++c)
        factors_t_[j * block + c] =
            mask_->keeps(draws[c], key_ + begin + j) ? scale_ : A(0);
  }
  // Multiplies by what was drawn last for this stripe.
  void apply(const Stripe& s, std::int64_t end, A* values_t) const {
    for (std::int64_t j = s.key; j < s.key + s.keys; ++j)
      for (std::int64_t c = s.column; c < end; ++c)
        values_t[j * block + c] *= factors_t_[j * block + c];
  }

 private:
  std::int64_t query_, key_;
  std::optional<math::AttentionMask> mask_;
  A scale_ = 1;
  A* factors_t_ = nullptr;  // [block of keys][block of queries]
  std::array<std::uint64_t, group * block> draws_;
};

}  // namespace trireme::kernels::blocks
