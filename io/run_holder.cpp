// Who works in a run's directory, for those that only look.
// SPDX-License-Identifier: Apache-2.0
#include "io/run_holder.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/error.hpp"

namespace trireme::io {
namespace {

constexpr std::int64_t silent_seconds = 600;  // as RunLock has it

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string job_name() {
  const std::string array = variable("SLURM_ARRAY_JOB_ID");
  if (!array.empty()) return array + "_" + variable("SLURM_ARRAY_TASK_ID");
  for (const char* const name : {"SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "FLUX_JOB_ID"})
    if (const std::string job = variable(name); !job.empty()) return job;
  return "";
}

// What the file says; what it does not have stays empty, for a holder may be writing it.
ProcessName named_in(int file) {
  std::array<char, 4096> text{};
  const ssize_t got = ::pread(file, text.data(), text.size(), 0);
  const auto json = nlohmann::json::parse(text.data(), text.data() + (got > 0 ? got : 0),
                                          nullptr, false);
  ProcessName who;
  if (!json.is_object()) return who;
  const auto find = [&](const char* key) {
    const auto found = json.find(key);
    return found == json.end() ? nlohmann::json() : *found;
  };
  if (const auto host = find("host"); host.is_string()) who.host = host;
  if (const auto pid = find("process"); pid.is_number_integer()) who.pid = pid;
  if (const auto job = find("job"); job.is_string()) who.job = job;
  return who;
}

std::optional<ProcessName> holder_in(int file) {
  const ProcessName who = named_in(file);
  if (::flock(file, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK) return who;
  struct stat status {};
  const bool heard_of = ::fstat(file, &status) == 0 &&
                        std::time(nullptr) - status.st_mtime < silent_seconds;
  if (!who.host.empty() && who.host != this_process().host && heard_of) return who;
  return {};
}

}  // namespace

std::string ProcessName::describe() const {
  if (host.empty()) return "a process that has not given its name";
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
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  return {host.data(), ::getpid(), job_name(), utc_time()};
}

std::optional<ProcessName> run_holder(const std::string& directory) {
  const std::string path = directory + "/lock";
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) {
    const int error = errno;
    require(error == ENOENT || error == ENOTDIR, Status::io, "{}: cannot be read: {}",
            path, std::strerror(error));
    return {};
  }
  const auto who = holder_in(file);
  ::close(file);
  return who;
}

void wait_for_leaving_holder(const std::string& directory, double seconds) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  while (run_holder(directory) && Clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
}

}  // namespace trireme::io
