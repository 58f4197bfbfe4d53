// Engine: executing a schedule.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>

#include "train/engine.hpp"

namespace trireme::train {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

double Engine::run(const std::vector<TensorView>& inputs,
                   const std::vector<TensorView>& targets, double scale) {
  Work work{inputs, targets, scale};
  execute(schedule_, work);
  return work.loss;
}

double Engine::evaluate(const TensorView& inputs_T, const TensorView& targets_T,
                        const nn::Head::EachChunk& each) {
  const std::vector<TensorView> inputs = {inputs_T}, targets = {targets_T};
  Work work{inputs, targets, 0.0, false, &each};
  execute(forward_schedule_, work);
  return work.loss;
}

void Engine::execute(const Schedule& schedule, Work& work) {
  Stream stream(device_);
  const auto start = Clock::now();
  idle_seconds_ = 0;
  for (const Action& action : schedule) perform(action, work, stream);
  // What is still on its way to other stages may go on while this one does other things,
  // but its memory must not be used before it is gone: claim() waits for it.
  run_seconds_ = seconds_since(start);
}

void Engine::perform(const Action& action, Work& work, Stream& stream) {
  store_->progress();
  switch (action.kind) {
    case ActionKind::forward: forward(action, work, stream); break;
    case ActionKind::backward:
    case ActionKind::backward_input: backward(action, stream); break;
    case ActionKind::backward_weight:
      live(chunks_[to_size(action.chunk)], action.microbatch)
          .deferred.run(stream, *store_);
      break;
    case ActionKind::send: send(action, stream); break;
    case ActionKind::receive: receive(action, stream); break;
  }
}

Engine::Live& Engine::live(Chunk& chunk, std::int64_t microbatch) {
  return chunk.live[to_size(chunk.slots[to_size(microbatch)])];
}

// The memory of a microbatch, ready to be used anew.
Engine::Live& Engine::claim(Chunk& chunk, std::int64_t microbatch) {
  Live& mine = live(chunk, microbatch);
  wait_for_peer(mine.sent_output);
  wait_for_peer(mine.sent_gradient);
  require(mine.deferred.empty(), "a microbatch's memory is used before its gradients");
  mine.saved.reset();
  return mine;
}

void Engine::wait_for_peer(comm::Handle& handle) {
  const auto start = Clock::now();
  handle.wait();
  idle_seconds_ += seconds_since(start);
}

nn::Pass Engine::pass(Stream& stream, Live& mine, nn::WeightGradients& gradients) {
  nn::Pass pass{stream,
                mine.saved,
                *scratch_,
                gradients,
                *attention_,
                config_.batch.micro,
                static_cast<std::int64_t>(sequence_positions_.size()),
                positions_.view()};
  pass.remade = &*remade_;
  return pass;
}

void Engine::receive(const Action& action, Stream& stream) {
  Chunk& chunk = chunks_[to_size(action.chunk)];
  if (action.payload == Payload::activation) {
    Live& mine = claim(chunk, action.microbatch);
    mine.input = mine.saved.take(config_.precision.compute, activation_shape(), "input");
    mine.received = pipeline_.receive(stream, mine.input, action.peer);
    return;
  }
  GradientIn& in =
      chunk.gradients_in[to_size(chunk.gradient_slots[to_size(action.microbatch)])];
  in.received = pipeline_.receive(stream, in.memory.view(), action.peer);
}

void Engine::send(const Action& action, Stream& stream) {
  Live& mine = live(chunks_[to_size(action.chunk)], action.microbatch);
  if (action.payload == Payload::activation) {
    mine.sent_output = pipeline_.send(stream, mine.output, action.peer);
  } else {
    mine.sent_gradient = pipeline_.send(stream, mine.input, action.peer);
  }
}

void Engine::forward(const Action& action, Work& work, Stream& stream) {
  Chunk& chunk = chunks_[to_size(action.chunk)];
  const auto m = to_size(action.microbatch);
  const bool first = chunk.number == 0, last = chunk.number + 1 == stages(shape_);
  // 1. the input: tokens, what came from another rank, or what the chunk before left
  if (first || chunk.before_here) {
    Live& mine = claim(chunk, action.microbatch);
    mine.input = first ? work.inputs[m]
                       : live(chunks_[to_size(place_of(shape_, chunk.number - 1).chunk)],
                              action.microbatch)
                             .output;
  }
  Live& mine = live(chunk, action.microbatch);
  wait_for_peer(mine.received);
  // 2. the stage
  nn::WeightGradients gradients(*store_);
  nn::Pass p = pass(stream, mine, gradients);
  mine.output = chunk.stage->forward(p, mine.input, mine.views);
  // 3. the loss
  if (!last) return;
  work.loss += work.training
                   ? chunk.stage->loss(p, work.targets[m], work.scale, mine.views)
                   : chunk.stage->evaluate(p, work.targets[m], mine.views, *work.each);
}

// The gradient of a stage's input is left in that input's memory: in this microbatch's,
// from where it is sent, or in the output of the chunk before.
void Engine::backward(const Action& action, Stream& stream) {
  Chunk& chunk = chunks_[to_size(action.chunk)];
  const bool first = chunk.number == 0, last = chunk.number + 1 == stages(shape_);
  Live& mine = live(chunk, action.microbatch);
  TensorView dy_TD;
  if (chunk.after_here) {
    dy_TD = mine.output;
  } else if (!last) {
    GradientIn& in =
        chunk.gradients_in[to_size(chunk.gradient_slots[to_size(action.microbatch)])];
    wait_for_peer(in.received);
    dy_TD = in.memory.view();
  }
  const bool split = action.kind == ActionKind::backward_input;
  nn::WeightGradients gradients(*store_, split ? &mine.deferred : nullptr);
  nn::Pass p = pass(stream, mine, gradients);
  chunk.stage->backward(p, dy_TD, first ? TensorView() : mine.input, mine.views);
}

}  // namespace trireme::train
