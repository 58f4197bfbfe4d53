// Engine: executing a schedule.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>

#include "kernels/elementwise.hpp"
#include "train/engine.hpp"

namespace trireme::train {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

void Engine::begin_step() {
  store_->begin_step(config_.microbatches());
  for (Chunk& chunk : chunks_) {
    for (nn::Moe* mixture : chunk.stage->mixtures()) mixture->clear_step();
  }
}

void Engine::finish_step() {
  store_->finish_gradients();
  if (config_.model.has_experts()) sum_expert_loads();
}

// Every mixture learns the load of the global batch, every rank that of all mixtures.
void Engine::sum_expert_loads() {
  const std::int64_t E = config_.model.moe.experts;
  const TensorView all = loads_.view();
  Stream stream(device_);
  kernels::fill(stream, all, 0.0);
  nn::RouterLosses losses;
  const auto for_each = [&](const auto& body) {
    for (Chunk& chunk : chunks_) {
      std::int64_t layer = chunk.stage->config().blocks.end -
                           static_cast<std::int64_t>(chunk.stage->mixtures().size());
      for (nn::Moe* mixture : chunk.stage->mixtures()) {
        body(*mixture, all.rows(layer * E, E));
        ++layer;
      }
    }
  };
  for_each([&](nn::Moe& mixture, const TensorView& load_E) {
    kernels::copy(stream, mixture.load(), load_E);
    losses.balance += mixture.losses().balance;
    losses.z += mixture.losses().z;
  });
  if (!device_.is_meta()) {
    all.data<double>()[config_.model.layers * E] = losses.balance;
    all.data<double>()[config_.model.layers * E + 1] = losses.z;
  }
  mesh_.replicas().all_reduce(stream, all).wait();
  pipeline_.all_reduce(stream, all).wait();
  for_each([&](nn::Moe& mixture, const TensorView& load_E) {
    kernels::copy(stream, load_E, mixture.load());
  });
}

void Engine::update(double learning_rate, double gradient_scale, std::int64_t step) {
  store_->update(config_.optimizer, learning_rate, gradient_scale, step);
  for (Chunk& chunk : chunks_) {
    for (nn::Moe* mixture : chunk.stage->mixtures()) mixture->update_bias();
  }
}

std::vector<StateTensor*> Engine::states() {
  std::vector<StateTensor*> all;
  for (Chunk& chunk : chunks_) {
    for (StateTensor* state : chunk.stage->states()) all.push_back(state);
  }
  return all;
}

std::span<const double> Engine::expert_load() const {
  if (loads_.view().empty() || device_.is_meta()) return {};
  const auto all = loads_.view().span<double>();
  return {all.data(), all.size() - 2};
}

nn::RouterLosses Engine::router_losses() const {
  if (loads_.view().empty() || device_.is_meta()) return {};
  const auto all = loads_.view().span<double>();
  return {all[all.size() - 2], all[all.size() - 1]};
}

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
  for (Chunk& chunk : chunks_) chunk.seconds = {0, 0, 0, 0};
  for (const Action& action : schedule) perform(action, work, stream);
  // What is still on its way to other stages may go on while this one does other things,
  // but its memory must not be used before it is gone: claim() waits for it.
  run_seconds_ = seconds_since(start);
}

std::vector<std::pair<int, StageCost>> Engine::stage_seconds() const {
  std::vector<std::pair<int, StageCost>> all;
  const auto microbatches = static_cast<double>(shape_.microbatches);
  for (const Chunk& chunk : chunks_) {
    StageCost mean = chunk.seconds;
    for (double* sum : {&mean.forward, &mean.backward_input, &mean.backward_weight})
      *sum /= microbatches;
    all.emplace_back(chunk.number, mean);
  }
  return all;
}

void Engine::perform(const Action& action, Work& work, Stream& stream) {
  store_->progress();
  const auto start = Clock::now();
  const double idle = idle_seconds_;
  dispatch(action, work, stream);
  const double seconds = seconds_since(start) - (idle_seconds_ - idle);
  StageCost& sum = chunks_[to_size(action.chunk)].seconds;
  switch (action.kind) {
    case ActionKind::forward: sum.forward += seconds; break;
    case ActionKind::backward:
    case ActionKind::backward_input: sum.backward_input += seconds; break;
    case ActionKind::backward_weight: sum.backward_weight += seconds; break;
    default: break;
  }
}

void Engine::dispatch(const Action& action, Work& work, Stream& stream) {
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
  pass.aux_scale = 1.0 / static_cast<double>(config_.batch.global);
  pass.token_scale = pass.aux_scale / static_cast<double>(config_.model.sequence);
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
