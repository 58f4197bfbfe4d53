// SampleRoute: which ranks read samples, and how the others of a data rank get them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>

#include "base/tensor_view.hpp"
#include "comm/mesh.hpp"
#include "config/run_config.hpp"

namespace trireme::engine {

// Tensor ranks hold the same tokens, and of a pipeline only the ends need any: the first
// stage inputs, the last one targets. So tensor rank 0 of these stages reads, and hands
// on to its tensor ranks. Stages between are told how many targets there are, by which
// gradients are divided. Where documents are kept apart, or sequences are cut, every
// stage needs to know where: tensor rank 0 of each reads.
//
// Samples that are computed, and pairs of answers, are there on every rank: then all of
// them read.
class SampleRoute {
 public:
  // data: whose samples. The mesh outlives this.
  SampleRoute(comm::Mesh& mesh, const config::RunConfig& config,
              const io::SourceConfig& data);

  // Whether this rank reads.
  bool reads() const { return reads_; }
  // Brings `tokens` (i32, dense) to the tensor ranks that need them. Returns the number
  // of targets: what `count` says, which looks at the tokens, and on stages that have
  // none what it says on the first stage. Collective over tensor and pipeline ranks.
  std::int64_t distribute(const TensorView& tokens,
                          const std::function<std::int64_t()>& count) const;

 private:
  comm::Mesh& mesh_;
  bool sends_tokens_ = false;  // to tensor ranks
  bool tells_stages_ = false;  // how many targets there are
  bool has_tokens_ = true;     // once they were handed on
  bool reads_ = true;
};

// Targets that count: those that are a token.
std::int64_t targets_in(const TensorView& targets_T);

}  // namespace trireme::engine
