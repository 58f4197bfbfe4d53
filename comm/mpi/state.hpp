// WorldState: what the MPI back end keeps for the life of the world.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "comm/host_table.hpp"
#include "comm/mpi/channels.hpp"
#include "comm/mpi/claim.hpp"
#include "comm/mpi/communicator.hpp"
#include "comm/mpi/fatal_signals.hpp"
#include "comm/mpi/mpi.hpp"
#include "comm/mpi/node_memory.hpp"
#include "comm/rank_list.hpp"
#include "comm/world.hpp"

namespace trireme::comm {

class MpiOperation;

// What moves work in flight beside the messages themselves: a transport of a device.
class ProgressSource {
 public:
  virtual ~ProgressSource() = default;
  virtual void progress() = 0;  // never blocks
};

// A call that all ranks of the world make: while it lives, the watchdog sees where this
// rank waits.
class WorldCall {
 public:
  // is_progress: for the watchdog; not of what is asked again and again.
  WorldCall(WorldState& state, const char* operation, bool is_progress = true);
  ~WorldCall();
  WorldCall(const WorldCall&) = delete;
  WorldCall& operator=(const WorldCall&) = delete;

  void wait(MPI_Request& request);

 private:
  WorldState& state_;
  const char* operation_;
  bool is_progress_;
};

struct WorldState {
  Communicator world;  // of the world's own collectives
  Communicator notes;  // of reports of hangs and failures
  Communicator node;   // the ranks that share this one's memory
  GroupChannels group_channels;
  int rank = 0, size = 1;
  int first_on_node = 0;  // the lowest rank of this rank's node
  int tag_limit = 32767;
  bool spin = false;  // a core for every rank: waiting may burn it
  double timeout_seconds = 0;
  const char* timeout_name = "comm.timeout_seconds";  // what sets it
  bool nccl_sharing = false;  // of NCCL's communicators, see World::set_nccl_sharing()
  // Of the world's own collectives; operation: the one in flight, or nullptr.
  std::atomic<std::int64_t> sequence{0};
  std::atomic<const char*> operation{nullptr};
  HostTable hosts;
  RankList ranks;  // 0, 1, ...: the members of the world

  std::vector<MpiOperation*> active;              // in flight, of all groups
  std::vector<ProgressSource*> progress_sources;  // of all groups on devices
  struct Tested {
    std::vector<int> indices;
    std::vector<MPI_Status> statuses;
  } testsome;              // scratch of MPI_Testsome
  bool abandoned = false;  // an operation was left in flight: no orderly end is possible
  std::atomic<bool> waiting{false};  // in a collective: the watchdog's clock stands still

  std::unique_ptr<NodeMemory> shared;  // the claim's word, and a Heartbeat of each rank
  std::unique_ptr<Claim> claim;
  std::unique_ptr<FatalSignals> fatal_signals;
  std::string refusal;  // why this world is not the job that was meant; empty: it is

  // Without MPI: Start::alone.
  bool alone() const { return world.get() == MPI_COMM_NULL; }
  // Moves everything in flight.
  void progress();
  // Waits for a collective of the world that is one request.
  void wait(MPI_Request& request, const char* operation_name) {
    WorldCall(*this, operation_name).wait(request);
  }
};

// The state of this process, or nullptr when there is none.
WorldState* current_state();

// MPI cannot be called before and after its life.
bool mpi_is_usable();

}  // namespace trireme::comm
