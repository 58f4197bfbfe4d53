// agree() and guarded(): how errors leave the program.
// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <chrono>
#include <new>
#include <optional>
#include <system_error>
#include <thread>

#include "base/log.hpp"
#include "base/number.hpp"
#include "base/out_of_memory.hpp"
#include "base/terminal.hpp"
#include "comm/abort.hpp"
#include "comm/mpi/claim.hpp"
#include "comm/mpi/spin_wait.hpp"
#include "comm/mpi/state.hpp"
#include "comm/watchdog.hpp"
#include "comm/world.hpp"

namespace trireme::comm {
namespace {

struct Failure {
  Status status = Status::internal;
  std::string message;
};

// What the user reads. A bug of ours carries its place in the source.
Failure describe(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const Agreed& e) {
    return {e.status(), e.what()};
  } catch (const OutOfMemory& e) {
    return {e.status(), e.what() + out_of_memory_advice()};
  } catch (const Error& e) {
    if (e.status() != Status::internal) return {e.status(), e.what()};
    return {e.status(),
            format("{} ({}:{})", e.what(), e.where().file_name(), e.where().line())};
  } catch (const std::bad_alloc&) {
    return {Status::resources,
            "out of memory; use more ranks or a smaller model or batch" +
                out_of_memory_advice()};
  } catch (const std::exception& e) {
    return {Status::internal, e.what()};
  } catch (...) {
    return {Status::internal, "an unknown exception"};
  }
}

// The lowest value over ranks.
int lowest(WorldState& state, int value) {
  if (state.alone()) return value;
  int result = value;
  MPI_Request request;
  check_mpi(
      MPI_Iallreduce(&value, &result, 1, MPI_INT, MPI_MIN, state.world.get(), &request),
      "MPI_Iallreduce");
  state.wait(request, "agree");
  return result;
}

[[noreturn]] void report_and_abort(const Failure& failure) {
  WorldState* state = current_state();
  if (state == nullptr || !mpi_is_usable()) {  // at the start or the end: nobody to ask
    log::error("trireme: error: " + failure.message);
    abort_job(failure.status);
  }
  end_within(report_limit_seconds, failure.status);
  if (!may_report(*state)) {
    ::sleep(
        other_report_wait_seconds);  // another rank does, and its MPI_Abort ends this one
  } else {
    log::error(format("trireme: error: rank {}: {}", state->rank, failure.message));
  }
  dump_flight();
  abort_job(failure.status);
}

int leave_together(World& world, const Agreed& error) {
  if (world.rank() == 0) log::error(std::string("trireme: error: ") + error.what());
  if (world.state().abandoned) abort_job(error.status());
  if (world.size() > 1) log::let_errors_arrive();
  world.barrier();
  return static_cast<int>(error.status());
}

}  // namespace

// By a signal where there is no memory for a thread.
void end_within(int seconds, Status status) noexcept {
  try {
    std::thread([seconds, status] {
      std::this_thread::sleep_for(std::chrono::seconds(seconds));
      ::_exit(static_cast<int>(status));
    }).detach();
  } catch (const std::system_error&) {
    ::alarm(static_cast<unsigned>(seconds));
  }
}

void leave_before_mpi(Status status, bool speaks, const std::string& message) {
  if (speaks) {
    log::error(format("trireme: error: {}", message));
    log::let_errors_arrive();
  } else {
    std::this_thread::sleep_for(std::chrono::seconds(5));
  }
  ::_exit(static_cast<int>(status));
}

void abort_job(Status status) {
  const int code = static_cast<int>(status);
  terminal::restore_modes();
  end_within(10, status);  // the abort itself may hang
  log::let_errors_arrive();
  if (mpi_is_usable()) MPI_Abort(MPI_COMM_WORLD, code);
  ::_exit(code);
}

void end_job(std::exception_ptr error) noexcept { report_and_abort(describe(error)); }

void World::agree(const std::function<void()>& work) {
  std::optional<Failure> failure;
  try {
    work();
  } catch (...) {
    failure = describe(std::current_exception());
  }
  const int first = lowest(*state_, failure ? rank_ : size_);
  if (first == size_) return;
  const std::string message = broadcast(failure ? failure->message : "", first);
  const std::string status =
      broadcast(std::to_string(failure ? static_cast<int>(failure->status) : 0), first);
  const bool alike = lowest(*state_, failure && failure->message == message) == 1;
  throw Agreed(static_cast<Status>(parse_number<int>(status).value()),
               alike ? message : format("rank {}: {}", first, message));
}

int guarded(World& world, const std::function<int()>& work) {
  if (const std::string& refusal = world.state().refusal; !refusal.empty()) {
    log::error("trireme: error: " + refusal);
    return static_cast<int>(Status::resources);
  }
  try {
    return work();
  } catch (const Agreed& error) {
    try {
      return leave_together(world, error);
    } catch (...) {
      end_job(std::current_exception());
    }
  } catch (...) {
    end_job(std::current_exception());
  }
}

}  // namespace trireme::comm
