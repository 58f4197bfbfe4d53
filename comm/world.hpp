// World: the life of MPI, and the one way out of the program.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"

namespace trireme::comm {

struct WorldState;  // owned by the back end

// How a process begins: in a job of ranks, or by itself without MPI.
enum class Start : std::uint8_t { ranks, alone };

// MPI from initialisation to finalisation: the first object of main, the last to go.
// Before that it starts the thread that takes signals (comm/stop_signals.hpp), and
// installs the handlers of fatal ones. Where too few files may be open at a time for MPI
// to start, the process ends with Status::resources. A process that starts alone is a
// world of one rank, and never calls MPI: it runs where MPI does not, as on login nodes;
// it makes no groups.
class World {
 public:
  // Throws Error(transport) when MPI does not start. When a batch system started N single
  // processes instead of one job of N (SLURM_NTASKS or OMPI_COMM_WORLD_SIZE differ from
  // MPI's size), guarded() refuses to work, with Status::resources.
  World(int argc, char** argv, Start start = Start::ranks);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  int ranks_on_node() const { return ranks_on_node_; }
  int rank_on_node() const { return rank_on_node_; }
  const std::string& host() const { return host_; }

  void barrier();

  // Seconds after which a wait in any collective of this world is a hang (0, as at the
  // start: never). A hang is reported once and ends the job with Status::hang.
  void set_timeout(double seconds);
  double timeout() const;

  // Whether communicators of NCCL that are made from now on share resources: less memory
  // of the GPU, and kernels of all of them run in the order of the calls. Alike on all
  // ranks.
  void set_nccl_sharing(bool share);

  // Runs `work` on every rank, then agrees: if it threw an Error on any rank, every rank
  // throws an Agreed error with the message and status of the lowest failing rank. Use it
  // for work that may fail on some ranks only, or on all alike (a deck, a file).
  void agree(const std::function<void()>& work);

  // broadcast and gather of small plain data, for start-up and reports only
  std::string broadcast(const std::string& text, int root = 0);
  std::vector<double> gather(double value, int root = 0);  // on root: one per rank
  // On root: the text of each rank. Throws Error(internal) above 2 GiB together.
  std::vector<std::string> gather_text(const std::string& text, int root = 0);
  // The texts of this node's ranks, in their order on it, each at most 255 bytes long.
  std::vector<std::string> gather_on_node(const std::string& text);
  double max(double value);
  double sum(double value);
  // Says whether any rank is. To be asked again and again: for the watchdog it is no
  // progress.
  bool any_busy(bool busy);

  WorldState& state() const { return *state_; }

 private:
  void start_alone();
  void start_mpi(int argc, char** argv);
  void meet_ranks();

  int rank_ = 0, size_ = 1, ranks_on_node_ = 1, rank_on_node_ = 0;
  std::string host_;
  std::unique_ptr<WorldState> state_;
};

// An error that every rank throws together: rank 0 reports it, and all leave in order.
class Agreed : public Error {
 public:
  using Error::Error;
};

// Runs `work` and returns its status. An Agreed error is reported once, by rank 0, and
// every rank returns its status. Any other exception is reported by the rank that threw
// it, and ends the whole job with its status through MPI_Abort, as the watchdog and the
// report of a hang do.
int guarded(World& world, const std::function<int()>& work);

// {"Open MPI", "4.1.4"}.
std::vector<std::pair<std::string, std::string>> library_versions();

}  // namespace trireme::comm
