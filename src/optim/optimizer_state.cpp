// OptimizerState: its memory, and the step in one sweep over it.
// SPDX-License-Identifier: Apache-2.0
#include "optim/optimizer_state.hpp"

#include <algorithm>

#include "kernels/elementwise.hpp"
#include "optim/learning_rate.hpp"

namespace trireme::optim {

OptimizerState::OptimizerState(StoreContext& context, NumberCodec& codec,
                               StateScales& scales, StateMemory& memory,
                               GatheredWeights& weights, Device device)
    : context_(context),
      codec_(codec),
      scales_(scales),
      memory_(memory),
      weights_(weights) {
  const StoreConfig& config = context.config;
  if (!config.training) return;
  allocate(device);
  if (config.rule->kind != UpdateKind::matrices) return;
  require(!config.offloads() && !config.low_precision_state(), Status::bad_content,
          "{} needs its state on the device, in {}", config.rule->name,
          name_of(config.accumulator()));
  matrices_ = MatrixUpdate(context.layout.flats, context.mesh, device,
                           config.accumulator(), config.module_type());
}

// What the state passes through.
void OptimizerState::allocate(Device device) {
  const StoreConfig& config = context_.config;
  if (config.dynamic_moments())
    dynamic_ = DynamicMoments(context_, device, config.has_moment2() ? 2 : 1);
  if (!config.offloads()) return;
  host_ = HostUpdates(context_, device);
  if (!config.low_precision_state()) return;
  const std::int64_t state = NumberCodec::stagings * codec_.chunk_elements() *
                             static_cast<std::int64_t>(size_of(config.accumulator()));
  staged_state_ =
      Buffer(device, DType::u8, {state}, MemoryClass::workspace, "offloaded state");
}

TensorView OptimizerState::master_shard(const FlatParameter& flat) const {
  return memory_.has_master(flat) ? memory_.shard(Kept::master, flat)
                                  : weights_.shard(flat);
}

void OptimizerState::refresh_weights() {
  weights_.forget();
  scales_.receive_moments();
  const bool coded = scales_.has(Scaled::weight);
  if (coded) encode_weights();
  std::int64_t written = 0;
  for (const FlatParameter& flat : context_.layout.flats) {
    if (memory_.has_master(flat) && !coded) round_weights(flat);
    memory_.flush_mapping_if_many(written += flat.shard_elements());
    weights_.all_gather(flat);
  }
  weights_.wait();
  memory_.flush_mapping();
}

// weights in use = master weights; through the host's staging memory where the two lie
// apart.
void OptimizerState::round_weights(const FlatParameter& flat) {
  const TensorView master = master_shard(flat), weights = weights_.shard(flat);
  Stream host(master.device());
  if (!memory_.offloads(flat) || offloads_weights(flat))
    return kernels::copy(host, master, weights);
  const std::int64_t most = host_.weights().elements();
  for (std::int64_t done = 0; done < master.elements(); done += most) {
    const std::int64_t count = std::min(most, master.elements() - done);
    const TensorView staged = host_.weights().rows(0, count);
    kernels::copy(host, master.rows(done, count), staged);
    context_.to_device(staged, weights.rows(done, count));
  }
}

TensorView OptimizerState::weight_rows(const FlatParameter& flat, std::int64_t begin,
                                       std::int64_t count) const {
  return memory_.has_weights(flat) ? memory_.rows(Kept::weight, flat, begin, count)
                                   : weights_.shard(flat).rows(begin, count);
}

std::vector<StateBox> OptimizerState::boxes() const {
  std::vector<StateBox> boxes;
  std::int64_t owned = 0;
  for (const FlatParameter& flat : context_.layout.flats)
    append_boxes("model", flat, master_shard(flat), owned, boxes);
  for (std::size_t s = 0; s < most_states; ++s) {
    if (!memory_.has(kept_states[s])) continue;
    owned = 0;
    for (const FlatParameter& flat : context_.layout.flats) {
      // A rule for matrices keeps the first state of them alone.
      if (flat.frozen || (flat.matrices && s > 0)) continue;
      const TensorView shard = memory_.shard(kept_states[s], flat);
      if (dynamic_.in_use()) {
        dynamic_.append_boxes(s, flat, shard, owned, boxes);
      } else {
        append_boxes(state_sections[s], flat, shard, owned, boxes);
      }
    }
    if (dynamic_.in_use()) dynamic_.append_scales(s, boxes);
  }
  scales_.append_boxes(Scaled::moment1, scale_sections[0], boxes);
  scales_.append_boxes(Scaled::moment2, scale_sections[1], boxes);
  memory_.add_readers(boxes);
  return boxes;
}

void OptimizerState::update(GradientSums& gradients, const OptimizerConfig& config,
                            const StepFactors& factors) {
  weights_.forget();
  const Step step{gradients, config, factors};
  require(factors.decision.empty() || context_.config.updates_by_device(),
          "a GPU was to decide about an update that its host takes part in");
  if (context_.config.low_precision_state()) return update_low_precision(step);
  update_matrices(step);
  update_state(step);
}

void OptimizerState::update_state(const Step& step) {
  const FlatLayout& layout = context_.layout;
  // One sweep for all, but where weights are gathered: those of a flat parameter leave
  // while the next one is updated.
  const bool gathers = context_.config.sharding != Sharding::none;
  Sweep sweep;
  const FlatParameter* last = nullptr;  // whose last elements the host may still update
  memory_.start(StateMemory::Pass::updates);
  for (const FlatParameter& flat : layout.flats) {
    if (flat.frozen) continue;
    bool added = false;
    for_each_view(flat, [&](const ParameterView& view, Range range, std::int64_t at) {
      if (flat.matrices) return;
      if (!memory_.offloads(flat))
        return add_elements(step, {flat, *view.param, at, range.count()}, sweep);
      for (std::int64_t done = 0, count = 0; done < range.count(); done += count) {
        count = memory_.elements_per_window(flat, at + done,
                                            std::min(host_.most(), range.count() - done));
        update_offloaded(step, {flat, *view.param, at + done, count});
        added = true;
      }
    });
    if (!gathers) continue;
    run(step, sweep);
    if (!memory_.offloads(flat)) {
      weights_.all_gather(flat);
      continue;
    }
    if (last != nullptr) {
      if (!added) host_.finish();
      weights_.all_gather(*last);
    }
    last = &flat;
  }
  run(step, sweep);
  host_.finish();
  if (last != nullptr) weights_.all_gather(*last);
  memory_.finish();
}

void OptimizerState::update_matrices(const Step& step) {
  matrices_.update(
      context_.stream, step.config, step.factors,
      [&](const FlatParameter& flat, std::int64_t begin, std::int64_t count) -> BoxState {
        return {master_shard(flat).rows(begin, count),
                step.gradients.shard(flat).rows(begin, count),
                memory_.shard(Kept::moment1, flat).rows(begin, count),
                memory_.has_master(flat) ? weights_.shard(flat).rows(begin, count)
                                         : TensorView()};
      });
}

kernels::Update OptimizerState::rule_of(const Step& step, const Param& param) {
  const OptimizerConfig& config = step.config;
  return {
      .formula = config.rule().formula,
      .learning_rate = rate_of(param, step.factors.learning_rate, step.factors.schedule),
      .beta1 = config.beta1,
      .beta2 = config.beta2,
      .eps = config.eps,
      .weight_decay = decay_of(config, param),
      .step = step.factors.update,
      .gradient_scale = step.factors.gradient_scale};
}

void OptimizerState::apply_rule(const Step& step, const Param& param,
                                const TensorView& master, const TensorView& gradient,
                                const kernels::UpdateStates& states,
                                const TensorView& weight) {
  Stream stream(master.device());  // the host's, where the state is offloaded
  kernels::update(stream, rule_of(step, param), master, gradient, states, weight);
}

void OptimizerState::add_elements(const Step& step, const Elements& elements,
                                  Sweep& sweep) const {
  const FlatParameter& flat = elements.flat;
  sweep.updates.push_back(rule_of(step, elements.param));
  sweep.tensors.push_back(
      {elements.of(master_shard(flat)),
       elements.of(step.gradients.shard(flat)),
       {state_of(Kept::moment1, elements), state_of(Kept::moment2, elements)},
       memory_.has_master(flat) ? elements.of(weights_.shard(flat)) : TensorView()});
}

TensorView OptimizerState::state_of(Kept kept, const Elements& elements) const {
  const auto& [flat, param, begin, count] = elements;
  return memory_.has(kept) ? memory_.rows(kept, flat, begin, count) : TensorView();
}

void OptimizerState::run(const Step& step, Sweep& sweep) {
  kernels::update_all(context_.stream, sweep.updates, sweep.tensors,
                      step.factors.decision);
  sweep = {};
}

// The gradient comes to the host, the new weight goes back; the state stays there, or
// passes through windows on the disk.
void OptimizerState::update_offloaded(const Step& step, const Elements& elements) {
  host_.add(elements.of(step.gradients.shard(elements.flat)),
            [this, step, elements](const TensorView& gradient, const TensorView& staged) {
              return update_on_host(step, elements, gradient, staged);
            });
}

TensorView OptimizerState::update_on_host(const Step& step, const Elements& elements,
                                          const TensorView& gradient,
                                          const TensorView& staged) {
  const auto& [flat, param, begin, count] = elements;
  const bool own_master = memory_.has_master(flat);
  const TensorView kept = weight_rows(flat, begin, count);
  const TensorView weight = own_master ? kept : TensorView();
  const bool stays = !own_master || offloads_weights(flat);
  const TensorView host_weight = stays ? weight : staged;
  const TensorView master = own_master ? state_of(Kept::master, elements) : kept;
  const kernels::UpdateStates states{state_of(Kept::moment1, elements),
                                     state_of(Kept::moment2, elements)};
  apply_rule(step, param, master, gradient, states, host_weight);
  const std::size_t written =
      master.bytes() + states[0].bytes() + states[1].bytes() + host_weight.bytes();
  meter_host(host_updates, master, static_cast<double>(2 * written + gradient.bytes()));
  return stays ? TensorView() : weight;
}

}  // namespace trireme::optim
