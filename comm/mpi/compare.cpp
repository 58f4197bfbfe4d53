// MpiGroup: comparing a collective over the ranks before it starts.
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <map>
#include <type_traits>

#include "comm/mpi/mpi_group.hpp"
#include "comm/mpi/spin_wait.hpp"
#include "comm/rank_status.hpp"
#include "comm/trace.hpp"

namespace trireme::comm {
namespace {

// What all ranks of the group must say alike.
using Wanted = std::array<std::int64_t, 6>;
enum : std::size_t { kind_at, dtype_at, elements_at, root_at, reduce_at, sequence_at };

Wanted wanted_of(const Group::Call& call) {
  return {static_cast<std::int64_t>(call.kind),
          static_cast<std::int64_t>(call.dtype),
          call.plan.elements,
          call.peer,
          static_cast<std::int64_t>(call.reduce),
          call.sequence};
}

std::string text_of(const Wanted& w) {
  const auto kind = static_cast<Collective>(w[kind_at]);
  std::string text = format("{} #{} {}", name_of(kind), w[sequence_at],
                            tensor_text(static_cast<DType>(w[dtype_at]), w[elements_at]));
  const CollectiveRow& row = row_of(kind);
  if (row.peer == Peer::root)
    text += format(row.from.ranks == Ranks::root ? " from {}" : " to {}", w[root_at]);
  if (static_cast<Reduce>(w[reduce_at]) == Reduce::max) text += " of the maximum";
  return text;
}

}  // namespace

void MpiGroup::compare(const Call& call) {
  const Wanted own = wanted_of(call);
  std::vector<Wanted> all(static_cast<std::size_t>(size()));
  const auto awaited = [&] {
    return Awaited{.group = std::string(name()),
                   .operation = format("the check before {}", name_of(call.kind)),
                   .tensor = tensor_text(call.dtype, call.plan.elements),
                   .sequence = call.sequence,
                   .members = members_,
                   .absent = {}};
  };
  // Everyone tells everyone: this is a search for an error, not a way to run.
  const int tag = tags_.first + tags_.count - 1;
  std::vector<MPI_Request> requests;
  constexpr int bytes = sizeof(Wanted);
  for (int peer = 0; peer < size(); ++peer) {
    all[static_cast<std::size_t>(peer)] = own;
    if (peer == rank()) continue;
    const int there = members_.rank(peer);
    check_mpi(MPI_Irecv(all[static_cast<std::size_t>(peer)].data(), bytes, MPI_BYTE,
                        there, tag, comm_, &requests.emplace_back()),
              "MPI_Irecv");
    check_mpi(MPI_Isend(own.data(), bytes, MPI_BYTE, there, tag, comm_,
                        &requests.emplace_back()),
              "MPI_Isend");
  }
  SpinWait spin_wait(state_, awaited);
  for (MPI_Request& request : requests) {
    for (int done = 0; !done;) {
      state_.progress();
      check_mpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
      if (!done) spin_wait.idle();
    }
  }
  std::map<Wanted, std::vector<int>> ranks_by_wish;
  for (std::size_t i = 0; i < all.size(); ++i)
    ranks_by_wish[all[i]].push_back(members_.rank(static_cast<int>(i)));
  if (ranks_by_wish.size() == 1) return;
  std::string wishes;
  for (const auto& [wish, ranks] : ranks_by_wish)
    wishes += format("{}{} {} want{} {}", wishes.empty() ? "" : "; ",
                     ranks.size() == 1 ? "rank" : "ranks", ranks_text(ranks),
                     ranks.size() == 1 ? "s" : "", text_of(wish));
  fail(Status::hang, "out of step on axis '{}' (debug.check_collectives): {}", name(),
       wishes);
}

}  // namespace trireme::comm
