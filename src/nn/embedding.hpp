// Embedding: tokens (and learned positions) to the residual stream.
// SPDX-License-Identifier: Apache-2.0
// The table is split by vocabulary entries.
#pragma once

#include <string>
#include <vector>

#include "nn/dropout.hpp"
#include "nn/pass.hpp"
#include "parallel/tensor_region.hpp"

namespace trireme::nn {

struct EmbeddingConfig {
  std::int64_t vocabulary = 0;  // V
  std::int64_t hidden = 0;      // D
  std::int64_t positions = 0;   // learned positions; 0: none
  double deviation = 0.02;
  // Of the tokens' rows, rounded to the type of activations as transformers does.
  double scale = 1;
  std::int64_t pad_token = -1;   // whose row has no gradient of its uses here; -1: none
  std::string tokens, position;  // names of the tensors without ".weight"
  DropoutConfig dropout{};
  int table_uses = 1;               // 2: the output head of this rank uses the table too
  bool in_embedding_group = false;  // the head of another rank has a copy of the table
};

class Embedding {
 public:
  struct Saved {
    TensorView tokens_T;
  };

  Embedding(const EmbeddingConfig& config, const parallel::TensorRegion& region);

  // x_TD (written, outside the region) for all T tokens of the microbatch. tokens_T i32,
  // in [0, V); it lives as long as what is saved.
  void forward(Pass& pass, const TensorView& tokens_T, const TensorView& x_TD,
               Saved& saved) const;
  // dy_TD lives in pass.kept().
  void backward(Pass& pass, const TensorView& dy_TD, const Saved& saved);

  void collect(std::vector<Param*>& params);
  Param& table() { return table_; }

 private:
  void add_table_gradient(Stream& stream, const TensorView& dx_TD,
                          const TensorView& tokens_T);

  EmbeddingConfig config_;
  const parallel::TensorRegion& region_;
  Range rows_;  // vocabulary entries of this rank
  Param table_, positions_;
};

}  // namespace trireme::nn
