// StoreContext: what all parts of a ParameterStore work with.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "base/device_memory.hpp"
#include "base/memory.hpp"
#include "base/work_meter.hpp"
#include "comm/mesh.hpp"
#include "optim/flat_layout.hpp"
#include "optim/store_config.hpp"

namespace trireme::optim {

// What plans that keep time call copies between a device and its host's memory, and
// updates that the host makes: messages that the rank waits for.
inline constexpr std::string_view host_copies = "host copies",
                                  host_updates = "host updates";

// A plan's clock moves on by such a message. tensor: any one that takes part.
inline void meter_host(std::string_view what, const TensorView& tensor, double bytes) {
  if (!tensor.device().is_meta()) return;
  if (WorkMeter* meter = work_meter())
    meter->wait_for(meter->message({.group = what, .to_one = true, .bytes = bytes}));
}

// Bytes that crossed between the device and the host's memory for offloading, and
// between that and a disk.
struct OffloadTraffic {
  std::int64_t to_host = 0, to_device = 0;
  std::int64_t to_disk = 0, from_disk = 0;
};

// A box of a tensor in the store, for checkpoints and dumps.
struct StateBox {
  const NamedBox* named = nullptr;
  // "model", "optimizer/moment1", "optimizer/moment2", "optimizer/outer_momentum",
  // "gradient"; codes and numbers of FP8 and fp16 with their scales, [1] each:
  // "optimizer/moment1_scale", ...
  std::string_view section;
  Shape global_begin;  // of the box in the tensor; its extent is data.shape()
  TensorView data;     // dense
  bool write = false;  // this rank writes it: owned, and dealt out over the replicas
  // Where `data` is the memory of a file: reads elements, from that number on, from the
  // file into memory on the host, and names what goes wrong.
  using Fill = std::function<void(std::int64_t, const TensorView&)>;
  Fill fill{};
};

struct StoreContext {
  StoreConfig config;
  comm::Mesh& mesh;
  FlatLayout layout;
  Stream stream;
  OffloadTraffic traffic{};

  // Between the device and the host's memory, for what is on its way: both block, because
  // the memory on the host is used again. (Gathered weights come by streams of their
  // own.)
  void to_host(const TensorView& from, const TensorView& to) {
    move(from, to, traffic.to_host);
  }
  void to_device(const TensorView& from, const TensorView& to) {
    move(from, to, traffic.to_device);
  }

 private:
  void move(const TensorView& from, const TensorView& to, std::int64_t& counter) {
    copy_bytes(stream, from, to);
    meter_host(host_copies, from, static_cast<double>(to.bytes()));
    stream.synchronize();
    counter += static_cast<std::int64_t>(to.bytes());
  }
};

// This rank's shard of a flat parameter: in memory that holds shards one after the other,
// and in memory that holds them unsharded.
inline TensorView shard_in(const Buffer& shards, const FlatParameter& flat) {
  return shards.view().rows(flat.shard_begin, flat.shard_elements());
}
inline TensorView shard_of_unsharded(const Buffer& unsharded, const FlatParameter& flat) {
  return unsharded.view().rows(flat.unsharded_begin + flat.shard().begin,
                               flat.shard_elements());
}
inline TensorView unsharded_in(const Buffer& unsharded, const FlatParameter& flat) {
  return unsharded.view().rows(flat.unsharded_begin, flat.elements);
}

// Memory of `elements` numbers on the device; what is offloaded from a GPU lies where
// copies reach it directly.
inline Buffer flat_buffer(Device device, DType type, std::int64_t elements,
                          MemoryClass use, std::string_view label) {
  return use == MemoryClass::offloaded && device.is_cuda()
             ? Buffer::pinned(type, {elements}, use, label)
             : Buffer(device, type, {elements}, use, label);
}

// Adds the boxes of all tensors in this rank's shard of a flat parameter, whose memory is
// `shard`. `owned` counts the owned boxes of a section: writing them is dealt out over
// the ranks that hold the same shard.
void append_boxes(std::string_view section, const FlatParameter& flat,
                  const TensorView& shard, std::int64_t& owned,
                  std::vector<StateBox>& boxes);
// The same where a tensor's elements [range) of the flat parameter lie anywhere.
using DataOf = std::function<TensorView(const NamedBox& named, Range elements)>;
void append_boxes(std::string_view section, const FlatParameter& flat,
                  const DataOf& data_of, std::int64_t& owned,
                  std::vector<StateBox>& boxes);

// A bucket's place in memory for unsharded buckets: of gathered weights, or of gradients
// that modules add to.
struct BucketBuffer {
  std::int64_t begin = 0, capacity = 0;  // elements
  int bucket = -1;
  int users = 0;
  std::int64_t last_use = 0;
  bool finished = true;  // nothing is in flight
  std::vector<comm::Handle> handles;
};

// Buffers of these sizes one behind another; how many elements they have together.
inline std::int64_t make_buffers(std::span<const std::int64_t> capacities,
                                 std::vector<BucketBuffer>& buffers) {
  std::int64_t end = 0;
  for (const std::int64_t capacity : capacities) {
    BucketBuffer& buffer = buffers.emplace_back();
    buffer.begin = end;
    buffer.capacity = capacity;
    end += capacity;
  }
  return end;
}

// The part of `memory` that belongs to a buffer.
inline TensorView memory_of(const BucketBuffer& buffer, const Buffer& memory) {
  return memory.view().rows(buffer.begin, buffer.capacity);
}

}  // namespace trireme::optim
