// WorldState, Communicator and the check of MPI's return codes.
// SPDX-License-Identifier: Apache-2.0
#include "comm/mpi/state.hpp"

#include <exception>
#include <utility>

#include "comm/abort.hpp"
#include "comm/async_errors.hpp"
#include "comm/mpi/operation.hpp"
#include "comm/mpi/spin_wait.hpp"
#include "comm/trace.hpp"

namespace trireme::comm {

std::string mpi_error_text(int code) {
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  if (MPI_Error_string(code, text.data(), &length) != MPI_SUCCESS)
    return format("error {}", code);
  return std::string(text.data(), static_cast<std::size_t>(length));
}

void check_mpi(int code, const char* call, std::source_location at) {
  if (code == MPI_SUCCESS) [[likely]]
    return;
  throw Error(Status::transport, format("{} failed: {}", call, mpi_error_text(code)), at);
}

bool mpi_is_usable() {
  int initialized = 0, finalized = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  return initialized && !finalized;
}

Communicator::Communicator(MPI_Comm comm) : comm_(comm) {
  check_mpi(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
}

Communicator::Communicator(Communicator&& other) noexcept
    : comm_(std::exchange(other.comm_, MPI_COMM_NULL)) {}

Communicator& Communicator::operator=(Communicator&& other) noexcept {
  std::swap(comm_, other.comm_);
  return *this;
}

Communicator::~Communicator() {
  // Freeing is collective: while an exception passes, the other ranks may not take part.
  if (comm_ == MPI_COMM_NULL || std::uncaught_exceptions() > 0 || !mpi_is_usable())
    return;
  if (const WorldState* state = current_state(); state && state->abandoned) return;
  MPI_Comm_free(&comm_);
}

Communicator Communicator::duplicate(MPI_Comm comm) {
  MPI_Comm copy = MPI_COMM_NULL;
  check_mpi(MPI_Comm_dup(comm, &copy), "MPI_Comm_dup");
  return Communicator(copy);
}

void WorldState::progress() {
  for (std::size_t i = 0; i < active.size();) {
    if (active[i]->advance()) {
      active[i] = active.back();
      active.pop_back();
    } else {
      ++i;
    }
  }
  for (ProgressSource* source : progress_sources) source->progress();
  try {
    async_errors().look();
  } catch (...) {
    end_job(std::current_exception());
  }
}

WorldCall::WorldCall(WorldState& state, const char* operation, bool is_progress)
    : state_(state), operation_(operation), is_progress_(is_progress) {
  ++state_.sequence;
  if (is_progress_) trace().mark();
}

WorldCall::~WorldCall() {
  state_.operation = nullptr;
  if (is_progress_) trace().mark();
}

void WorldCall::wait(MPI_Request& request) {
  int done = 0;
  check_mpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE), operation_);
  if (done) return;
  state_.operation = operation_;
  SpinWait spin_wait(state_, [&] {
    return Awaited{.group = "world",
                   .operation = operation_,
                   .tensor = "",
                   .sequence = state_.sequence,
                   .members = state_.ranks,
                   .absent = {}};
  });
  while (!done) {
    state_.progress();
    check_mpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE), operation_);
    if (!done) spin_wait.idle();
  }
}

}  // namespace trireme::comm
