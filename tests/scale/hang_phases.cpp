// A wait that is too long, and a failure of all ranks, on simulated ranks.
// SPDX-License-Identifier: Apache-2.0
#include "scale/hang_phases.hpp"

#include <gtest/gtest.h>

#include "comm/mpi/claim.hpp"
#include "comm/mpi/hang_notes.hpp"
#include "comm/mpi/state.hpp"

namespace trireme::scale {

void time_out(comm::World& world, int judges) {
  using std::chrono::milliseconds;
  if (world.rank() == late_rank) return;
  comm::WorldState& state = world.state();
  const comm::Awaited awaited{.group = "everyone",
                              .operation = "all_reduce",
                              .tensor = "fp64[4]",
                              .sequence = 9,
                              .members = state.ranks,
                              .absent = {}};
  comm::HangNotes heard(state, comm::Note::for_rank(world.rank(), awaited, 600),
                        {.judges = judges,
                         .turn = milliseconds(1),
                         .quiet = milliseconds(50),
                         .unasked = milliseconds(2000),
                         .most = milliseconds(2000)});
  heard.listen();
  EXPECT_EQ(heard.speaks(), world.rank() == 0) << "rank " << world.rank();
  if (world.rank() > 0) return;
  EXPECT_EQ(heard.notes().size(), static_cast<std::size_t>(world.size() - 1));
  EXPECT_EQ(heard.notes().back().text(), "all_reduce #9 fp64[4] on axis 'everyone'");
  for (int rank = 0; rank < world.size(); ++rank)
    EXPECT_EQ(heard.is_late(rank), rank == late_rank) << "rank " << rank;
}

bool fails(comm::World& world) { return comm::may_report(world.state()); }

void hears(comm::World& world) { comm::hear_failure(world.state()); }

void tell_all(comm::World& world) {
  int message = 0;
  for (int rank = 0; rank < world.size(); ++rank) {
    MPI_Request request;
    if (rank == world.rank()) continue;
    MPI_Isend(&message, sizeof message, MPI_BYTE, rank, comm::failure_tag,
              world.state().notes.get(), &request);
    MPI_Request_free(&request);
  }
}

}  // namespace trireme::scale
