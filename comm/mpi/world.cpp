// World: MPI from initialisation to finalisation, and its small collectives.
// SPDX-License-Identifier: Apache-2.0
#include "comm/world.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <numeric>
#include <string_view>

#include "base/cpu_place.hpp"
#include "base/cuda/prepare.hpp"
#include "base/log.hpp"
#include "comm/abort.hpp"
#include "comm/heartbeat_board.hpp"
#include "comm/launcher.hpp"
#include "comm/mpi/start_watch.hpp"
#include "comm/mpi/state.hpp"
#include "comm/mpi/stop_signals.hpp"
#include "comm/mpi/world_tree.hpp"
#include "comm/rank_names.hpp"

namespace trireme::comm {
namespace {

// Threads that take signals read it.
std::atomic<WorldState*> state_of_process = nullptr;

std::string refuse_singletons(int size) {
  std::string variable;
  const int launched = launched_ranks(variable);
  if (launched <= 0 || launched == size) return {};
  return format(
      "the launcher started {} processes ({} = {}), but MPI joins {} of them in one job; "
      "start the program with the mpirun of its own MPI, or with srun --mpi=pmix",
      launched, variable, launched, size);
}

// Sockets, shared memory, libraries and our own files of a rank are open together.
constexpr rlim_t fewest_open_files = 64, usual_open_files = 1024;

// MPI's own words for this say nothing of the cause. One rank of a host speaks.
void check_open_files() {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  if (files.rlim_cur < usual_open_files && files.rlim_cur < files.rlim_max) {
    files.rlim_cur = std::min(files.rlim_max, usual_open_files);
    ::setrlimit(RLIMIT_NOFILE, &files);
  }
  if (files.rlim_cur >= fewest_open_files) return;
  const char* rank = std::getenv("OMPI_COMM_WORLD_LOCAL_RANK");
  if (rank == nullptr) rank = std::getenv("SLURM_LOCALID");
  leave_before_mpi(
      Status::resources, rank == nullptr || std::string_view(rank) == "0",
      format("only {} files may be open at a time, and a rank needs {}: raise the limit "
             "(ulimit -n {})",
             static_cast<std::int64_t>(files.rlim_cur),
             static_cast<std::int64_t>(fewest_open_files),
             static_cast<std::int64_t>(usual_open_files)));
}

int tag_limit(MPI_Comm comm) {
  void* value = nullptr;
  int found = 0;
  check_mpi(MPI_Comm_get_attr(comm, MPI_TAG_UB, &value, &found), "MPI_Comm_get_attr");
  return found ? *static_cast<int*>(value) : 32767;  // what MPI guarantees
}

std::unique_ptr<WorldState> make_state() {
  auto state = std::make_unique<WorldState>();
  check_mpi(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN),
            "MPI_Comm_set_errhandler");
  state->world = Communicator::duplicate(MPI_COMM_WORLD);
  state->notes = Communicator::duplicate(MPI_COMM_WORLD);
  check_mpi(MPI_Comm_rank(MPI_COMM_WORLD, &state->rank), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(MPI_COMM_WORLD, &state->size), "MPI_Comm_size");
  state->refusal = refuse_singletons(state->size);
  state->tag_limit = tag_limit(state->world.get());
  state->ranks = RankList::line(0, state->size);
  state->group_channels.set_tag_limit(state->tag_limit);
  return state;
}

// Settings of Open MPI, where the user has none.
void prepare_open_mpi() {
  // Where no process can read another's memory a long message travels in fragments, of
  // which three are under way at a time; more are sent when one of the two ranks calls
  // MPI. Ranks that compute call it rarely: 256 fragments are a message at a time.
  ::setenv("OMPI_MCA_pml_ob1_send_pipeline_depth", "256", 0);
  // Open MPI would start a daemon beside a process that no launcher started, in case it
  // spawns others, which takes a seventh of a second: none is spawned here. Without it
  // all such processes of a user make and remove one folder for files of their session,
  // which none has, and of two at a time one may fail.
  if (is_launched()) return;
  ::setenv("OMPI_MCA_ess_singleton_isolated", "1", 0);
  ::setenv("OMPI_MCA_orte_create_session_dirs", "0", 0);
}

}  // namespace

WorldState* current_state() { return state_of_process; }

World::World(int argc, char** argv, Start start) {
  start_taking_signals();
  check_open_files();
  host_ = own_host();
  if (start == Start::alone)
    start_alone();
  else
    start_mpi(argc, argv);
  state_of_process = state_.get();
  log::set_rank(rank_);
  state_->fatal_signals = std::make_unique<FatalSignals>(rank_);
}

void World::start_alone() {
  state_ = std::make_unique<WorldState>();
  state_->ranks = RankList::line(0, 1);
  state_->hosts.add(host_);
}

void World::start_mpi(int argc, char** argv) {
  prepare_open_mpi();
  cuda::prepare();  // MPI's libraries may start the driver, which reads the environment
  StartWatch watch;
  try {
    int provided = 0;
    check_mpi(MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided),
              "MPI_Init_thread");
    watch.enter("the start, after MPI_Init");
    require(provided >= MPI_THREAD_FUNNELED, Status::transport,
            "this MPI cannot run beside threads (MPI_THREAD_FUNNELED)");
    meet_ranks();
  } catch (...) {
    // Other ranks may have got on: what frees a communicator would wait for them.
    end_job(std::current_exception());
  }
  // A rank that is bound to one core has it for itself.
  const auto cores = static_cast<int>(allowed_cores().size());
  state_->spin = cores <= 1 || cores >= ranks_on_node_;
}

// Makes the state, and learns from the other ranks who is on which host.
void World::meet_ranks() {
  state_ = make_state();
  rank_ = state_->rank;
  size_ = state_->size;
  HostTable hosts;
  for (const std::string& name : gather_text(host_)) hosts.add(name);
  state_->hosts = HostTable::from_text(broadcast(hosts.text()));
  MPI_Comm node = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split_type(state_->world.get(), MPI_COMM_TYPE_SHARED, rank_,
                                MPI_INFO_NULL, &node),
            "MPI_Comm_split_type");
  state_->node = Communicator(node);
  const auto lowest_of_node = [&](int value) {
    MPI_Request request;
    check_mpi(MPI_Iallreduce(MPI_IN_PLACE, &value, 1, MPI_INT, MPI_MIN, node, &request),
              "MPI_Iallreduce");
    state_->wait(request, "start");
    return value;
  };
  state_->shared = std::make_unique<NodeMemory>(node, heartbeat_words, lowest_of_node);
  state_->claim = std::make_unique<Claim>(state_->shared->common());
  check_mpi(MPI_Comm_size(node, &ranks_on_node_), "MPI_Comm_size");
  check_mpi(MPI_Comm_rank(node, &rank_on_node_), "MPI_Comm_rank");
  state_->first_on_node = lowest_of_node(rank_);
}

World::~World() {
  // Finalisation waits for all ranks, and these may not come while an exception passes.
  if (std::uncaught_exceptions() > 0 || state_->abandoned) abort_job(Status::internal);
  only_note_signals();
  state_->fatal_signals.reset();
  state_of_process = nullptr;
  const bool alone = state_->alone();
  state_.reset();
  if (!alone) MPI_Finalize();
}

void World::barrier() {
  if (state_->alone()) return;
  MPI_Request request;
  check_mpi(MPI_Ibarrier(state_->world.get(), &request), "MPI_Ibarrier");
  state_->wait(request, "barrier");
}

void World::set_timeout(double seconds) {
  state_->timeout_seconds = seconds;
  state_->timeout_name = "comm.timeout_seconds";
}

double World::timeout() const { return state_->timeout_seconds; }

void World::set_nccl_sharing(bool share) { state_->nccl_sharing = share; }

std::string World::broadcast(const std::string& text, int root) {
  require(root >= 0 && root < size_, "broadcast from rank {} of {}", root, size_);
  if (state_->alone()) return text;
  std::uint64_t bytes = text.size();
  MPI_Request request;
  check_mpi(MPI_Ibcast(&bytes, 1, MPI_UINT64_T, root, state_->world.get(), &request),
            "MPI_Ibcast");
  state_->wait(request, "broadcast");
  require(bytes < (std::uint64_t{1} << 31), "a text of {} bytes is too long to broadcast",
          bytes);
  std::string result = rank_ == root ? text : std::string(bytes, '\0');
  check_mpi(MPI_Ibcast(result.data(), static_cast<int>(bytes), MPI_CHAR, root,
                       state_->world.get(), &request),
            "MPI_Ibcast");
  state_->wait(request, "broadcast");
  return result;
}

std::vector<double> World::gather(double value, int root) {
  require(root >= 0 && root < size_, "gather on rank {} of {}", root, size_);
  const auto rows = gather_rows(*state_, &value, sizeof value, root, "gather");
  std::vector<double> values(rank_ == root ? static_cast<std::size_t>(size_) : 0);
  if (!values.empty()) std::memcpy(values.data(), rows.data(), rows.size());
  return values;
}

double World::max(double value) {
  if (state_->alone()) return value;
  double result = value;
  MPI_Request request;
  check_mpi(MPI_Iallreduce(&value, &result, 1, MPI_DOUBLE, MPI_MAX, state_->world.get(),
                           &request),
            "MPI_Iallreduce");
  state_->wait(request, "max");
  return result;
}

bool World::any_busy(bool busy) {
  if (state_->alone()) return busy;
  const double own = busy ? 1 : 0;
  double any = own;
  MPI_Request request;
  check_mpi(
      MPI_Iallreduce(&own, &any, 1, MPI_DOUBLE, MPI_MAX, state_->world.get(), &request),
      "MPI_Iallreduce");
  WorldCall(*state_, "any_busy", false).wait(request);
  return any > 0;
}

// In rank order, as all sums.
double World::sum(double value) {
  if (state_->alone()) return value;
  const std::vector<double> values = gather(value);
  double total = std::accumulate(values.begin(), values.end(), 0.0);
  MPI_Request request;
  check_mpi(MPI_Ibcast(&total, 1, MPI_DOUBLE, 0, state_->world.get(), &request),
            "MPI_Ibcast");
  state_->wait(request, "sum");
  return total;
}

std::vector<std::pair<std::string, std::string>> library_versions() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  check_mpi(MPI_Get_library_version(text.data(), &length), "MPI_Get_library_version");
  const std::string_view all(text.data());
  // "Open MPI v4.1.4, package: ..."; others: the first line as it is.
  constexpr std::string_view open_mpi = "Open MPI v";
  if (all.starts_with(open_mpi)) {
    const std::string_view rest = all.substr(open_mpi.size());
    return {{"Open MPI", std::string(rest.substr(0, rest.find(',')))}};
  }
  return {{"MPI", std::string(all.substr(0, all.find('\n')))}};
}

}  // namespace trireme::comm
