// MpiGroup: collectives built of point-to-point messages.
// SPDX-License-Identifier: Apache-2.0
#include "comm/mpi/mpi_group.hpp"

#include <utility>

#include "comm/device_group.hpp"
#include "comm/mpi/split.hpp"
#include "comm/mpi/staged_transport.hpp"
#include "comm/recording.hpp"
#include "comm/trace.hpp"

namespace trireme::comm {
namespace {

std::byte* bytes_of(const TensorView& x) { return static_cast<std::byte*>(x.raw()); }

}  // namespace

MpiGroup::MpiGroup(WorldState& state, std::string name, const RankList& members)
    : Group(std::move(name), members.index_of(state.rank), members.size()),
      state_(state),
      members_(members),
      id_(state.group_channels.take(state.world.get())),
      comm_(state.group_channels.comm_of(id_)),
      tags_(state.group_channels.tags_of(id_)),
      staging_(Device::host(), std::string(this->name())) {
  set_members(members_);
}

// A mesh that outlives the world, as a static object does, only frees its memory.
MpiGroup::~MpiGroup() {
  if (WorldState* state = current_state()) state->group_channels.give_back(id_);
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
  operation.hold_staging();
  operation.post();
  return Handle(&operation);
}

std::unique_ptr<Group> make_group(World& world, std::string name, const RankList& members,
                                  const GroupDevice& on) {
  auto host = std::make_unique<MpiGroup>(world.state(), std::move(name), members);
  if (!on.device.is_cuda()) return host;
  const DeviceGroup::MakeTransport staged = [&group = *host, device = on.device] {
    return std::make_unique<StagedTransport>(group, device);
  };
  const bool by_nccl = on.transport == Transport::nccl;
  std::unique_ptr<DeviceTransport> transport;
  if (by_nccl)
    transport = make_nccl_transport(*host, on.device, on.links, on.collectives);
  else if (members.size() > 1)
    transport = staged();
  return std::make_unique<DeviceGroup>(
      std::move(host), on.device, std::move(transport),
      by_nccl && members.size() > 1 ? staged : DeviceGroup::MakeTransport());
}

}  // namespace trireme::comm
