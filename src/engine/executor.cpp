// Executor: what each action of a schedule does.
// SPDX-License-Identifier: Apache-2.0
#include "engine/executor.hpp"

#include <utility>

#include "base/device_memory.hpp"
#include "base/timeline.hpp"
#include "base/trace_range.hpp"
#include "comm/trace.hpp"
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

bool is_true_on_any(bool mine, comm::Group& everyone) {
  Stream host;
  double any = mine ? 1.0 : 0.0;
  everyone.all_reduce(host, TensorView(&any, DType::f64, {1}), comm::Reduce::max).wait();
  return any > 0;
}

// Whether any run may launch kernels that none before has: Executor::execute() says why.
// On meta, as well, for plans of GPUs; groups of the host do not care.
bool meets_new_kernels(const config::RunConfig& config, Device device) {
  return !device.is_host() && config.model.has_experts();
}

}  // namespace

void Executor::train(const Batch& batch, double scale, double loss_scale,
                     nn::Fp8Report* report) {
  const auto microbatches = static_cast<std::int64_t>(batch.inputs.size());
  follow(microbatches);
  pairs_.sums = {};
  execute(schedule_,
          {.inputs = batch.inputs,
           .targets = batch.targets,
           .step = batch.step,
           .scale = scale,
           .loss_scale = loss_scale,
           .sequences = (microbatches * config_.parallel.mesh.data - batch.stand_ins) *
                        config_.batch.micro,
           .counted = microbatches - (batch.ends_with_stand_in ? 1 : 0),
           .report = report,
           .documents = batch.documents.empty() ? nullptr : &batch.documents,
           .answers = batch.answers.empty() ? nullptr : batch.answers.data()});
}

double Executor::evaluate(const std::vector<TensorView>& inputs_T,
                          const std::vector<TensorView>& targets_T,
                          const nn::Documents& documents, const nn::Head::EachChunk* each,
                          const nn::Answers* answers,
                          std::vector<double>* log_probabilities) {
  const std::vector<nn::Documents> of_row = {documents};
  const nn::Head::EachChunk nothing;
  execute(forward_schedule_, {.inputs = inputs_T,
                              .targets = targets_T,
                              .training = false,
                              .sequences = config_.batch.global,
                              .each = each ? each : &nothing,
                              .documents = documents.empty() ? nullptr : &of_row,
                              .answers = answers,
                              .log_probabilities = log_probabilities});
  Stream stream(device_);
  double loss = 0;
  copy_bytes(stream, loss_.view(), TensorView(&loss, DType::f64, {1}));
  finish_times();
  return loss;
}

// The first launch of a kernel loads it, and may wait until the GPU is idle. A message
// that is a kernel and waits for another rank, which waits for this one's kernel, would
// then wait for ever. So messages of a schedule's first run leave the GPU to its kernels:
// they pass through the host, and none is left behind when the next action begins.
// Products of experts have other rows in each step, for which a library may take a kernel
// that no run has launched: all runs of such models are like the first, in the same
// pinned memory.
// What else ranks wait for together, all ranks of a group come to in the same order.
// Graphs are made in a second run, which is treated alike, because that may take memory
// of the GPU. A run that counts what FP8 loses launches each kernel by itself. Kernels of
// FP8 depend on which scales a history has left, as a rule known after the first step:
// all ranks, in stages too, then go through the new kernels together.
void Executor::execute(const schedule::Schedule& schedule, const Work& work) {
  comm::Group* const everyone = recording_.everyone;
  if (graphs_ && work.training) {
    std::int64_t changes = 0;
    for (const nn::Fp8State* scales : model_.fp8_states()) changes += scales->changes();
    bool others = std::exchange(recording_.scale_changes, changes) != changes;
    if (recording_.by_steps)
      others = graphs_->begin_step(others, [&](bool mine) {
        return everyone == nullptr ? mine : is_true_on_any(mine, *everyone);
      });
    else if (others)
      graphs_->forget();
    if (others) warmth_.runs = 0;
  }
  const int needed = !graphs_ ? 1 : recording_.by_steps ? 3 : 2;
  const bool never_warm = meets_new_kernels(config_, device_);
  const bool warm =
      !never_warm && (work.training ? warmth_.runs >= needed : warmth_.has_evaluated);
  if (warm) return run(schedule, work);
  if (!work.training) warmth_.has_evaluated = true;
  if (work.training && (!graphs_ || work.report == nullptr)) ++warmth_.runs;
  const auto after =
      never_warm ? comm::Group::PinnedMemory::keep : comm::Group::PinnedMemory::free;
  warmth_.sends_block = pipeline_.send_through_host(true, after);
  run(schedule, work);
  Stream(device_).synchronize();  // all that came in by the host is in place
  warmth_.sends_block = false;
  pipeline_.send_through_host(false, after);
}

void Executor::run(const schedule::Schedule& schedule, const Work& work) {
  Stream stream(device_);
  kernels::fill(stream, loss_.view(), 0.0);
  if (!recording_.numbers.view().empty())
    kernels::fill(stream, recording_.scale(), work.scale * work.loss_scale);
  begun_.assign(memory_.size(), false);
  times_.begin(stream);
  for (const schedule::Action& action : schedule) {
    const TraceRange range(range_name(action.kind));
    Timeline::note("microbatch", action.microbatch);
    Timeline::note("stage", std::int64_t{model_.chunks()[to_size(action.chunk)].number});
    store_.progress();
    times_.action(stream, [&] { perform(action, work, stream); });
    comm::trace().mark();  // for the watchdog
  }
  // What is still on its way to other stages may go on while this one does other things,
  // but its memory must not be used before it is gone: claim() waits for it.
  times_.end(stream);
}

void Executor::perform(const schedule::Action& action, const Work& work, Stream& stream) {
  switch (action.kind) {
    case schedule::ActionKind::forward: forward(action, work, stream); break;
    case schedule::ActionKind::backward:
    case schedule::ActionKind::backward_input: backward(action, work, stream); break;
    case schedule::ActionKind::backward_weight: weights(action, work, stream); break;
    case schedule::ActionKind::send: send(action, stream); break;
    case schedule::ActionKind::receive: receive(action, stream); break;
  }
}

Executor::Live& Executor::live(std::size_t chunk, std::int64_t microbatch) {
  ChunkMemory& memory = memory_[chunk];
  return memory.live[to_size(memory.slots[to_size(microbatch)])];
}

// Chunks have slots of their own: each keeps what its backward reads again.
nn::Documents Executor::fetch_documents(Stream& stream, const nn::Documents& on_host,
                                        std::size_t chunk, std::int64_t slot) {
  const std::int64_t row =
      2 * (slot + static_cast<std::int64_t>(chunk) * document_slots_);
  return {documents_.fetch(stream, on_host.positions_T, row, false),
          documents_.fetch(stream, on_host.starts_T, row, true),
          documents_.fetch(stream, on_host.window_starts_T, row + 1, false)};
}

// The memory of a microbatch, ready to be used anew.
Executor::Live& Executor::claim(Stream& stream, std::size_t chunk,
                                std::int64_t microbatch) {
  Live& mine = live(chunk, microbatch);
  wait_for_peer(stream, mine.sent_output);
  wait_for_peer(stream, mine.sent_gradient);
  require(mine.deferred.empty(), "a microbatch's memory is used before its gradients");
  mine.saved.reset();
  return mine;
}

// Where the gradient of the output of an action's chunk arrives.
Executor::GradientIn& Executor::gradient_in(const schedule::Action& action) {
  ChunkMemory& memory = memory_[to_size(action.chunk)];
  return memory.gradients_in[to_size(memory.gradient_slots[to_size(action.microbatch)])];
}

void Executor::wait_for_peer(Stream& stream, comm::Handle& handle) {
  if (!handle.empty()) times_.wait(stream, [&] { handle.wait(); });
}

nn::Pass Executor::pass(const Work& work, Stream& stream, std::int64_t microbatch,
                        Live& mine, nn::WeightGradients& gradients) {
  nn::Pass pass{
      stream,
      mine.saved,
      *scratch_,
      gradients,
      model_.attention(),
      {.batch = config_.batch.micro,
       .sequence = static_cast<std::int64_t>(model_.sequence_positions().size()),
       .positions_T =
           mine.documents.empty() ? model_.positions_T() : mine.documents.positions_T,
       .documents = mine.documents},
      {loss_.view()}};
  pass.recomputed = &*recomputed_;
  const bool counts = microbatch < work.counted;
  pass.losses.loss_scale = work.loss_scale;
  pass.losses.aux_scale = counts ? 1.0 / static_cast<double>(work.sequences) : 0.0;
  pass.losses.token_scale =
      pass.losses.aux_scale / static_cast<double>(config_.model.sequence);
  if (work.training) pass.dropout = model_.dropout_rows(work.step, microbatch);
  if (pass.dropout.active && !recording_.numbers.view().empty())
    pass.dropout.first_sequence_1 = recording_.sequence();
  // Experts of a rank with a stand-in have real rows of others.
  pass.fp8.training = work.training && (counts || config_.parallel.folding.expert > 1);
  pass.fp8.amax_region = &model_.amax_region();
  pass.fp8.report = counts ? work.report : nullptr;
  return pass;
}

void Executor::receive(const schedule::Action& action, Stream& stream) {
  if (action.payload == schedule::Payload::activation) {
    Live& mine = claim(stream, to_size(action.chunk), action.microbatch);
    mine.input =
        mine.saved.take(config_.precision.recipe[TensorClass::pipeline_traffic].type,
                        model_.activation_shape(), "input");
    mine.received = pipeline_.receive(stream, mine.input, action.peer);
    return;
  }
  GradientIn& in = gradient_in(action);
  in.received = pipeline_.receive(stream, in.memory.view(), action.peer);
}

void Executor::send(const schedule::Action& action, Stream& stream) {
  Live& mine = live(to_size(action.chunk), action.microbatch);
  const bool output = action.payload == schedule::Payload::activation;
  comm::Handle& sent = output ? mine.sent_output : mine.sent_gradient;
  sent = pipeline_.send(stream, output ? mine.forward->output : mine.input, action.peer);
  if (warmth_.sends_block) wait_for_peer(stream, sent);
}

// Recorded kernels read it from memory: it changes from step to step.
kernels::LossScale Executor::scale_of_loss(const Work& work) const {
  if (recording_.numbers.view().empty()) return work.scale * work.loss_scale;
  return kernels::LossScale(recording_.scale());
}

// Empty where no answers are compared.
nn::Preferences Executor::preferences(const Work& work, std::int64_t microbatch) {
  if (work.answers == nullptr) return {};
  return {work.answers[microbatch], config_.train.pairs, pairs_.sequence_sum,
          &pairs_.sums, work.log_probabilities};
}

// Between two actions of which graphs are made all is at rest, recorded or not: so that a
// graph finds what it found when it was recorded, and plan and run move the same bytes.
void Executor::rest(const Work& work, Stream& stream) {
  if (recording_.rests && work.training) store_.rest();
  if (recording_.rests_activations) offload_->rest(stream);
}

// Has the kernels of an action run: recorded, where that is asked for. Launched one by
// one are those that count what FP8 loses, and the last microbatch, where sums over
// replicas begin between its kernels that cannot be recorded, or where some ranks have a
// stand-in for it. Forward and backward of a microbatch are launched alike: a launched
// forward leaves nothing that a backward without a graph could read.
void Executor::compute(const schedule::Action& action, const Work& work, Stream& stream,
                       const ActionGraphs::Work& kernels) {
  const std::size_t c = to_size(action.chunk);
  const Live& mine = live(c, action.microbatch);
  const bool first = !begun_[c];
  begun_[c] = true;
  if (!recording_.numbers.view().empty() && work.training && config_.drops())
    kernels::fill(stream, recording_.sequence(),
                  static_cast<double>(
                      model_.dropout_rows(work.step, action.microbatch).first_sequence));
  const bool backward = action.kind != schedule::ActionKind::forward;
  const bool completes =
      work.training && sums_.begin_early && sums_.last[c] == action.microbatch;
  const bool last = completes && backward && recording_.sums;
  rest(work, stream);
  bool ran = false;
  const ActionGraphs::Work and_rest = [&](WeightAccess& weights) {
    ran = true;
    const ActivationTraffic before = activation_traffic();
    kernels(weights);
    rest(work, stream);
    if (last && comm::recorded_calls() != nullptr) store_.sums().wait_for_sums();
    if (recording_.rests_activations)
      recording_.traffic[{action.kind, action.chunk}] = activation_traffic() - before;
  };
  const bool singly = (completes && !recording_.sums) || work.report != nullptr;
  if (!graphs_ || !work.training || singly) return and_rest(model_.weights());
  store_.wait_for_weights();  // a launched graph waits for none
  if (last) store_.sums().wait_for_sums();
  ActionGraphs::Launched launched;
  if (last)
    launched = [&](std::span<Param* const> ready) { store_.sums().launched(ready); };
  graphs_->run(stream,
               {.kind = action.kind,
                .chunk = action.chunk,
                .slot = memory_[c].slots[to_size(action.microbatch)],
                .input = mine.input.raw(),
                .gradient = backward ? mine.gradient.raw() : nullptr,
                .first = first && config_.precision.recipe.fp8(),
                .last = last},
               store_, and_rest, launched);
  if (!ran && offload_)
    offload_->count(recording_.traffic.at({action.kind, action.chunk}));
}

void Executor::forward(const schedule::Action& action, const Work& work, Stream& stream) {
  const std::size_t c = to_size(action.chunk), m = to_size(action.microbatch);
  RankModel::Chunk& chunk = model_.chunks()[c];
  const std::int64_t slot = memory_[c].slots[m];
  // 1. the input: tokens, what came from another rank, or what the chunk before left
  if (chunk.first || chunk.before_here) {
    Live& mine = claim(stream, c, action.microbatch);
    mine.input = chunk.first
                     ? tokens_.fetch(stream, work.inputs[m], slot, false)
                     : live(model_.chunk_of_stage(chunk.number - 1), action.microbatch)
                           .forward->output;
  }
  Live& mine = live(c, action.microbatch);
  mine.begin_forward(*chunk.stage, graphs_ && work.training ? mine.input.raw() : nullptr);
  Forward& left = *mine.forward;
  const TensorView targets_T =
      chunk.last ? tokens_.fetch(stream, work.targets[m], slot, true) : TensorView();
  mine.documents = {};
  if (work.documents != nullptr)
    mine.documents = fetch_documents(stream, (*work.documents)[m], c, slot);
  wait_for_peer(stream, mine.received);
  compute(action, work, stream, [&](WeightAccess& weights) {
    // 2. the stage
    if (mine.blocks) mine.blocks->begin(work.training);
    nn::WeightGradients gradients(weights);
    nn::Pass p = pass(work, stream, action.microbatch, mine, gradients);
    left.output = chunk.stage->forward(p, mine.input, left.views);
    // 3. the loss
    if (chunk.last) {
      const nn::Preferences wanted = preferences(work, action.microbatch);
      if (!wanted.answers.empty()) p.losses.preferences = &wanted;
      if (work.training) {
        chunk.stage->loss(p, targets_T, scale_of_loss(work), left.views);
      } else {
        chunk.stage->evaluate(p, targets_T, left.views, *work.each);
      }
    }
    left.saved_bytes = mine.saved.mark();
  });
}

// The gradient of a stage's input is left in that input's memory: in this microbatch's,
// from where it is sent, or in the output of the chunk before.
void Executor::backward(const schedule::Action& action, const Work& work,
                        Stream& stream) {
  const std::size_t c = to_size(action.chunk);
  RankModel::Chunk& chunk = model_.chunks()[c];
  Live& mine = live(c, action.microbatch);
  if (mine.blocks && !recording_.rests_activations) mine.blocks->prefetch_last(stream);
  TensorView dy_TD;
  if (chunk.after_here) {
    dy_TD = mine.forward->output;
  } else if (!chunk.last) {
    GradientIn& in = gradient_in(action);
    wait_for_peer(stream, in.received);
    dy_TD = in.memory.view();
  }
  const bool split = action.kind == schedule::ActionKind::backward_input;
  mine.gradient = dy_TD;
  compute(action, work, stream, [&](WeightAccess& weights) {
    mine.keep_forward();
    mine.defers = split;
    if (mine.blocks && recording_.rests_activations) mine.blocks->prefetch_last(stream);
    nn::WeightGradients gradients(weights, split ? &mine.deferred : nullptr);
    nn::Pass p = pass(work, stream, action.microbatch, mine, gradients);
    chunk.stage->backward(p, dy_TD, chunk.first ? TensorView() : mine.input,
                          mine.forward->views);
  });
}

// What backward put off. A recorded backward has put it off once, when it was recorded:
// so was this, then.
void Executor::weights(const schedule::Action& action, const Work& work, Stream& stream) {
  Live& mine = live(to_size(action.chunk), action.microbatch);
  compute(action, work, stream, [&](WeightAccess& weights) {
    require(mine.defers, "weight gradients whose backward was launched as a graph");
    mine.defers = false;
    mine.deferred.run(stream, weights);
  });
}

}  // namespace trireme::engine
