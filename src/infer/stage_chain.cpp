// StageChain: what is received, run and sent on.
// SPDX-License-Identifier: Apache-2.0
#include "infer/stage_chain.hpp"

#include <array>

#include "kernels/elementwise.hpp"
#include "model/activation_storage.hpp"

namespace trireme::infer {
namespace {

// No backward follows: what a block keeps is gone when the block is done, and the inputs
// of the blocks take turns in two places. A pass takes the memory of one block, whatever
// the number of blocks is. Between blocks, messages of other lanes move on: a stage that
// waits for a long one needs its sender's hand.
class PassingBlocks final : public model::ActivationStorage {
 public:
  PassingBlocks(std::size_t blocks, Arena& arena, comm::Group& pipeline)
      : blocks_(blocks), arena_(arena), pipeline_(pipeline) {}
  std::size_t moved() const override { return blocks_; }
  TensorView input(Stream& /*stream*/, std::size_t /*block*/, DType dtype,
                   const Shape& shape) override {
    TensorView& place = places_[turn_ % places_.size()];
    if (turn_++ < places_.size()) place = arena_.take(dtype, shape, "stage.x");
    return place;
  }
  Arena& open(Stream& /*stream*/, std::size_t /*block*/) override {
    pipeline_.progress();
    mark_ = arena_.mark();
    return arena_;
  }
  void offload(Stream& /*stream*/, std::size_t /*block*/) override {
    arena_.release(mark_);
  }
  void reload(Stream& /*stream*/, std::size_t /*block*/) override {
    fail(Status::internal, "what a block kept is gone where no backward follows");
  }

 private:
  std::size_t blocks_, turn_ = 0, mark_ = 0;
  Arena& arena_;
  comm::Group& pipeline_;
  std::array<TensorView, 2> places_;
};

}  // namespace

StageChain::StageChain(const LoadedModel& model, comm::Group& pipeline, std::int64_t rows,
                       int lanes)
    : model_(model), pipeline_(pipeline), lanes_(static_cast<std::size_t>(lanes)) {
  if (part().last()) return;
  for (Lane& lane : lanes_)
    lane.output = Buffer(model.device(), model.dtype(), {rows, model.config().hidden},
                         MemoryClass::communication, "activations on their way");
}

TensorView StageChain::forward(nn::Pass& pass, const TensorView& tokens_T, int lane) {
  Stream& stream = pass.stream;
  const Shape shape = {pass.tokens(), model_.config().hidden};
  const bool meta = stream.device().is_meta();
  TensorView input = tokens_T;
  if (!part().first()) {
    input = pass.saved.take(model_.dtype(), shape, "received activations");
    if (!meta) pipeline_.receive(stream, input, part().stage - 1).wait();
  }
  auto views = model_.stage().make_saved();
  PassingBlocks passing(views.blocks.size(), pass.saved, pipeline_);
  views.kept = &passing;
  const TensorView output_TD = model_.stage().forward(pass, input, views);
  if (part().last()) return output_TD;
  if (meta) return {};
  Lane& here = lanes_.at(static_cast<std::size_t>(lane));
  here.sent.wait();
  const TensorView sent = here.output.view().rows(0, shape[0]);
  kernels::copy(stream, output_TD, sent);
  here.sent = pipeline_.send(stream, sent, part().stage + 1);
  return {};
}

void StageChain::finish_results(int lane) {
  Lane& here = lanes_.at(static_cast<std::size_t>(lane));
  for (comm::Handle& handle : here.results) handle.wait();
  here.results.clear();
}

void StageChain::send_back(Stream& stream, const TensorView& x, int lane) {
  finish_results(lane);
  Lane& here = lanes_.at(static_cast<std::size_t>(lane));
  for (int stage = 0; stage + 1 < part().stages; ++stage)
    here.results.push_back(pipeline_.send(stream, x, stage));
}

void StageChain::receive_back(Stream& stream, const TensorView& x) {
  pipeline_.receive(stream, x, part().stages - 1).wait();
}

void StageChain::finish() {
  for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
    lanes_[lane].sent.wait();
    finish_results(static_cast<int>(lane));
  }
}

}  // namespace trireme::infer
