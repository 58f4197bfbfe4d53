// Executor: the run without messages before the first step.
// SPDX-License-Identifier: Apache-2.0
//
// CUDA may load a kernel at its first launch, and then waits until the GPU is idle ("Lazy
// Loading", CUDA Programming Guide); cuBLASLt and cuDNN load theirs so whatever the
// environment says, and workspace that grows is freed and allocated, which waits, too. A
// receive that NCCL has posted is a kernel that ends when the peer sends. If the peer
// sends after this rank's next forward, nobody goes on.
#include "engine/executor.hpp"
#include "kernels/elementwise.hpp"

namespace trireme::engine {
namespace {

// Weights are there as in a step; gradients are dropped, and nothing is reduced.
class Discarding final : public WeightAccess {
 public:
  explicit Discarding(optim::ParameterStore& store) : store_(store) {}

  void fetch(int module, Direction direction) override {
    store_.fetch(module, direction);
  }
  void release(int module) override { store_.release(module); }
  void open_gradients(int module) override { store_.open_gradients(module); }
  void close_gradients(int module) override { store_.drop_gradients(module); }

 private:
  optim::ParameterStore& store_;
};

}  // namespace

void Executor::warm_up(const Batch& batch) {
  Stream stream(device_);
  kernels::fill(stream, loss_.view(), 0.0);
  if (!scale_.view().empty()) kernels::fill(stream, scale_.view(), 0.0);
  const Work work{.inputs = batch.inputs, .targets = batch.targets};
  for (std::size_t c = 0; c < memory_.size(); ++c) warm_up(c, work, stream);
  stream.synchronize();
}

void Executor::warm_up(std::size_t c, const Work& work, Stream& stream) {
  RankModel::Chunk& chunk = model_.chunks()[c];
  ChunkMemory& memory = memory_[c];
  Live& mine = memory.live.front();
  bool split = false;
  for (const schedule::Action& action : schedule_)
    split = split || action.kind == schedule::ActionKind::backward_input;
  Discarding weights(store_);
  // 1. forward, and the loss
  nn::WeightGradients of_loss(weights);
  nn::Pass p = pass(work, stream, mine, of_loss);
  mine.saved.reset();
  if (chunk.first) {
    mine.input = on_device(stream, work.inputs.front(), 0, false);
  } else if (chunk.before_here) {
    mine.input = memory_[model_.chunk_of_stage(chunk.number - 1)].live.front().output;
  } else {
    mine.input =
        mine.saved.take(config_.precision.recipe[TensorClass::pipeline_traffic].type,
                        model_.activation_shape(), "input");
    kernels::fill(stream, mine.input, 0.0);
  }
  mine.output = chunk.stage->forward(p, mine.input, mine.views);
  if (chunk.last)
    chunk.stage->loss(p, on_device(stream, work.targets.front(), 0, true),
                      scale_of_loss(work), mine.views);
  // 2. backward, of a gradient of zeros
  TensorView dy_TD;
  if (!chunk.last) {
    dy_TD = memory.gradients_in.empty() ? mine.output
                                        : memory.gradients_in.front().memory.view();
    kernels::fill(stream, dy_TD, 0.0);
  }
  nn::WeightGradients gradients(weights, split ? &mine.deferred : nullptr);
  nn::Pass q = pass(work, stream, mine, gradients);
  chunk.stage->backward(q, dy_TD, chunk.first ? TensorView() : mine.input, mine.views);
  mine.deferred.run(stream, weights);
}

}  // namespace trireme::engine
