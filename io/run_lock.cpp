// One job at a time in a run's directory.
// SPDX-License-Identifier: Apache-2.0
#include "io/run_lock.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.hpp"
#include "base/log.hpp"
#include "io/files.hpp"

namespace trireme::io {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t refresh_seconds = 30, silent_seconds = 600;
constexpr std::int64_t most_bytes = 65536;

struct Holder {
  std::string host, job, started;
  std::int64_t process = 0;
};

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "?";
  return name.data();
}

// Which of the processes that had this number: field 22 of Linux's stat file, the time
// of its start. "" where there is no such file.
std::string start_of(std::int64_t process) {
  std::string text;
  try {
    text = read_text(format("/proc/{}/stat", process), most_bytes);
  } catch (const Error&) {
    return "";
  }
  const auto name_end = text.rfind(')');
  std::size_t at = name_end == std::string::npos ? 0 : name_end + 2;
  for (int field = 3; field < 22 && at < text.size(); ++field)
    at = text.find(' ', at) + 1;
  return text.substr(at, text.find(' ', at) - at);
}

// A process that has ended but that its parent has not waited for still has its number.
bool is_zombie(std::int64_t process) {
  try {
    const std::string text = read_text(format("/proc/{}/stat", process), most_bytes);
    const auto name_end = text.rfind(") ");
    return name_end != std::string::npos && name_end + 2 < text.size() &&
           (text[name_end + 2] == 'Z' || text[name_end + 2] == 'X');
  } catch (const Error&) {
    return false;
  }
}

std::string job_id() {
  for (const char* name : {"SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "FLUX_JOB_ID"})
    if (const char* value = std::getenv(name)) return value;
  return "";
}

Holder this_process() {
  return {host_name(), job_id(), start_of(::getpid()), ::getpid()};
}

std::string to_text(const Holder& holder) {
  return Json{{"host", holder.host},
              {"process", holder.process},
              {"started", holder.started},
              {"job", holder.job}}
             .dump() +
         "\n";
}

Holder holder_of(const std::string& text) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return {};
  try {
    return {json.at("host").get<std::string>(), json.at("job").get<std::string>(),
            json.at("started").get<std::string>(),
            json.at("process").get<std::int64_t>()};
  } catch (const nlohmann::json::exception&) {
    return {};
  }
}

std::string describe(const Holder& holder) {
  return format("process {} on {}{}", holder.process, holder.host,
                holder.job.empty() ? "" : " (job " + holder.job + ")");
}

// Why the holder cannot be at work any more, or "".
std::string why_stale(const Holder& holder, std::int64_t silent) {
  const Holder here = this_process();
  if (holder.host.empty()) return "names nobody";
  if (holder.host == here.host) {
    const bool lives =
        ::kill(static_cast<pid_t>(holder.process), 0) == 0 || errno == EPERM;
    if (!lives || is_zombie(holder.process)) return "has ended";
    const std::string started = start_of(holder.process);
    if (!started.empty() && started != holder.started) return "has ended";
    return holder.process == here.process ? "is this one" : "";
  }
  if (!here.job.empty() && holder.job == here.job)
    return "was this job before its requeue";
  if (silent > silent_seconds) return format("has been silent for {} s", silent);
  return "";
}

}  // namespace

RunLock::RunLock(const std::string& directory)
    : path_(directory + "/lock"), text_(to_text(this_process())) {
  const auto reason = [] { return std::string(std::strerror(errno)); };
  file_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (file_ < 0) fail(Status::cannot_create, "{}: {}", path_, reason());
  try {
    // Some file systems have no such locks; the file itself must do there.
    const bool held = ::flock(file_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    const std::string before = read_text(path_, most_bytes);
    const Holder holder = holder_of(before);
    struct stat status {};
    ::fstat(file_, &status);
    const std::string stale =
        before.empty() ? "names nobody"
                       : why_stale(holder, std::time(nullptr) - status.st_mtime);
    require(!held && !stale.empty(), Status::cannot_create,
            "{}: this run's directory is in use by {}; wait for its end, or give another "
            "run.directory{}",
            path_, holder.host.empty() ? "another process" : describe(holder),
            held ? "" : "; if it is gone for good, remove this file");
    if (!before.empty())
      log::warn("{}: left by {}, which {}; taken over", path_, describe(holder), stale);
    const auto bytes = static_cast<ssize_t>(text_.size());
    require(::ftruncate(file_, 0) == 0 &&
                ::pwrite(file_, text_.data(), text_.size(), 0) == bytes,
            Status::io, "{}: cannot be written: {}", path_, reason());
  } catch (...) {
    ::close(file_);
    throw;
  }
  refreshed_ = std::time(nullptr);
}

RunLock::~RunLock() {
  try {
    check();
    ::unlink(path_.c_str());
  } catch (const Error&) {  // it is another's
  }
  ::close(file_);
}

void RunLock::refresh() {
  const std::int64_t now = std::time(nullptr);
  if (now - refreshed_ < refresh_seconds) return;
  refreshed_ = now;
  ::futimens(file_, nullptr);
}

void RunLock::check() const {
  std::string text;
  try {
    text = read_text(path_, most_bytes);
  } catch (const Error&) {  // removed: nobody's
  }
  require(text == text_, Status::io,
          "{}: this run's directory has been taken over by {}; nothing more is written "
          "here",
          path_,
          text.empty() ? "somebody who removed this file" : describe(holder_of(text)));
}

}  // namespace trireme::io
