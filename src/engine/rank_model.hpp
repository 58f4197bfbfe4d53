// RankModel: the stages of the model that one rank holds, with what they compute with.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "comm/mesh.hpp"
#include "config/run_config.hpp"
#include "model/stage.hpp"
#include "parallel/amax_region.hpp"
#include "parallel/attention_core.hpp"
#include "schedule/schedule.hpp"

namespace trireme::engine {

// How the head makes its logits, on a GPU or a CPU.
nn::HeadChunks head_chunks(const config::RunConfig& config, bool for_gpu);

class RankModel {
 public:
  // One stage of this rank: a chunk of the model, in the words of the schedules.
  struct Chunk {
    std::unique_ptr<model::Stage> stage;
    int number = 0;                    // among all stages
    bool first = false, last = false;  // of all stages
    bool before_here = false;          // the stage before it is on this rank too
    bool after_here = false;           // so is the stage after it
  };

  // Builds the modules; the memory of their Params is bound later. The configuration and
  // the mesh outlive this.
  RankModel(const config::RunConfig& config, comm::Mesh& mesh, Device device);
  RankModel(const RankModel&) = delete;
  RankModel& operator=(const RankModel&) = delete;

  const schedule::PipelineShape& shape() const { return shape_; }
  std::vector<Chunk>& chunks() { return chunks_; }
  const std::vector<Chunk>& chunks() const { return chunks_; }
  // The number on this rank of the chunk that holds stage `number`.
  std::size_t chunk_of_stage(int number) const;

  parallel::AttentionCore& attention() { return *attention_; }
  const parallel::AmaxRegion& amax_region() const { return amax_region_; }
  // Positions, in the whole sequence, of the tokens that this rank holds of each.
  const std::vector<std::int64_t>& sequence_positions() const {
    return sequence_positions_;
  }
  // The same of each token of a microbatch, i32 [T], on the device.
  const TensorView& positions_T() const { return positions_.view(); }
  // What the masks of dropout in a microbatch of a step of training belong to.
  nn::DropoutRows dropout_rows(std::int64_t step, std::int64_t microbatch) const;
  Shape activation_shape() const;  // of what goes from stage to stage

  // Of all chunks, in the order of forward.
  std::vector<ParamModule> modules();
  // Tensors of the model without gradients.
  std::vector<StateTensor*> states();
  std::vector<nn::Fp8State*> fp8_states();
  // Whom the stages tell of their weights, from now on.
  void attach(WeightAccess& weights);
  WeightAccess& weights() { return *weights_; }

  // Expert loads and magnitudes of FP8 start from zero.
  void begin_step(Stream& stream);
  // The weights were updated: biases of routers, scales and codes of FP8 weights follow.
  void weights_updated();
  // What is made of them is made anew, without an update.
  void weights_changed();
  // Codes of FP8 weights that were kept are made anew, as after weights were loaded.
  void forget_codes();

  std::size_t table_bytes() const;

 private:
  void build_attention();
  void fill_positions(Device device);
  void build_chunks(Device device);
  model::StageConfig stage_config(const Chunk& chunk, const Range& blocks,
                                  Device device) const;

  const config::RunConfig& config_;
  comm::Mesh& mesh_;
  parallel::TensorRegion region_;
  parallel::AmaxRegion amax_region_;
  schedule::PipelineShape shape_;
  std::vector<Chunk> chunks_;
  WeightAccess* weights_ = nullptr;
  std::unique_ptr<parallel::AttentionCore> attention_;
  std::vector<std::int64_t> sequence_positions_;
  Buffer positions_;
};

}  // namespace trireme::engine
