// Which transport the GPUs of a job use, and who shares a GPU with whom.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/device.hpp"
#include "comm/world.hpp"

namespace trireme::comm {

// mpi: messages of the host; tensors on a GPU are copied to the host and back.
// nccl: from GPU to GPU.
enum class Transport { mpi, nccl };
std::string_view name_of(Transport transport);

// What is asked for: comm.backend.
enum class Backend { automatic, mpi, nccl };

// Where a rank computes.
struct RankDevice {
  int rank = 0;
  std::string host;
  std::string card;  // its GPU's PCI bus id, unique on a host; empty: it has no GPU
  std::string uuid;  // of its GPU: on one card, instances (MIG) differ by it
  bool operator==(const RankDevice&) const = default;
};

// `device` is this rank's. Throws Error(resources) for a GPU that is not there.
RankDevice rank_device(const World& world, Device device);

// Of the ranks of this rank's node, by rank: no two ranks of different nodes share a GPU.
// Collective over the node.
std::vector<RankDevice> devices_of_node(World& world, const RankDevice& mine);

// Throws Error(resources), naming the first two ranks that are on one GPU, unless there
// are none or `share` (run.share_gpus) is true.
void check_sharing(std::span<const RankDevice> ranks, bool share);

// The rule, for the ranks of a node; a job takes nccl where all of its nodes may. Backend
// mpi takes mpi; nccl demands nccl; automatic takes nccl where it can be had: every rank
// computes on a card of its own and the program was built with NCCL. A job without GPUs
// takes mpi. NCCL refuses two ranks on one card: before 2.30 always, since then unless
// told otherwise in the environment; its kernels, which wait for each other, may then not
// run together. It tells cards apart by bus ids, so that instances (MIG) of one card are
// one to it, too. Throws Error(resources) when the nccl asked for cannot be had, with the
// reason and the remedy.
Transport choose_transport(Backend backend, std::span<const RankDevice> ranks,
                           bool nccl_is_built);

}  // namespace trireme::comm
