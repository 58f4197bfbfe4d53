// ActivationOffload: activations that wait for their backward in the host's memory.
// SPDX-License-Identifier: Apache-2.0
//
// On the device there are two places for what a block keeps, and three for blocks'
// inputs: a block writes the next one's input while those of itself and of the block
// before are still needed. All microbatches of a rank take turns in them. Block i has
// place i mod 2, and its input place i mod 3, in forward and in backward.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/event.hpp"
#include "base/memory.hpp"
#include "base/work_meter.hpp"
#include "model/activation_storage.hpp"

namespace trireme::engine {

// Most bytes of each place, and that one microbatch has on the host, for each chunk.
struct OffloadDemand {
  std::array<std::size_t, 2> kept{};
  std::array<std::size_t, 3> inputs{};
  std::vector<std::size_t> host;

  std::size_t device_bytes() const;
};

// Bytes that activations moved since the start.
struct ActivationTraffic {
  std::int64_t to_host = 0, to_device = 0;
  ActivationTraffic operator-(const ActivationTraffic& other) const {
    return {to_host - other.to_host, to_device - other.to_device};
  }
};

// What plans that keep time call the copies: a queue for each direction.
inline constexpr std::string_view activations_out = "activations to the host",
                                  activations_in = "activations to the device";

class OffloadedBlocks;

// The places on the device, and the queues of the copies between them and the host.
class ActivationOffload {
 public:
  // On meta nothing but what it would take.
  ActivationOffload(Device device, const OffloadDemand& demand);

  // What was reached, without what microbatches have on the host.
  OffloadDemand reached() const;
  const ActivationTraffic& traffic() const { return traffic_; }

  // The stream waits for all copies, and what is in the places is forgotten: what comes
  // next depends on nothing that was before, and may be recorded.
  void rest(Stream& stream);
  // A launched graph has moved as much.
  void count(const ActivationTraffic& moved);

 private:
  friend class OffloadedBlocks;
  struct Place {
    Arena memory;
    const OffloadedBlocks* owner = nullptr;  // whose activations are there,
    std::size_t block = 0;                   // and of which block
    TensorView start{};                      // u8 [0]
    Event left, arrived;                     // behind the last copy to or from the host
    bool leaves = false, arrives = false;    // such a copy was queued since the last rest
    MessageFlight leaving{}, arriving{};     // the same in a plan that keeps time
  };

  static Place make_place(Device device, std::size_t bytes, std::string_view label);
  Place& kept(std::size_t block) { return kept_[block % kept_.size()]; }
  Place& input(std::size_t block) { return inputs_[block % inputs_.size()]; }
  // What the stream has from here on runs behind the place's last copy to the host.
  static void let_leave(Stream& stream, const Place& place);
  // A place is written anew by work that the stream has from here on.
  static void claim(Stream& stream, Place& place, const OffloadedBlocks& owner,
                    std::size_t block);

  Device device_;
  std::vector<Place> kept_, inputs_;
  SideStream out_, in_;
  Event reached_;  // where the computation was when a copy was queued
  ActivationTraffic traffic_;
};

// What the blocks of one microbatch of a chunk keep. Between two calls of begin() the
// blocks go forward and backward once.
class OffloadedBlocks final : public model::ActivationStorage {
 public:
  // `moved` blocks; `bytes` of the host's memory. `shared` outlives this.
  OffloadedBlocks(ActivationOffload& shared, std::size_t moved, std::size_t bytes);

  // Another microbatch. Without training nothing is copied, since nothing comes back.
  void begin(bool trains);
  // Backward comes soon: the last blocks' activations begin to come back.
  void prefetch_last(Stream& stream);

  std::size_t moved() const override { return blocks_.size(); }
  TensorView input(Stream& stream, std::size_t block, DType dtype,
                   const Shape& shape) override;
  Arena& open(Stream& stream, std::size_t block) override;
  void offload(Stream& stream, std::size_t block) override;
  void reload(Stream& stream, std::size_t block) override;

  std::size_t peak_bytes() const { return peak_; }

 private:
  using Place = ActivationOffload::Place;
  // A block's activations on the host: what it keeps, and behind that its input.
  struct OnHost {
    std::size_t kept_begin = 0, kept_bytes = 0, input_begin = 0, input_bytes = 0;
  };

  TensorView on_host(std::size_t begin, std::size_t bytes) const;
  TensorView in_place(const Place& place, std::size_t bytes) const;
  std::size_t take(std::size_t bytes);
  void copy_out(Place& place, std::size_t begin, std::size_t bytes);
  void copy_in(Stream& stream, Place& place, std::size_t block, std::size_t begin,
               std::size_t bytes);
  void prefetch(Stream& stream, std::size_t block);

  ActivationOffload& shared_;
  std::vector<OnHost> blocks_;
  Buffer memory_;  // u8, on the host
  std::size_t top_ = 0, peak_ = 0, capacity_;
  bool trains_ = false;
};

}  // namespace trireme::engine
