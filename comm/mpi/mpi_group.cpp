// MpiGroup.
// SPDX-License-Identifier: Apache-2.0
#include "comm/mpi/mpi_group.hpp"

#include <numeric>
#include <utility>

#include "comm/mpi/split.hpp"
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
      staging_(Device::host(), std::string(this->name())) {}

Handle MpiGroup::launch(const TensorView& from, const TensorView& to, Reduce reduce) {
  if (from.device().is_meta()) {
    trace().end(call().trace);
    return {};
  }
  if (free_.empty()) {
    operations_.push_back(std::make_unique<MpiOperation>(*this));
    free_.reserve(operations_.size());
    free_.push_back(operations_.back().get());
  }
  MpiOperation* operation = free_.back();
  free_.pop_back();
  operation->start({call().kind, call().dtype, reduce, call().peer, call().sequence,
                    call().trace, call().plan, bytes_of(from), bytes_of(to)});
  return Handle(operation);
}

Handle MpiGroup::start_all_reduce(Stream&, const TensorView& x, Reduce reduce) {
  return launch(x, x, reduce);
}
Handle MpiGroup::start_reduce_scatter(Stream&, const TensorView& full,
                                      const TensorView& shard) {
  return launch(full, shard);
}
Handle MpiGroup::start_all_gather(Stream&, const TensorView& shard,
                                  const TensorView& full) {
  return launch(shard, full);
}
Handle MpiGroup::start_broadcast(Stream&, const TensorView& x, int) {
  return launch(x, x);
}
Handle MpiGroup::start_all_to_all(Stream&, const TensorView& from, const TensorView& to) {
  return launch(from, to);
}
Handle MpiGroup::start_send(Stream&, const TensorView& x, int) { return launch(x, x); }
Handle MpiGroup::start_receive(Stream&, const TensorView& x, int) { return launch(x, x); }

std::unique_ptr<Group> split_group(World& world, std::string name, int color, int key) {
  WorldState& state = world.state();
  Communicator comm = Communicator::split(state.world.get(), color, key);
  int rank = 0, size = 1;
  check_mpi(MPI_Comm_rank(comm.get(), &rank), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(comm.get(), &size), "MPI_Comm_size");
  return std::make_unique<MpiGroup>(state, std::move(name), std::move(comm), rank, size);
}

}  // namespace trireme::comm
