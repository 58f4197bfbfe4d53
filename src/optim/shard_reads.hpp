// ShardReads: weights' shards on a disk, read in the background before they are gathered.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <future>
#include <vector>

#include "base/event.hpp"
#include "base/memory.hpp"
#include "optim/state_memory.hpp"
#include "optim/store_context.hpp"

namespace trireme::optim {

// A place holds this rank's shards of one bucket: each is filled by a thread of its own,
// so that the disk works under what the rank computes.
class ShardReads {
 public:
  // memory: has weights on a disk, and outlives this. On meta nothing but what the places
  // would take.
  ShardReads(StoreContext& context, StateMemory& memory, Device device, int places);

  // Begins to read these buckets, so many of the first as there are free places.
  void read_ahead(std::vector<int> buckets);
  // This rank's shard of a flat parameter of a bucket, once it is read; valid until
  // release(), and longer for copies that are queued then. Throws Error(io) as
  // ScratchFile does.
  TensorView shard(int bucket, const FlatParameter& flat);
  // The bucket's place is free once `stream` has come this far.
  void release(int bucket, const Stream& stream);
  // What was read is out of date.
  void forget();

  int places() const { return static_cast<int>(places_.size()); }
  std::size_t bytes() const;

 private:
  struct Place {
    int bucket = -1;
    Event copied;  // to the device, of what was there
    Buffer memory;
    std::future<void> work;  // last: waited for before the rest goes
  };
  // Where a flat parameter's shard comes from, and where its blocks begin in a place.
  struct Read {
    std::size_t flat = 0;
    DiskWindows::Blocks blocks;
    std::int64_t at = 0;
  };

  const std::vector<Read>& reads_of(int bucket) const {
    return reads_[static_cast<std::size_t>(bucket)];
  }
  Place* place_of(int bucket);
  Place* place_without(const std::vector<int>& buckets);
  void start(Place& place, int bucket);

  StoreContext& context_;
  StateMemory& memory_;
  std::vector<std::vector<Read>> reads_;  // of each bucket
  std::vector<Place> places_;
};

}  // namespace trireme::optim
