// RunLock: one job at a time writes into a run's directory.
// SPDX-License-Identifier: Apache-2.0
#include "io/run_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>
#include <thread>
#include <utility>

#include "base/environment.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "base/system_reason.hpp"
#include "comm/rank_names.hpp"
#include "io/deck_toml.hpp"

namespace trireme::io {
namespace {

constexpr auto lock_name = "lock";

std::string job_name() {
  const std::string array = environment_text("SLURM_ARRAY_JOB_ID");
  if (!array.empty()) return array + "_" + environment_text("SLURM_ARRAY_TASK_ID");
  for (const char* const name : {"SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID"})
    if (const std::string job = environment_text(name); !job.empty()) return job;
  return "";
}

std::string text_of(const ProcessName& who) {
  return format("host = {}\npid = {}\njob = {}\nsince = {}\n", quote_toml(who.host),
                who.pid, quote_toml(who.job), quote_toml(who.since));
}

// What the file says; fields that it does not have stay empty, for a holder may be
// writing it.
ProcessName read_holder(int file) {
  std::array<char, 4096> text{};
  const auto read = [&] { return ::pread(file, text.data(), text.size(), 0); };
  const auto got = uninterrupted(read);
  ProcessName who;
  try {
    const auto size = static_cast<std::size_t>(got > 0 ? got : 0);
    for (const auto& [name, line, column, value] :
         parse_toml(std::string(text.data(), size)).members) {
      if (name == "host") who.host = value.text;
      if (name == "pid") who.pid = value.whole;
      if (name == "job") who.job = value.text;
      if (name == "since") who.since = value.text;
    }
  } catch (const TomlError&) {
  }
  return who;
}

// Whether the lock was had. Throws Error(status) when the file system has none.
bool try_lock(int file, int how, const std::string& path, Status status) {
  while (::flock(file, how | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno == EWOULDBLOCK) return false;
    fail(status,
         "{}: cannot be locked: {}; put run.directory on a file system with flock "
         "(Lustre: mounted with \"flock\")",
         path, system_reason(errno));
  }
  return true;
}

// Whether `file` is still what bears the lock's name: its holder may have removed it
// between our open and our lock.
bool is_current(int file, const Directory& folder, const std::string& name) {
  struct stat opened {
  }, there{};
  return ::fstat(file, &opened) == 0 &&
         ::fstatat(folder.descriptor(), name.c_str(), &there, AT_SYMLINK_NOFOLLOW) == 0 &&
         opened.st_ino == there.st_ino && opened.st_dev == there.st_dev;
}

// Whether one of several tries within that time succeeded; there is one in any case.
template <class Try>
bool keep_trying(std::chrono::milliseconds most, const Try& succeeds) {
  constexpr std::chrono::milliseconds pause{50};
  const auto end = std::chrono::steady_clock::now() + most;
  while (!succeeds()) {
    if (std::chrono::steady_clock::now() + pause > end) return false;
    std::this_thread::sleep_for(pause);
  }
  return true;
}

bool is_of_this_job(const ProcessName& who) {
  return !who.job.empty() && who.job == job_name();
}

[[noreturn]] void fail_held(const std::string& path, const ProcessName& holder) {
  const bool run = last_name_of(path) == lock_name;
  fail(Status::cannot_create, "{} is held by {}: another {}", path, holder.describe(),
       run ? "job writes into this run.directory; wait for it, or give this run another"
           : "command writes the same files; wait for it, or give this one another name");
}

void write_holder(int file, const std::string& path) {
  const auto empty = [&] { return ::ftruncate(file, 0); };
  if (uninterrupted(empty) != 0 || !write_all(file, text_of(this_process())))
    fail(Status::io, "{}: write failed: {}", path, system_reason(errno));
}

}  // namespace

std::string ProcessName::describe() const {
  if (pid == 0) return "a process that has not given its name";
  std::string text = format("process {} on {}", pid, host);
  if (!job.empty()) text += ", job " + job;
  return since.empty() ? text : text + ", since " + since;
}

std::string utc_time() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text.data();
}

ProcessName this_process() {
  return {comm::own_host(), ::getpid(), job_name(), utc_time()};
}

RunLock::RunLock(const std::string& directory, std::string name,
                 const LockPatience& patience)
    : folder_(directory), name_(std::move(name)), path_(folder_.path_of(name_)) {
  if (keep_trying(patience.leaving, [&] { return take(); })) return;
  if (wait_for_own_job(patience.same_job)) return;
  if (file_.is_open()) fail_held(path_, read_holder(file_.get()));
  fail(Status::cannot_create, "{}: is removed by another process again and again", path_);
}

// Another process of the job may be at work here all the same: that is an error, which is
// told later than it would be of another job's.
bool RunLock::wait_for_own_job(std::chrono::milliseconds most) {
  if (most.count() <= 0 || !file_.is_open()) return false;
  const ProcessName first = read_holder(file_.get());
  if (!is_of_this_job(first)) return false;
  log::warn(
      "{} is still held by {}, which is this job, too: the file system may keep the lock "
      "of a node that was lost; it is waited for, up to {}",
      path_, first.describe(), human_seconds(static_cast<double>(most.count()) / 1000));
  bool taken = false;
  keep_trying(most, [&] {
    taken = take();
    return taken || (file_.is_open() && !is_of_this_job(read_holder(file_.get())));
  });
  return taken;
}

// Leaves the file open when another process holds it.
bool RunLock::take() {
  file_ = folder_.open_to_write(name_);
  if (!try_lock(file_.get(), LOCK_EX, path_, Status::cannot_create)) return false;
  if (is_current(file_.get(), folder_, name_)) {
    // One that has other names too is not ours to write: the next try makes another.
    if (!folder_.is_shared(name_)) {
      try {
        write_holder(file_.get(), path_);
      } catch (const Error&) {  // a full disk: nobody holds it then
        folder_.remove(name_);
        throw;
      }
      return true;
    }
    if (!folder_.remove(name_))
      fail(Status::cannot_create, "{}: cannot be removed: {}", path_,
           system_reason(errno));
  }
  file_.close();
  return false;
}

RunLock::~RunLock() {
  if (is_current(file_.get(), folder_, name_)) folder_.remove(name_);
}

void RunLock::require_free(const std::string& directory) {
  const Directory folder(directory);
  if (!folder.has(lock_name)) return;
  folder.require_file(lock_name);
  const std::string path = folder.path_of(lock_name);
  std::optional<ProcessName> who;
  const bool free = keep_trying(LockPatience{}.leaving, [&] {
    who = holder(directory);
    return !who;
  });
  if (!free) fail_held(path, *who);
  require(::faccessat(folder.descriptor(), lock_name, R_OK | W_OK, AT_EACCESS) == 0 ||
              errno == ENOENT,
          Status::cannot_create, "{}: cannot be opened: {}", path, system_reason(errno));
}

bool RunLock::is_there(const std::string& directory) {
  struct stat status {};
  return ::lstat((directory + "/" + lock_name).c_str(), &status) == 0;
}

std::optional<ProcessName> RunLock::holder(const std::string& directory) {
  const std::string path = directory + "/" + lock_name;
  const Descriptor file(uninterrupted([&] {
    return ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
  }));
  if (!file.is_open()) {
    const int error = errno;
    require(error == ENOENT || error == ENOTDIR, Status::io, "{}: cannot be read: {}",
            path, error == ELOOP ? "it is a symbolic link" : system_reason(error));
    return {};
  }
  struct stat status {};
  const bool known = ::fstat(file.get(), &status) == 0;
  require(known && S_ISREG(status.st_mode), Status::io, "{}: cannot be read: it {}", path,
          what_is_irregular(status.st_mode));
  if (try_lock(file.get(), LOCK_SH, path, Status::io)) return {};
  return read_holder(file.get());
}

}  // namespace trireme::io
