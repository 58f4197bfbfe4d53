// The rates that a rank measures: of its device, and of messages with others.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/memory.hpp"
#include "comm/mesh.hpp"
#include "comm/world.hpp"
#include "launch/compute_device.hpp"
#include "selftest/memory_patterns.hpp"

namespace trireme::selftest {

// slowed: to see that a slow rank is found. Its device counts as a twentieth of what was
// measured: on a busy machine a rank that slept would have the cores to itself when it
// works. Of its messages each begins after 19 times as long as the last one took, so that
// partners wait as they would for a slow link. Ranks that are compared begin together.
class DeviceRates {
 public:
  DeviceRates(const launch::ComputeDevice& on, int ranks_on_node, bool quick)
      : on_(on), ranks_on_node_(ranks_on_node), quick_(quick) {}

  // FLOP/s of a large product: fp32 on a host; on a GPU bf16, where it has that.
  double products(double seconds, bool slowed) const;
  // Bytes a second: of a triad on a host, of copies on a GPU.
  double memory(double seconds, bool slowed) const;
  MemoryTest patterns(double seconds, bool spoiled) const;
  std::int64_t pattern_bytes() const;

 private:
  const launch::ComputeDevice& on_;
  int ranks_on_node_;
  bool quick_;
};

// Collective over the world, all of it.
class MessageRates {
 public:
  MessageRates(comm::World& world, const launch::ComputeDevice& on, bool quick);

  // Bytes a second, both ways together, of the best round: only who is slow with every
  // partner is slow himself. Hosts are paired, each rank with that of its place on the
  // other host; on one host the ranks are. Below 0: there was no partner.
  double pairs(double seconds, bool slowed);
  // Bytes a second through each rank's link (2 (P - 1) / P of the tensor), alike on all.
  double all_reduce(double seconds);

 private:
  int partner(int round) const;
  double round(int partner, double seconds, bool slowed);
  void exchange(int partner);

  comm::World& world_;
  comm::Mesh mesh_;
  comm::Group& group_;
  Stream stream_;
  Buffer sent_, received_, reduced_;
};

}  // namespace trireme::selftest
