// Ranks of this job among the processes of this host.
// SPDX-License-Identifier: Apache-2.0
#include "comm/job_processes.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>

#include "base/format.hpp"
#include "base/number.hpp"
#include "base/process_stat.hpp"
#include "comm/launcher.hpp"
#include "comm/rank_list.hpp"

namespace trireme::comm {
namespace {

namespace fs = std::filesystem;

// The value of a variable; empty where there is none.
std::string_view value_of(std::string_view environment, std::string_view name) {
  while (!environment.empty()) {
    const auto end = std::min(environment.find('\0'), environment.size());
    const std::string_view entry = environment.substr(0, end);
    if (entry.size() > name.size() && entry.starts_with(name) &&
        entry[name.size()] == '=')
      return entry.substr(name.size() + 1);
    environment.remove_prefix(std::min(end + 1, environment.size()));
  }
  return {};
}

std::string text_in(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

bool is_stopped(pid_t process) {
  const auto stat = process_stat(process);
  return stat && (stat->state == 'T' || stat->state == 't');
}

std::string program_of(const fs::path& process) {
  std::error_code ignored;
  return fs::read_symlink(process / "exe", ignored).string();
}

std::vector<JobProcess> processes_of_job() {
  std::vector<JobProcess> found;
  const fs::path self = "/proc/self";
  const std::string job = job_names(text_in(self / "environ")).job;
  const std::string program = program_of(self);
  if (job.empty() || program.empty()) return found;
  std::error_code failed;
  for (fs::directory_iterator at("/proc", failed), end; !failed && at != end;
       at.increment(failed)) {
    const fs::path process = at->path();
    const auto number = parse_number<int>(process.filename().string());
    if (!number) continue;
    const JobNames names = job_names(text_in(process / "environ"));
    if (names.job != job || !names.rank) continue;
    std::string name = text_in(process / "comm");
    while (name.ends_with('\n')) name.pop_back();
    found.push_back({*names.rank, *number, name, program_of(process) == program,
                     is_stopped(*number)});
  }
  return found;
}

std::string list(const std::vector<JobProcess>& processes, const char* what) {
  constexpr std::size_t most = 4;
  std::string text;
  for (std::size_t i = 0; i < std::min(most, processes.size()); ++i)
    text += format("{}rank {} {} (process {}, '{}')", i > 0 ? ", " : "",
                   processes[i].rank, what, processes[i].process, processes[i].name);
  if (processes.size() > most) text += format(" and {} more", processes.size() - most);
  return text;
}

}  // namespace

JobNames job_names(std::string_view environment) {
  JobNames names;
  if (const auto space = value_of(environment, "PMIX_NAMESPACE"); !space.empty())
    names.job = space;
  else if (const auto job = value_of(environment, "SLURM_JOB_ID"); !job.empty())
    names.job = format("{}.{}", job, value_of(environment, "SLURM_STEP_ID"));
  for (const char* const name : rank_variables)
    if (const auto text = value_of(environment, name); !text.empty()) {
      names.rank = parse_number<int>(text);
      break;
    }
  return names;
}

JobHere sort_processes(const std::vector<JobProcess>& processes, int expected) {
  std::map<int, JobProcess> of_rank;  // the program before what has started it
  for (const JobProcess& process : processes) {
    const auto [at, is_new] = of_rank.emplace(process.rank, process);
    if (is_new) continue;
    JobProcess& known = at->second;
    if (process.is_program == known.is_program ? process.process < known.process
                                               : process.is_program)
      known = process;
  }
  JobHere here{.started = {}, .missing = {}, .stopped = {}, .expected = expected};
  for (const auto& [rank, process] : of_rank) {
    if (!process.is_program) {
      here.missing.push_back(process);
      continue;
    }
    here.started.push_back(rank);
    if (process.is_stopped) here.stopped.push_back(process);
  }
  return here;
}

JobHere job_here() {
  const char* const size = std::getenv("OMPI_COMM_WORLD_LOCAL_SIZE");
  return sort_processes(processes_of_job(),
                        size != nullptr ? parse_number<int>(size).value_or(0) : 0);
}

std::string describe(const JobHere& here) {
  std::string text;
  const auto add = [&](const std::string& more) {
    if (!more.empty()) text += (text.empty() ? "" : "; ") + more;
  };
  add(list(here.missing, "has not started the program"));
  add(list(here.stopped, "is stopped"));
  if (const auto known = std::ssize(here.started) + std::ssize(here.missing);
      known < here.expected)
    add(format("{} of the {} ranks of this host have no process", here.expected - known,
               here.expected));
  if (!text.empty()) return text;
  const std::string come = here.started.empty() ? "this rank has"
                                                : format("ranks {} of this host have",
                                                         ranks_text(here.started));
  return come +
         " come: look at the hosts of other ranks (does the program start there, do "
         "their networks reach this one?), and at what the launcher says";
}

}  // namespace trireme::comm
