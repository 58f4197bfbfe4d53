// MpiGroup: collectives built of point-to-point messages.
// SPDX-License-Identifier: Apache-2.0
#include "comm/mpi/mpi_group.hpp"

#include <numeric>
#include <utility>

#include "comm/device_group.hpp"
#include "comm/mpi/split.hpp"
#include "comm/mpi/staged_transport.hpp"
#include "comm/recording.hpp"
#include "comm/trace.hpp"

namespace trireme::comm {
namespace {

std::vector<int> world_ranks(const WorldState& state, MPI_Comm comm, int size) {
  MPI_Group world = MPI_GROUP_NULL, part = MPI_GROUP_NULL;
  check_mpi(MPI_Comm_group(state.world.get(), &world), "MPI_Comm_group");
  check_mpi(MPI_Comm_group(comm, &part), "MPI_Comm_group");
  std::vector<int> own(static_cast<std::size_t>(size)), ranks(own.size());
  std::iota(own.begin(), own.end(), 0);
  check_mpi(MPI_Group_translate_ranks(part, size, own.data(), world, ranks.data()),
            "MPI_Group_translate_ranks");
  MPI_Group_free(&part);
  MPI_Group_free(&world);
  return ranks;
}

std::byte* bytes_of(const TensorView& x) { return static_cast<std::byte*>(x.raw()); }

}  // namespace

MpiGroup::MpiGroup(WorldState& state, std::string name, Communicator comm, int rank,
                   int size)
    : Group(std::move(name), rank, size),
      state_(state),
      comm_(std::move(comm)),
      members_(world_ranks(state, comm_.get(), size)),
      staging_(Device::host(), std::string(this->name())) {
  set_members(members_);
}

MpiOperation& MpiGroup::prepare(const Call& call, const TensorView& from,
                                const TensorView& to) {
  if (free_.empty()) {
    operations_.push_back(std::make_unique<MpiOperation>(*this));
    free_.reserve(operations_.size());
    free_.push_back(operations_.back().get());
  }
  MpiOperation* operation = free_.back();
  free_.pop_back();
  operation->prepare(call, bytes_of(from), bytes_of(to));
  return *operation;
}

Handle MpiGroup::start(const Call& call, Stream&, const TensorView& from,
                       const TensorView& to) {
  if (from.device().is_meta()) {
    trace().end(call.trace);
    return {};
  }
  require(from.device().is_host() && to.device().is_host(),
          "{} on axis '{}' of a tensor on a GPU: its mesh was made for the host",
          name_of(call.kind), name());
  require(recorded_calls() == nullptr,
          "{} on axis '{}' of tensors of the host cannot be recorded in a graph",
          name_of(call.kind), name());
  MpiOperation& operation = prepare(call, from, to);
  operation.post();
  return Handle(&operation);
}

std::unique_ptr<Group> split_group(World& world, std::string name, int color, int key,
                                   const GroupDevice& on) {
  WorldState& state = world.state();
  Communicator comm = Communicator::split(state.world.get(), color, key);
  int rank = 0, size = 1;
  check_mpi(MPI_Comm_rank(comm.get(), &rank), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(comm.get(), &size), "MPI_Comm_size");
  auto host =
      std::make_unique<MpiGroup>(state, std::move(name), std::move(comm), rank, size);
  if (!on.device.is_cuda()) return host;
  const DeviceGroup::MakeTransport staged = [&group = *host, device = on.device] {
    return std::make_unique<StagedTransport>(group, device);
  };
  const bool by_nccl = on.transport == Transport::nccl;
  std::unique_ptr<DeviceTransport> transport;
  if (by_nccl)
    transport = make_nccl_transport(*host, on.device, on.links, on.collectives);
  else if (size > 1)
    transport = staged();
  return std::make_unique<DeviceGroup>(
      std::move(host), on.device, std::move(transport),
      by_nccl && size > 1 ? staged : DeviceGroup::MakeTransport());
}

}  // namespace trireme::comm
