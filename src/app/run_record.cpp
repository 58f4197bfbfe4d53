// RunRecord: the lock and the status of a run, from its start to its end.
// SPDX-License-Identifier: Apache-2.0
#include "app/run_record.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <exception>

#include "app/software.hpp"
#include "base/environment.hpp"
#include "base/log.hpp"
#include "base/system_reason.hpp"
#include "base/version.hpp"
#include "base/writable_folder.hpp"
#include "comm/hosts.hpp"
#include "io/files.hpp"
#include "io/run_directory.hpp"
#include "launch/batch_job.hpp"
#include "launch/restarts.hpp"

namespace trireme::app {
namespace {

io::LockPatience patience_within(double limit_seconds) {
  constexpr double lease_seconds = 240;
  const double most =
      limit_seconds > 0 ? std::min(lease_seconds, limit_seconds / 2) : lease_seconds;
  io::LockPatience patience;
  patience.same_job = std::chrono::milliseconds(static_cast<std::int64_t>(most * 1000));
  return patience;
}

// What a start runs with, for whoever asks later why a run was different.
void note_surroundings(const comm::World& world, io::RunStatus& status) {
  status.program = build_info().version;
  status.software = software_lines();
  status.modules = environment_text("LOADEDMODULES");
  status.hosts.clear();
  const comm::HostTable& hosts = comm::hosts_of(world);
  for (int host = 0; host < hosts.hosts(); ++host)
    status.hosts.push_back(hosts.host(hosts.first_rank(host)));
}

}  // namespace

RunRecord::RunRecord(comm::World& world, const config::RunSettings& run,
                     double limit_seconds)
    : world_(world), directory_(run.directory) {
  world_.agree([&] {
    if (world_.rank() != 0) return;
    io::make_directories(directory_);
    Directory(directory_).require_file("status.toml");
    lock_.emplace(directory_, "lock", patience_within(limit_seconds));
    try {
      if (auto before = io::read_run_status(directory_))
        status_.starts = std::move(before->starts);
    } catch (const Error& error) {
      log::warn("{}", error.what());
    }
    status_.steps = run.steps;
    status_.starts.push_back({0, world_.size(), io::this_process(),
                              launch::batch_restarts(), launch::script_attempts()});
  });
}

void RunRecord::check() {
  world_.agree([&] {
    if (world_.rank() == 0) io::check_run_directory(directory_);
  });
}

void RunRecord::started(std::int64_t step, const std::string& name) {
  world_.agree([&] {
    if (world_.rank() != 0) return;
    io::RunStart now = std::move(status_.starts.back());
    status_.starts.pop_back();
    if (step == 0)  // earlier runs of the directory are gone, but a job may be stuck at 0
      std::erase_if(status_.starts, [&](const io::RunStart& before) {
        return now.process.job.empty() || before.process.job != now.process.job;
      });
    now.step = step;
    now.name = name;
    status_.starts.push_back(std::move(now));
    note_surroundings(world_, status_);
    if (step < status_.steps) launch::require_progress(status_.starts);
    io::write_run_status(directory_, status_);
    launch::end_count_of_script();
  });
}

void RunRecord::ended(Status status) {
  world_.agree([&] {
    if (world_.rank() != 0) return;
    status_.running = false;
    status_.status = status;
    status_.ended = io::utc_time();
    io::write_run_status(directory_, status_);
  });
}

void RunRecord::failed(Status status, const std::string& message) noexcept {
  if (world_.rank() != 0) return;
  try {
    // Who has moved or removed the directory is told why the run ends, and gets no other.
    if (::access(directory_.c_str(), F_OK) != 0) return;
    // The status in the directory is another job's, if that is why this one has failed.
    const auto holder = io::RunLock::holder(directory_);
    if (holder && holder->pid != io::this_process().pid) return;
    status_.running = false;
    status_.status = status;
    status_.message = message;
    status_.ended = io::utc_time();
    io::write_run_status(directory_, status_);
  } catch (const std::exception& error) {
    // It may be what is under way, and is said already.
    if (message != error.what()) log::error(std::string("trireme: ") + error.what());
  }
}

void require_run_directory(const std::string& directory) {
  std::string exists = directory.starts_with('/') ? "/" : ".", missing;
  for (auto at = directory.find('/', 1); missing.empty();
       at = directory.find('/', at + 1)) {
    std::string part = directory.substr(0, at);
    struct stat status {};
    if (::stat(part.c_str(), &status) != 0) {
      require(errno == ENOENT, Status::cannot_create, "{}: cannot be looked at: {}", part,
              system_reason(errno));
      missing = std::move(part);
      break;
    }
    require(S_ISDIR(status.st_mode), Status::cannot_create,
            "{}: cannot be made, for a file of that name exists", part);
    exists = std::move(part);
    if (at == std::string::npos) break;
  }
  const std::string why = why_no_files_in(exists);
  require(why.empty(), Status::cannot_create, "{}: the directory cannot be {}: {}",
          missing.empty() ? exists : missing, missing.empty() ? "written to" : "made",
          why);
  if (!missing.empty()) return;
  io::check_run_directory(directory);
  io::RunLock::require_free(directory);
}

Status recorded(RunRecord& record, const std::function<Status()>& work) {
  Status status{};
  try {
    record.check();
    status = work();
  } catch (const Error& error) {
    record.failed(error.status(), error.what());
    throw;
  } catch (const std::exception& error) {
    record.failed(Status::internal, error.what());
    throw;
  }
  record.ended(status);
  return status;
}

}  // namespace trireme::app
