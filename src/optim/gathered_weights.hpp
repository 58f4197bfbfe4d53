// GatheredWeights: the weights in use, whole or as shards that are gathered for a module.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/event.hpp"
#include "base/memory.hpp"
#include "base/weight_access.hpp"
#include "base/work_meter.hpp"
#include "optim/shard_reads.hpp"
#include "optim/state_memory.hpp"
#include "optim/state_scales.hpp"
#include "optim/store_context.hpp"

namespace trireme::optim {

// Binds the values of Params: for ever where weights are whole and of the modules' type,
// else from fetch() to release(). What is released stays until its memory is needed, so
// that backward finds what forward ended with.
class GatheredWeights {
 public:
  // memory: has the shards of weights that lie on a disk.
  GatheredWeights(StoreContext& context, StateScales& scales, StateMemory& memory,
                  Device device);

  // See WeightAccess.
  void fetch(int module, Direction direction);
  void release(int module);
  // What is gathered is out of date, after weights changed.
  void forget();
  // Gives up what is gathered, and waits for what is under way to the buffers.
  void drop();

  // This rank's shard of a flat parameter, as weights are kept: on a disk it is memory
  // that is mapped.
  TensorView shard(const FlatParameter& flat) const;
  // Starts to bring the shards of all ranks together where weights are kept whole; else
  // nothing. fetch() waits for those of its module, so that the first modules compute
  // while the weights of the last ones are on their way.
  void all_gather(const FlatParameter& flat);
  // For whoever reads weights but does not fetch them, or writes them: waits for all, and
  // the host for copies that still read shards in its memory.
  void wait();
  // Flat parameters that were not waited for since all_gather().
  int under_way() const;

  // Most buckets that were gathered at once so far.
  int peak_gathered() const { return peak_gathered_; }
  std::size_t bytes() const {
    return weights_.bytes() + gathered_.bytes() + wire_.bytes();
  }
  std::size_t bytes_at_rest() const { return weights_.bytes(); }
  // On the host, what shards are read into from a disk.
  std::size_t staging_bytes() const { return reads_ ? reads_->bytes() : 0; }

 private:
  // How shards come from the host's memory to a buffer, beside what the device computes.
  // Each buffer has a stream of its own: what waits for one does not wait for those that
  // are gathered ahead.
  struct Copies {
    SideStream stream;
    MessageFlight flight{};  // of the last one, on a plan's clock
  };

  void bind_whole();
  void allocate_buffers(Device device);
  void bind(int bucket, const TensorView& memory);
  BucketBuffer* buffer_of(int bucket);
  BucketBuffer* idle_buffer(std::int64_t before);
  void start_gather(BucketBuffer& buffer, int bucket);
  void wait(int bucket);
  void finish_gather(BucketBuffer& buffer);
  void convert(const FlatParameter& flat, const TensorView& kept, const TensorView& used);
  void fetch_ahead(int module, Direction direction, std::int64_t start);
  void read_ahead(int module, Direction direction);
  bool is_away(const FlatParameter& flat) const;
  Copies& copies_to(const BucketBuffer& buffer) {
    return copies_[static_cast<std::size_t>(&buffer - buffers_.data())];
  }
  comm::Handle gather(const BucketBuffer& buffer, const FlatParameter& flat,
                      const TensorView& unsharded);

  StoreContext& context_;
  StateScales& scales_;
  StateMemory& memory_;
  Buffer weights_;  // of all flat parameters that are not on a disk: unsharded, or shards
  Buffer gathered_;  // unsharded buckets in the modules' type
  Buffer wire_;      // the same as they are gathered, before they are converted
  std::vector<Copies> copies_;  // to each buffer, where weights are offloaded
  Event order_;                 // between these streams and the device's
  std::vector<BucketBuffer> buffers_;
  std::int64_t clock_ = 0;
  int peak_gathered_ = 0;
  std::vector<comm::Handle> arriving_;  // of each flat parameter, by all_gather()
  std::optional<ShardReads> reads_;     // where weights lie on a disk
};

}  // namespace trireme::optim
