// The choice of a transport.
// SPDX-License-Identifier: Apache-2.0
#include "comm/transport.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>

#include "base/cuda_devices.hpp"
#include "base/number.hpp"

namespace trireme::comm {
namespace {

// An instance is what a rank computes on: a part of a card (MIG), or all of it.
enum class GpuUnit { instance, card };

// The first two ranks that share such a unit.
std::optional<std::pair<std::size_t, std::size_t>> first_sharing_pair(
    std::span<const RankDevice> ranks, GpuUnit unit) {
  std::map<std::array<std::string_view, 3>, std::size_t> owners;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const RankDevice& at = ranks[r];
    if (at.card.empty()) continue;
    const std::string_view instance =
        unit == GpuUnit::instance ? at.uuid : std::string_view();
    const auto [owner, is_new] = owners.try_emplace({at.host, at.card, instance}, r);
    if (!is_new) return {{owner->second, r}};
  }
  return {};
}

std::optional<std::size_t> find_rank_without_gpu(std::span<const RankDevice> ranks) {
  for (std::size_t r = 0; r < ranks.size(); ++r)
    if (ranks[r].card.empty()) return r;
  return {};
}

[[noreturn]] void refuse_one_card(std::span<const RankDevice> ranks, std::size_t one,
                                  std::size_t other) {
  const RankDevice& where = ranks[one];
  if (where.uuid != ranks[other].uuid)
    fail(Status::resources,
         "comm.backend = \"nccl\", but ranks {} and {} compute on instances (MIG) of GPU "
         "{} "
         "of host {}, which NCCL takes for one GPU: set comm.backend = \"mpi\"",
         where.rank, ranks[other].rank, where.card, where.host);
  fail(Status::resources,
       "comm.backend = \"nccl\", but ranks {} and {} share GPU {} of host {}, which NCCL "
       "does "
       "not allow: start as many ranks on a node as it has GPUs, or set "
       "comm.backend = \"mpi\"",
       where.rank, ranks[other].rank, where.card, where.host);
}

}  // namespace

std::string_view name_of(Transport transport) {
  return transport == Transport::nccl ? "nccl" : "mpi";
}

RankDevice rank_device(const World& world, Device device) {
  RankDevice mine{.rank = world.rank(), .host = world.host(), .card = {}, .uuid = {}};
  if (!device.is_cuda()) return mine;
  const auto devices = cuda_devices();
  const auto index = static_cast<std::size_t>(device.index);
  require(index < devices.size(), Status::resources,
          "rank {} (host {}) sees {} GPUs, and was to compute on GPU {}", world.rank(),
          world.host(), devices.size(), index);
  mine.card = devices[index].pci_bus_id;
  mine.uuid = devices[index].uuid;
  return mine;
}

std::vector<RankDevice> devices_of_node(World& world, const RankDevice& mine) {
  std::vector<RankDevice> ranks;
  for (const std::string& line :
       world.gather_on_node(format("{}\t{}\t{}", mine.rank, mine.card, mine.uuid))) {
    const auto first = line.find('\t'), second = line.find('\t', first + 1);
    ranks.push_back({.rank = parse_number<int>(line.substr(0, first)).value(),
                     .host = mine.host,
                     .card = line.substr(first + 1, second - first - 1),
                     .uuid = line.substr(second + 1)});
  }
  std::sort(ranks.begin(), ranks.end(),
            [](const RankDevice& a, const RankDevice& b) { return a.rank < b.rank; });
  return ranks;
}

void check_sharing(std::span<const RankDevice> ranks, bool share) {
  if (share) return;
  if (const auto sharing = first_sharing_pair(ranks, GpuUnit::instance)) {
    const RankDevice& where = ranks[sharing->first];
    fail(
        Status::resources,
        "ranks {} and {} would share GPU {} of host {}: start as many ranks on a node as "
        "it has GPUs, or set run.share_gpus = true",
        where.rank, ranks[sharing->second].rank, where.card, where.host);
  }
}

Transport choose_transport(Backend backend, std::span<const RankDevice> ranks,
                           bool nccl_is_built) {
  if (backend == Backend::mpi) return Transport::mpi;
  const auto rank_without = find_rank_without_gpu(ranks);
  const auto sharing = first_sharing_pair(ranks, GpuUnit::card);
  if (nccl_is_built && !rank_without && !sharing) return Transport::nccl;
  if (backend == Backend::automatic) return Transport::mpi;
  require(
      nccl_is_built, Status::resources,
      "comm.backend = \"nccl\", but this program was built without NCCL: build it with "
      "-DTRIREME_CUDA=ON -DTRIREME_NCCL=ON, or set comm.backend = \"mpi\"");
  if (rank_without)
    fail(Status::resources,
         "comm.backend = \"nccl\", but rank {} (host {}) computes on no GPU: set "
         "run.device = \"cuda\", or comm.backend = \"mpi\"",
         ranks[*rank_without].rank, ranks[*rank_without].host);
  refuse_one_card(ranks, sharing->first, sharing->second);
}

}  // namespace trireme::comm
