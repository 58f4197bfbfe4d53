// HostUpdates: two places, two streams, and the order between them.
// SPDX-License-Identifier: Apache-2.0
#include "optim/host_updates.hpp"

#include <algorithm>
#include <utility>

#include "optim/number_codec.hpp"
#include "optim/plan_flight.hpp"

namespace trireme::optim {
HostUpdates::HostUpdates(StoreContext& context, Device device) : context_(&context) {
  const StoreConfig& config = context.config;
  const std::int64_t elements = std::min(
      most_staged, std::max<std::int64_t>(context.layout.trained_shard_elements, 1));
  most_ = divide_up(elements, 2 * alignment_elements) * alignment_elements;
  if (config.offload != Offload::disk_weights)
    weights_ = flat_buffer(device, config.type(TensorClass::weight), 2 * most_,
                           MemoryClass::offloaded, "staged weights");
  if (config.low_precision_state()) return;
  gradients_ = flat_buffer(device, config.type(TensorClass::gradient_sum), 2 * most_,
                           MemoryClass::offloaded, "staged gradients");
  incoming_ = std::make_unique<SideStream>(device);
  complete_ = Event(device);
  for (Place& place : places_) {
    place.arrived = Event(device);
    place.left = Event(device);
  }
}

TensorView HostUpdates::part_of(const Buffer& memory, std::size_t place,
                                std::int64_t count) const {
  return memory.view().empty()
             ? TensorView()
             : memory.view().rows(static_cast<std::int64_t>(place) * most_, count);
}

void HostUpdates::add(const TensorView& gradient_N, Update update) {
  Stream& incoming = incoming_->stream();
  if (!pending_) {
    complete_.record(context_->stream);
    complete_.hold(incoming);
  }
  Place& place = places_[next_];
  place.gradient_N = part_of(gradients_, next_, gradient_N.elements());
  place.update = std::move(update);
  copy_bytes_later(incoming, gradient_N, place.gradient_N);
  place.arrived.record(incoming);
  place.coming = fly(gradient_N.device(), host_copies, gradient_N.bytes());
  context_->traffic.to_host += static_cast<std::int64_t>(gradient_N.bytes());
  if (pending_) make(1 - next_);
  pending_ = true;
  next_ = 1 - next_;
}

void HostUpdates::make(std::size_t at) {
  Place& place = places_[at];
  const Device device = context_->stream.device();
  place.arrived.synchronize();
  place.left.synchronize();  // what this place sent before
  wait_in_plan(device, place.coming);
  wait_in_plan(device, std::exchange(place.going, {}));
  const TensorView weight_N = part_of(weights_, at, place.gradient_N.elements());
  const TensorView to_N = place.update(place.gradient_N, weight_N);
  if (to_N.empty()) return;
  copy_bytes_later(context_->stream, weight_N, to_N);
  place.left.record(context_->stream);
  place.going = fly(to_N.device(), host_copies, to_N.bytes());
  context_->traffic.to_device += static_cast<std::int64_t>(to_N.bytes());
}

void HostUpdates::finish() {
  if (!pending_) return;
  make(1 - next_);
  pending_ = false;
  for (Place& place : places_)
    wait_in_plan(context_->stream.device(), std::exchange(place.going, {}));
}

}  // namespace trireme::optim
