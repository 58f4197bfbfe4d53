// How the weights of attention lie on a tensor rank: whose heads they are, as Params.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/param.hpp"
#include "base/split.hpp"
#include "nn/attention_config.hpp"
#include "parallel/tensor_region.hpp"

namespace trireme::nn {

// Query heads are split over the ranks; a rank has every key/value head that they use.
class AttentionHeads {
 public:
  AttentionHeads(const AttentionConfig& config, const parallel::TensorRegion& region);

  Range queries, keys;  // heads of this rank
  bool shared = false;  // some key/value head, on any rank, lies on several
  // A key/value head belongs to the rank that has the first of its query heads.
  bool owns_key(std::int64_t g) const;
  Range owned_keys() const;  // of `keys`

  // Rows [q; k; v], and the gates behind them, of this rank: the fused weight, or its
  // bias.
  Param fused(const char* suffix, bool matrix) const;
  // The gain of a norm over all query heads, or over all key heads.
  Param query_gain() const;
  Param key_gain() const;
  // A number for each query head.
  Param sinks() const;

 private:
  void add_rows(Param& param, int part, Range heads, bool owned, bool gate = false) const;
  Place place_of_keys() const { return shared ? Place::replicate : Place::varying; }

  AttentionConfig config_;
};

}  // namespace trireme::nn
