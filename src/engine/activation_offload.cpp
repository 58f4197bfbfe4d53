// Activations between their places on the device and the host's memory.
// SPDX-License-Identifier: Apache-2.0
#include "engine/activation_offload.hpp"

#include <algorithm>
#include <numeric>

#include "base/device_memory.hpp"
#include "optim/plan_flight.hpp"
#include "optim/store_context.hpp"

namespace trireme::engine {

using optim::fly, optim::wait_in_plan;
std::size_t OffloadDemand::device_bytes() const {
  return std::accumulate(kept.begin(), kept.end(), std::size_t{0}) +
         std::accumulate(inputs.begin(), inputs.end(), std::size_t{0});
}

ActivationOffload::Place ActivationOffload::make_place(Device device, std::size_t bytes,
                                                       std::string_view label) {
  return {.memory = Arena(device, bytes, MemoryClass::activations, label),
          .left = Event(device),
          .arrived = Event(device)};
}

ActivationOffload::ActivationOffload(Device device, const OffloadDemand& demand)
    : device_(device), out_(device), in_(device), reached_(device) {
  for (const std::size_t bytes : demand.kept)
    kept_.push_back(make_place(device, bytes, "activations of a block"));
  for (const std::size_t bytes : demand.inputs)
    inputs_.push_back(make_place(device, bytes, "input of a block"));
}

OffloadDemand ActivationOffload::reached() const {
  OffloadDemand demand;
  for (std::size_t i = 0; i < kept_.size(); ++i)
    demand.kept[i] = kept_[i].memory.peak_bytes();
  for (std::size_t i = 0; i < inputs_.size(); ++i)
    demand.inputs[i] = inputs_[i].memory.peak_bytes();
  return demand;
}

void ActivationOffload::let_leave(Stream& stream, const Place& place) {
  if (place.leaves) place.left.hold(stream);
}

void ActivationOffload::rest(Stream& stream) {
  for (std::vector<Place>* const places : {&kept_, &inputs_})
    for (Place& place : *places) {
      let_leave(stream, place);
      if (place.arrives) place.arrived.hold(stream);
      for (const MessageFlight& flight : {place.leaving, place.arriving})
        wait_in_plan(stream.device(), flight);
      place.leaves = place.arrives = false;
      place.owner = nullptr;
    }
}

void ActivationOffload::count(const ActivationTraffic& moved) {
  traffic_.to_host += moved.to_host;
  traffic_.to_device += moved.to_device;
}

void ActivationOffload::claim(Stream& stream, Place& place, const OffloadedBlocks& owner,
                              std::size_t block) {
  let_leave(stream, place);
  wait_in_plan(stream.device(), place.leaving);
  place.memory.reset();
  place.start = place.memory.take(DType::u8, {0}, "start");
  place.owner = &owner;
  place.block = block;
}

OffloadedBlocks::OffloadedBlocks(ActivationOffload& shared, std::size_t moved,
                                 std::size_t bytes)
    : shared_(shared),
      blocks_(moved),
      memory_(optim::flat_buffer(shared.device_, DType::u8,
                                 static_cast<std::int64_t>(bytes), MemoryClass::offloaded,
                                 "activations")),
      capacity_(bytes) {}

void OffloadedBlocks::begin(bool trains) {
  trains_ = trains;
  if (!trains) return;  // graphs of training that were recorded still hold
  top_ = 0;
  std::fill(blocks_.begin(), blocks_.end(), OnHost{});
}

TensorView OffloadedBlocks::on_host(std::size_t begin, std::size_t bytes) const {
  const TensorView all = memory_.view();
  if (all.device().is_meta())
    return {nullptr, DType::u8, {static_cast<std::int64_t>(bytes)}, all.device()};
  return all.rows(static_cast<std::int64_t>(begin), static_cast<std::int64_t>(bytes));
}

TensorView OffloadedBlocks::in_place(const Place& place, std::size_t bytes) const {
  return {place.start.raw(),
          DType::u8,
          {static_cast<std::int64_t>(bytes)},
          place.start.device()};
}

std::size_t OffloadedBlocks::take(std::size_t bytes) {
  const std::size_t begin = top_;
  top_ += bytes;
  peak_ = std::max(peak_, top_);
  require(shared_.device_.is_meta() || top_ <= capacity_,
          "a microbatch's activations need {} bytes on the host, for {} were planned",
          top_, capacity_);
  return begin;
}

TensorView OffloadedBlocks::input(Stream& stream, std::size_t block, DType dtype,
                                  const Shape& shape) {
  Place& place = shared_.input(block);
  ActivationOffload::claim(stream, place, *this, block);
  const TensorView x_TD = place.memory.take(dtype, shape, "stage.x");
  if (trains_) blocks_[block].input_bytes = place.memory.mark();
  return x_TD;
}

Arena& OffloadedBlocks::open(Stream& stream, std::size_t block) {
  Place& place = shared_.kept(block);
  ActivationOffload::claim(stream, place, *this, block);
  return place.memory;
}

// One event for both copies: the queue keeps their order.
void OffloadedBlocks::offload(Stream& stream, std::size_t block) {
  if (!trains_) return;
  OnHost& copy = blocks_[block];
  Place& place = shared_.kept(block);
  copy.kept_bytes = place.memory.mark();
  copy.kept_begin = take(copy.kept_bytes);
  copy.input_begin = take(copy.input_bytes);
  shared_.reached_.record(stream);
  shared_.reached_.hold(shared_.out_.stream());
  copy_out(place, copy.kept_begin, copy.kept_bytes);
  copy_out(shared_.input(block), copy.input_begin, copy.input_bytes);
}

void OffloadedBlocks::copy_out(Place& place, std::size_t begin, std::size_t bytes) {
  if (bytes == 0) return;
  Stream& out = shared_.out_.stream();
  copy_bytes_later(out, in_place(place, bytes), on_host(begin, bytes));
  place.left.record(out);
  place.leaves = true;
  place.leaving = fly(shared_.device_, activations_out, bytes);
  shared_.traffic_.to_host += static_cast<std::int64_t>(bytes);
}

void OffloadedBlocks::prefetch_last(Stream& stream) {
  const std::size_t all = blocks_.size();
  for (std::size_t i = all; i > 0 && i + 2 > all; --i) prefetch(stream, i - 1);
}

void OffloadedBlocks::reload(Stream& stream, std::size_t block) {
  prefetch(stream, block);
  for (Place* const place : {&shared_.kept(block), &shared_.input(block)}) {
    if (place->arrives) place->arrived.hold(stream);
    wait_in_plan(shared_.device_, place->arriving);
  }
  if (block > 0) prefetch(stream, block - 1);
}

void OffloadedBlocks::prefetch(Stream& stream, std::size_t block) {
  const OnHost& copy = blocks_[block];
  copy_in(stream, shared_.kept(block), block, copy.kept_begin, copy.kept_bytes);
  copy_in(stream, shared_.input(block), block, copy.input_begin, copy.input_bytes);
}

// The place may still be read by the block that was there, and by a copy to the host:
// after that copy those before it have come to the host too, this block's among them.
void OffloadedBlocks::copy_in(Stream& stream, Place& place, std::size_t block,
                              std::size_t begin, std::size_t bytes) {
  if (bytes == 0 || (place.owner == this && place.block == block)) return;
  Stream& in = shared_.in_.stream();
  shared_.reached_.record(stream);
  shared_.reached_.hold(in);
  ActivationOffload::let_leave(in, place);
  copy_bytes(in, on_host(begin, bytes), in_place(place, bytes));
  place.arrived.record(in);
  place.arrives = true;
  place.arriving = fly(shared_.device_, activations_in, bytes);
  place.owner = this;
  place.block = block;
  shared_.traffic_.to_device += static_cast<std::int64_t>(bytes);
}

}  // namespace trireme::engine
