// Engine: executing a schedule.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/device_memory.hpp"
#include "base/trace_range.hpp"
#include "comm/trace.hpp"
#include "engine/engine.hpp"
#include "kernels/elementwise.hpp"

namespace trireme::engine {
namespace {

// As a profiler shows it.
const char* range_name(schedule::ActionKind kind) {
  switch (kind) {
    case schedule::ActionKind::forward: return "forward";
    case schedule::ActionKind::backward: return "backward";
    case schedule::ActionKind::backward_input: return "backward, input";
    case schedule::ActionKind::backward_weight: return "backward, weights";
    case schedule::ActionKind::send: return "send";
    case schedule::ActionKind::receive: return "receive";
  }
  return "action";
}

}  // namespace

std::vector<StateTensor*> Engine::states() {
  std::vector<StateTensor*> all;
  for (Chunk& chunk : chunks_) {
    for (StateTensor* state : chunk.stage->states()) all.push_back(state);
  }
  return all;
}

std::span<const double> Engine::expert_load() const {
  if (loads_on_host_.empty() || device_.is_meta()) return {};
  return std::span(loads_on_host_).first(loads_on_host_.size() - 2);
}

nn::RouterLosses Engine::router_losses() const {
  if (loads_on_host_.empty() || device_.is_meta()) return {};
  return {loads_on_host_.end()[-2], loads_on_host_.end()[-1]};
}

double Engine::evaluate(const TensorView& inputs_T, const TensorView& targets_T,
                        const nn::Head::EachChunk& each) {
  const std::vector<TensorView> inputs = {inputs_T}, targets = {targets_T};
  return execute(forward_schedule_, {inputs, targets, 0.0, false, &each});
}

// Returns the sum of the losses of this rank's tokens. Reading it is where the host waits
// for a GPU.
double Engine::execute(const schedule::Schedule& schedule, const Work& work) {
  loss_scale_ = work.loss_scale;
  training_ = work.training;
  Stream stream(device_);
  kernels::fill(stream, loss_.view(), 0.0);
  if (!scale_.view().empty())
    kernels::fill(stream, scale_.view(), work.scale * work.loss_scale);
  clock_.reset();
  spans_.clear();
  const std::size_t start = clock_.mark(stream);
  for (const schedule::Action& action : schedule) {
    perform(action, work, stream);
    comm::trace().mark();  // for the watchdog
  }
  // What is still on its way to other stages may go on while this one does other things,
  // but its memory must not be used before it is gone: claim() waits for it.
  const std::size_t end = clock_.mark(stream);
  double loss = 0;
  copy_bytes(stream, loss_.view(), TensorView(&loss, DType::f64, {1}));
  sum_times(start, end);
  return loss;
}

// A wait lies inside an action, right before that action's span in the list.
void Engine::sum_times(std::size_t start, std::size_t end) {
  action_seconds_.clear();
  idle_seconds_ = 0;
  double waited = 0;
  for (const Span& span : spans_) {
    const double seconds = clock_.seconds(span.begin, span.end);
    if (span.is_wait) {
      waited += seconds;
      continue;
    }
    action_seconds_.push_back(seconds - waited);
    idle_seconds_ += std::exchange(waited, 0.0);
  }
  run_seconds_ = clock_.seconds(start, end);
}

void Engine::perform(const schedule::Action& action, const Work& work, Stream& stream) {
  const TraceRange range(range_name(action.kind));
  store_->progress();
  const std::size_t begin = clock_.mark(stream);
  dispatch(action, work, stream);
  spans_.push_back({false, begin, clock_.mark(stream)});
}

void Engine::dispatch(const schedule::Action& action, const Work& work, Stream& stream) {
  switch (action.kind) {
    case schedule::ActionKind::forward: forward(action, work, stream); break;
    case schedule::ActionKind::backward:
    case schedule::ActionKind::backward_input: backward(action, stream); break;
    case schedule::ActionKind::backward_weight:
      live(chunks_[to_size(action.chunk)], action.microbatch)
          .deferred.run(stream, *store_);
      break;
    case schedule::ActionKind::send: send(action, stream); break;
    case schedule::ActionKind::receive: receive(action, stream); break;
  }
}

Engine::Live& Engine::live(Chunk& chunk, std::int64_t microbatch) {
  return chunk.live[to_size(chunk.slots[to_size(microbatch)])];
}

// The memory of a microbatch, ready to be used anew.
Engine::Live& Engine::claim(Stream& stream, Chunk& chunk, std::int64_t microbatch) {
  Live& mine = live(chunk, microbatch);
  wait_for_peer(stream, mine.sent_output);
  wait_for_peer(stream, mine.sent_gradient);
  require(mine.deferred.empty(), "a microbatch's memory is used before its gradients");
  mine.saved.reset();
  return mine;
}

void Engine::wait_for_peer(Stream& stream, comm::Handle& handle) {
  if (handle.empty()) return;
  const std::size_t begin = clock_.mark(stream);
  handle.wait();
  spans_.push_back({true, begin, clock_.mark(stream)});
}

nn::Pass Engine::pass(Stream& stream, Live& mine, nn::WeightGradients& gradients) {
  nn::Pass pass{
      stream,
      mine.saved,
      *scratch_,
      gradients,
      *attention_,
      {config_.batch.micro, static_cast<std::int64_t>(sequence_positions_.size()),
       positions_.view()},
      {loss_.view()}};
  pass.recomputed = &*recomputed_;
  pass.losses.loss_scale = loss_scale_;
  pass.fp8.training = training_;
  pass.fp8.amax_region = &amax_region_;
  if (reporting_ && training_) pass.fp8.report = &*fp8_report_;
  pass.losses.aux_scale = 1.0 / static_cast<double>(config_.batch.global);
  pass.losses.token_scale =
      pass.losses.aux_scale / static_cast<double>(config_.model.sequence);
  return pass;
}

void Engine::receive(const schedule::Action& action, Stream& stream) {
  Chunk& chunk = chunks_[to_size(action.chunk)];
  if (action.payload == schedule::Payload::activation) {
    Live& mine = claim(stream, chunk, action.microbatch);
    mine.input =
        mine.saved.take(config_.precision.recipe[TensorClass::pipeline_traffic].type,
                        activation_shape(), "input");
    mine.received = pipeline_.receive(stream, mine.input, action.peer);
    return;
  }
  GradientIn& in =
      chunk.gradients_in[to_size(chunk.gradient_slots[to_size(action.microbatch)])];
  in.received = pipeline_.receive(stream, in.memory.view(), action.peer);
}

void Engine::send(const schedule::Action& action, Stream& stream) {
  Live& mine = live(chunks_[to_size(action.chunk)], action.microbatch);
  if (action.payload == schedule::Payload::activation) {
    mine.sent_output = pipeline_.send(stream, mine.output, action.peer);
  } else {
    mine.sent_gradient = pipeline_.send(stream, mine.input, action.peer);
  }
}

// A microbatch's tokens or targets where the kernels read them: in the place of the slot
// that has its activations in the first or last chunk.
TensorView Engine::on_device(Stream& stream, const TensorView& ids_T, std::int64_t slot,
                             bool targets) {
  if (!device_.is_cuda()) return ids_T;
  const TensorView ids =
      ids_.view().rows(2 * slot + (targets ? 1 : 0), 1).reshape(ids_T.shape());
  copy_bytes(stream, ids_T, ids);
  return ids;
}

// Recorded kernels read it from memory: it changes from step to step.
kernels::LossScale Engine::scale_of_loss(const Work& work) const {
  if (scale_.view().empty()) return work.scale * work.loss_scale;
  return kernels::LossScale(scale_.view());
}

// Has the kernels of an action run: recorded, where that is asked for, but for those of
// the last microbatch if there is something to reduce. Reductions start between them.
void Engine::compute(const schedule::Action& action, Stream& stream,
                     const ActionGraphs::Work& work) {
  const bool reduces = mesh_.replicas().size() > 1 && action.microbatch == last_backward_;
  if (!graphs_ || !training_ || reduces) return work(*store_);
  const Chunk& chunk = chunks_[to_size(action.chunk)];
  graphs_->run(stream, action.kind, chunk.slots[to_size(action.microbatch)], *store_,
               work);
}

void Engine::forward(const schedule::Action& action, const Work& work, Stream& stream) {
  Chunk& chunk = chunks_[to_size(action.chunk)];
  const auto m = to_size(action.microbatch);
  const std::int64_t slot = chunk.slots[m];
  const bool first = chunk.number == 0, last = chunk.number + 1 == stages(shape_);
  // 1. the input: tokens, what came from another rank, or what the chunk before left
  if (first || chunk.before_here) {
    Live& mine = claim(stream, chunk, action.microbatch);
    mine.input = first ? on_device(stream, work.inputs[m], slot, false)
                       : live(chunks_[to_size(place_of(shape_, chunk.number - 1).chunk)],
                              action.microbatch)
                             .output;
  }
  Live& mine = live(chunk, action.microbatch);
  const TensorView targets_T =
      last ? on_device(stream, work.targets[m], slot, true) : TensorView();
  wait_for_peer(stream, mine.received);
  compute(action, stream, [&](WeightAccess& weights) {
    // 2. the stage
    nn::WeightGradients gradients(weights);
    nn::Pass p = pass(stream, mine, gradients);
    mine.output = chunk.stage->forward(p, mine.input, mine.views);
    // 3. the loss
    if (!last) return;
    if (work.training) {
      chunk.stage->loss(p, targets_T, scale_of_loss(work), mine.views);
    } else {
      chunk.stage->evaluate(p, targets_T, mine.views, *work.each);
    }
  });
}

// The gradient of a stage's input is left in that input's memory: in this microbatch's,
// from where it is sent, or in the output of the chunk before.
void Engine::backward(const schedule::Action& action, Stream& stream) {
  Chunk& chunk = chunks_[to_size(action.chunk)];
  const bool first = chunk.number == 0, last = chunk.number + 1 == stages(shape_);
  Live& mine = live(chunk, action.microbatch);
  TensorView dy_TD;
  if (chunk.after_here) {
    dy_TD = mine.output;
  } else if (!last) {
    GradientIn& in =
        chunk.gradients_in[to_size(chunk.gradient_slots[to_size(action.microbatch)])];
    wait_for_peer(stream, in.received);
    dy_TD = in.memory.view();
  }
  const bool split = action.kind == schedule::ActionKind::backward_input;
  compute(action, stream, [&](WeightAccess& weights) {
    nn::WeightGradients gradients(weights, split ? &mine.deferred : nullptr);
    nn::Pass p = pass(stream, mine, gradients);
    chunk.stage->backward(p, dy_TD, first ? TensorView() : mine.input, mine.views);
  });
}

}  // namespace trireme::engine
