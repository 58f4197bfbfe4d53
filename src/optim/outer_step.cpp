// OuterStep: the mean over copies, and the step along what it moved.
// SPDX-License-Identifier: Apache-2.0
#include "optim/outer_step.hpp"

#include "base/device_memory.hpp"
#include "kernels/elementwise.hpp"

namespace trireme::optim {

OuterStep::OuterStep(StoreContext& context, StateMemory& memory, OptimizerState& state,
                     Device device)
    : context_(context), memory_(memory), state_(state) {
  const StoreConfig& config = context.config;
  if (!config.training || !config.outer.on()) return;
  require(!config.offloads() && !config.low_precision_state(), Status::bad_content,
          "copies that take steps by themselves need their state on the device, in {}",
          name_of(config.accumulator()));
  const auto make = [&](std::string_view label) {
    Buffer buffer(device, config.accumulator(), {context.layout.trained_shard_elements},
                  MemoryClass::optimizer, label);
    clear(context.stream, buffer.view());
    return buffer;
  };
  if (config.outer.has_anchor()) anchor_ = make("weights at the beginning of a round");
  if (config.outer.has_momentum()) velocity_ = make("momentum of the outer step");
}

void OuterStep::begin_round() {
  if (anchor_.bytes() == 0) return;
  for (const FlatParameter& flat : context_.layout.flats)
    if (!flat.frozen)
      kernels::copy(context_.stream, state_.master_shard(flat), shard_in(anchor_, flat));
}

void OuterStep::run() {
  for (const FlatParameter& flat : context_.layout.flats) {
    if (flat.frozen) continue;
    const TensorView master = state_.master_shard(flat);
    average(flat, master);
    if (context_.config.outer.has_anchor()) move(flat, master);
    for (const Kept moment : kept_states) {
      // A rule for matrices keeps the first state of them alone.
      if (!memory_.has(moment) || (flat.matrices && moment != Kept::moment1)) continue;
      average(flat, memory_.shard(moment, flat));
    }
  }
}

void OuterStep::average(const FlatParameter& flat, const TensorView& shard) {
  comm::Group& copies = *flat.replicate_group;
  copies.all_reduce(context_.stream, shard).wait();
  kernels::scale(context_.stream, shard, 1.0 / copies.size());
}

// 1. d = w - w0, where w0 was; 2. v = b v + d; 3. w' = w + (a - 1) d + a b v, which is
// the header's w0 + a (d + b v).
void OuterStep::move(const FlatParameter& flat, const TensorView& mean) {
  const OuterConfig& outer = context_.config.outer;
  Stream& stream = context_.stream;
  const TensorView d = shard_in(anchor_, flat);
  // 1.
  kernels::scale(stream, d, -1);
  kernels::accumulate(stream, mean, d);
  // 2.
  if (outer.has_momentum()) {
    kernels::scale(stream, shard_in(velocity_, flat), outer.momentum);
    kernels::accumulate(stream, d, shard_in(velocity_, flat));
  }
  // 3.
  kernels::scale(stream, d, outer.learning_rate - 1);
  kernels::accumulate(stream, d, mean);
  if (!outer.has_momentum()) return;
  kernels::copy(stream, shard_in(velocity_, flat), d);
  kernels::scale(stream, d, outer.learning_rate * outer.momentum);
  kernels::accumulate(stream, d, mean);
}

void OuterStep::append_boxes(std::vector<StateBox>& boxes) const {
  if (!context_.config.outer.has_momentum()) return;
  std::int64_t owned = 0;
  for (const FlatParameter& flat : context_.layout.flats)
    if (!flat.frozen)
      optim::append_boxes("optimizer/outer_momentum", flat, shard_in(velocity_, flat),
                          owned, boxes);
}

}  // namespace trireme::optim
