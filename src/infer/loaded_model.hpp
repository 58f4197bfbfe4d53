// LoadedModel: a model for inference, its weights read from a checkpoint or a folder.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "comm/group.hpp"
#include "io/tensor_source.hpp"
#include "model/coded_weights.hpp"
#include "model/stage.hpp"

namespace trireme::infer {

// Which of the model's stages, each of which has a range of its layers.
struct StagePart {
  int stage = 0, stages = 1;
  bool first() const { return stage == 0; }
  bool last() const { return stage + 1 == stages; }
};

// How weights lie in memory that their source has as codes: as these, on hosts (see
// model::CodedWeights), or as numbers, as all others.
enum class Held : std::uint8_t { numbers, codes };

class LoadedModel {
 public:
  // Reads this rank's part of the weights, whatever mesh wrote them. `tensor` is the
  // group over which weights are split; it outlives the model. positions: longest
  // sequence that will be run. part: the stage of this rank. Throws Error(bad_content)
  // when a tensor is absent or has another shape.
  LoadedModel(const model::ModelConfig& config, DType compute, comm::Group& tensor,
              std::int64_t positions, const io::TensorSource& source,
              Device device = Device::host(), StagePart part = {},
              Held held = Held::numbers);
  LoadedModel(const LoadedModel&) = delete;
  LoadedModel& operator=(const LoadedModel&) = delete;

  const model::Stage& stage() const { return stage_; }
  const parallel::TensorRegion& region() const { return region_; }
  const model::ModelConfig& config() const { return stage_.config().model; }
  DType dtype() const { return stage_.config().dtype; }
  Device device() const { return device_; }
  StagePart part() const { return part_; }
  // What is kept as codes, if anything is.
  const model::CodedWeights& codes() const { return codes_; }
  // Of the weights that are numbers.
  std::size_t number_bytes() const;

 private:
  void read(Param& param, int module, const io::TensorSource& source, Held held);

  Device device_;
  StagePart part_;
  parallel::TensorRegion region_;
  model::Stage stage_;
  std::vector<Buffer> weights_;
  WeightAccess in_place_;
  model::CodedWeights codes_;
};

}  // namespace trireme::infer
