// StateMemory: master weights and moments on the device, the host or a disk.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/memory.hpp"
#include "optim/disk_windows.hpp"
#include "optim/store_context.hpp"
#include "optim/update_rules.hpp"

namespace trireme::optim {

// What is kept of each element; weight: the weights in use, where they lie on a disk.
enum class Kept : std::uint8_t { master, moment1, moment2, weight };
inline constexpr std::array kept_states = {Kept::moment1, Kept::moment2};

// Shards of flat parameters lie one after the other. Those from some flat parameter on
// are offloaded, so many as StoreConfig::offload_fraction asks for: whole ones, since a
// shard in two places would be two of everything. The weights of these lie on the disk
// beside their state with Offload::disk_weights, and are GatheredWeights' else.
class StateMemory {
 public:
  StateMemory(StoreContext& context, Device device);

  bool has(Kept kept) const { return part(kept).exists; }
  // Else the weights in use are the master weights.
  bool has_master(const FlatParameter& flat) const;
  // Whether the flat parameter's state lies elsewhere than on the device.
  bool offloads(const FlatParameter& flat) const {
    return context_.config.offloads() && flat.shard_begin >= cut_;
  }
  // Whether its weights lie on the disk, and elements of the shards of all the others.
  bool has_weights(const FlatParameter& flat) const {
    return part(Kept::weight).exists && flat.shard_begin >= cut_;
  }
  std::int64_t other_weights() const {
    const std::int64_t all = context_.layout.shard_elements;
    return part(Kept::weight).exists ? std::min(cut_, all) : all;
  }

  // State of this rank's shard of a flat parameter, outside of a pass: on a disk it is
  // memory that is mapped.
  TensorView shard(Kept kept, const FlatParameter& flat) const;
  // Where boxes lie on a disk, they are also read from its file.
  void add_readers(std::vector<StateBox>& boxes) const;

  // A pass over state goes upwards, over the shards of one flat parameter or of all that
  // are trained. Within it rows() gives elements of a flat parameter's shard, so many at
  // once as elements_per_window() says; without a disk that is all, and a pass is
  // nothing.
  using Pass = DiskWindows::Pass;
  void start(Pass pass, const FlatParameter* flat = nullptr);
  std::int64_t elements_per_window(const FlatParameter& flat, std::int64_t begin,
                                   std::int64_t count) const;
  TensorView rows(Kept kept, const FlatParameter& flat, std::int64_t begin,
                  std::int64_t count) const;
  void finish();
  // What was written to shard() takes no memory any more, where that is on a disk. The
  // other does so once it is `written` elements of many, which are counted anew then.
  void flush_mapping();
  void flush_mapping_if_many(std::int64_t& written);
  // Where it is on a disk: the blocks of its file, which DiskWindows::read() reads.
  DiskWindows::Blocks blocks_of(Kept kept, const FlatParameter& flat) const {
    return disk_->blocks_of(static_cast<std::size_t>(kept), flat.shard_begin - cut_,
                            flat.shard_elements());
  }
  const DiskWindows* disk() const { return disk_.get(); }

  // Without weights: all, those on the device, those on the disk.
  std::size_t bytes() const;
  std::size_t resident_bytes() const;
  std::size_t disk_bytes() const;
  // Weights on the disk.
  std::size_t weight_bytes() const { return disk_ ? away_bytes(part(Kept::weight)) : 0; }
  std::size_t file_bytes() const { return disk_ ? disk_->file_bytes() : 0; }
  // Windows on what is on a disk, in memory of the host.
  std::size_t window_bytes() const { return disk_ ? disk_->memory_bytes() : 0; }

 private:
  struct Part {
    bool exists = false;
    DType type = DType::f32;
    std::int64_t home_elements = 0, away_elements = 0;
    Buffer home, away;  // away: on the host
  };

  const Part& part(Kept kept) const { return parts_[static_cast<std::size_t>(kept)]; }
  static std::size_t away_bytes(const Part& part) {
    return static_cast<std::size_t>(part.away_elements) * size_of(part.type);
  }
  void choose(Kept kept, TensorClass what, std::int64_t elements, bool home = true);
  void choose_state();
  void allocate(Device device);

  StoreContext& context_;
  std::int64_t cut_ = 0;  // elements of shards before it are at home
  std::array<Part, 4> parts_;
  std::unique_ptr<DiskWindows> disk_;
};

}  // namespace trireme::optim
