// TokenBuffers: where the kernels of a GPU read token ids, and how they come there.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "base/event.hpp"
#include "base/memory.hpp"

namespace trireme::engine {

// Of each slot, which holds what one live microbatch has, the inputs and the targets. Ids
// pass through pinned memory: a copy from pageable memory may wait for the whole stream.
class TokenBuffers {
 public:
  // Nothing: ids are read where they are.
  TokenBuffers() = default;
  // Of `tokens` ids each; on meta it counts.
  TokenBuffers(Device device, std::int64_t slots, std::int64_t tokens);

  // ids_T (i32 [T], on the host, which may be overwritten when this returns) on the
  // device, as soon as the stream has come this far: until the next call for the slot.
  TensorView fetch(Stream& stream, const TensorView& ids_T, std::int64_t slot,
                   bool targets);

  std::size_t device_bytes() const { return ids_.bytes(); }
  std::size_t pinned_bytes() const { return pinned_.bytes(); }

 private:
  Buffer ids_, pinned_;         // i32 [2 slots, T]: inputs and targets in turn
  std::vector<Event> fetched_;  // of each row: its copy to the device
};

}  // namespace trireme::engine
