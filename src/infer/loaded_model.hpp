// LoadedModel: a model for inference, its weights read from a checkpoint or a folder.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "comm/group.hpp"
#include "infer/placed_weights.hpp"
#include "io/tensor_source.hpp"
#include "model/coded_weights.hpp"
#include "model/stage.hpp"

namespace trireme::infer {

// Which of the model's stages, each of which has a range of its layers: an equal share
// unless `blocks` says which.
struct StagePart {
  int stage = 0, stages = 1;
  Range blocks{};
  bool first() const { return stage == 0; }
  bool last() const { return stage + 1 == stages; }
};

// How weights lie in memory that their source has as codes: as these (see
// model::CodedWeights), or as numbers, as all others.
enum class Held : std::uint8_t { numbers, codes };

class LoadedModel {
 public:
  // Reads this rank's part of the weights, whatever mesh wrote them. `tensor` is the
  // group over which weights are split; it outlives the model. positions: longest
  // sequence that will be run. part: the stage of this rank. placement: where weights lie
  // (its stage's blocks are this one's), as numbers on a GPU; null: all on the device.
  // Weights on the disk are read from `source` as they are needed: it outlives the model.
  // On meta nothing is read. Throws Error(bad_content) when a tensor is absent or has
  // another shape.
  LoadedModel(const model::ModelConfig& config, DType compute, comm::Group& tensor,
              std::int64_t positions, const io::TensorSource& source,
              Device device = Device::host(), StagePart part = {},
              Held held = Held::numbers, const Placement* placement = nullptr);
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
  // Null: all weights are on the device.
  PlacedWeights* placed() const { return placed_.get(); }

 private:
  void read_all(const io::TensorSource& source, Held held);
  void read(Param& param, int module, const io::TensorSource& source, Held held);

  Device device_;
  StagePart part_;
  parallel::TensorRegion region_;
  model::Stage stage_;
  std::vector<Buffer> weights_;
  WeightAccess in_place_;
  model::CodedWeights codes_;
  std::unique_ptr<PlacedWeights> placed_;
};

// While it lives, passes on the meta device bring no weights.
class MeasuredPass {
 public:
  explicit MeasuredPass(const LoadedModel& model) : placed_(model.placed()) {
    if (placed_ != nullptr) placed_->set_idle(true);
  }
  ~MeasuredPass() {
    if (placed_ != nullptr) placed_->set_idle(false);
  }
  MeasuredPass(const MeasuredPass&) = delete;
  MeasuredPass& operator=(const MeasuredPass&) = delete;

 private:
  PlacedWeights* placed_;
};

}  // namespace trireme::infer
