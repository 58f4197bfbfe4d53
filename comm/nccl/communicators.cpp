// The communicators of a process: one for each list of ranks.
// SPDX-License-Identifier: Apache-2.0
#include "comm/nccl/communicators.hpp"

#include <map>
#include <utility>

namespace trireme::comm {
namespace {

using Members = RankList;
using Known = std::map<Members, std::weak_ptr<NcclCommunicator>>;

Known& known() {
  static Known of_this_process;
  return of_this_process;
}

std::shared_ptr<NcclCommunicator> find(const Members& members) {
  const auto found = known().find(members);
  return found == known().end() ? nullptr : found->second.lock();
}

bool some_rank(WorldState& state, bool mine) {
  int all = mine ? 1 : 0;
  MPI_Request request;
  check_mpi(MPI_Iallreduce(MPI_IN_PLACE, &all, 1, MPI_INT, MPI_MAX, state.world.get(),
                           &request),
            "MPI_Iallreduce");
  state.wait(request, "agreement on communicators of NCCL");
  return all != 0;
}

// Of all ranks of the world.
std::shared_ptr<NcclCommunicator> whole(WorldState& state, Device device) {
  if (auto there = find(state.ranks)) return there;
  ncclUniqueId id{};
  if (state.rank == 0) check_nccl(ncclGetUniqueId(&id), "ncclGetUniqueId", "world");
  MPI_Request request;
  check_mpi(MPI_Ibcast(&id, sizeof id, MPI_BYTE, 0, state.world.get(), &request),
            "MPI_Ibcast");
  state.wait(request, "broadcast of ncclUniqueId");
  auto made = std::make_shared<NcclCommunicator>(
      state, id, state.rank, state.size, device, "world",
      NcclCommunicator::Options{.shares = state.nccl_sharing});
  known()[state.ranks] = made;
  return made;
}

}  // namespace

std::shared_ptr<NcclCommunicator> nccl_communicator(MpiGroup& group, Device device) {
  const Members members = group.members().normal();
  WorldState& state = group.state();
  std::shared_ptr<NcclCommunicator> mine;
  if (group.size() > 1) mine = find(members);
  const bool wanted = group.size() > 1 && mine == nullptr;
  if (!some_rank(state, wanted)) return mine;
  const auto of_all = whole(state, device);
  if (!some_rank(state, wanted && members != state.ranks)) return wanted ? of_all : mine;
  if (!wanted) {
    of_all->leave_out();
    return mine;
  }
  // Groups of one name have no rank in common, so the first names a group.
  mine = std::make_shared<NcclCommunicator>(of_all, members.first, group.rank(),
                                            std::string(group.name()));
  known()[members] = mine;
  return mine;
}

}  // namespace trireme::comm
