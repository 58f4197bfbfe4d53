// status.toml of a run's directory: how it was started, and how it ended.
// SPDX-License-Identifier: Apache-2.0
#include "io/run_status.hpp"

#include <sys/stat.h>

#include "base/text.hpp"
#include "io/deck_toml.hpp"
#include "io/files.hpp"

namespace trireme::io {
namespace {

constexpr std::int64_t most_bytes = 4 << 20;

std::string path_in(const std::string& directory) { return directory + "/status.toml"; }

std::string list_of(const std::vector<std::string>& texts) {
  std::string list;
  for (const std::string& text : texts)
    list += format("{}\n  {}", list.empty() ? "" : ",", quote_toml(valid_utf8(text)));
  return "[" + list + "]";
}

RunStart read_start(const TomlValue& table) {
  RunStart start;
  for (const auto& [name, line, column, value] : table.members) {
    if (name == "step") start.step = value.whole;
    if (name == "ranks") start.ranks = value.whole;
    if (name == "time") start.process.since = value.text;
    if (name == "host") start.process.host = value.text;
    if (name == "pid") start.process.pid = value.whole;
    if (name == "job") start.process.job = value.text;
    if (name == "restart") start.restart = static_cast<int>(value.whole);
    if (name == "attempt") start.attempt = static_cast<int>(value.whole);
    if (name == "name") start.name = value.text;
  }
  return start;
}

}  // namespace

void write_run_status(const std::string& directory, const RunStatus& status) {
  std::string text = format(
      "# State of this run, as of its last start or end.\n"
      "state = {}\nstatus = {}\nmessage = {}\nended = {}\nsteps = {}\n",
      status.running ? "\"running\"" : "\"ended\"", static_cast<int>(status.status),
      quote_toml(valid_utf8(status.message)), quote_toml(status.ended), status.steps);
  if (!status.program.empty())
    text += format("program = {}\nsoftware = {}\nhosts = {}\nmodules = {}\n",
                   quote_toml(status.program), list_of(status.software),
                   list_of(status.hosts), quote_toml(valid_utf8(status.modules)));
  for (const RunStart& start : status.starts)
    text += format(
        "\n[[starts]]\nstep = {}\nranks = {}\ntime = {}\nhost = {}\npid = {}\njob = {}\n"
        "restart = {}\n{}{}",
        start.step, start.ranks, quote_toml(start.process.since),
        quote_toml(valid_utf8(start.process.host)), start.process.pid,
        quote_toml(valid_utf8(start.process.job)), start.restart,
        start.attempt > 0 ? format("attempt = {}\n", start.attempt) : std::string(),
        start.name.empty() ? std::string()
                           : format("name = {}\n", quote_toml(valid_utf8(start.name))));
  write_text_atomically(path_in(directory), text);
}

std::optional<RunStatus> read_run_status(const std::string& directory) {
  const std::string path = path_in(directory);
  // What is there but is no file, or leads nowhere, is for read_text() to name.
  struct stat there {};
  if (::lstat(path.c_str(), &there) != 0) return {};
  RunStatus status;
  try {
    for (const auto& [name, line, column, value] :
         parse_toml(read_text(path, most_bytes)).members) {
      if (name == "state") status.running = value.text == "running";
      if (name == "status") status.status = static_cast<Status>(value.whole);
      if (name == "message") status.message = value.text;
      if (name == "ended") status.ended = value.text;
      if (name == "steps") status.steps = value.whole;
      if (name != "starts") continue;
      for (const auto& item : value.items) status.starts.push_back(read_start(item));
    }
  } catch (const TomlError& error) {
    fail(Status::bad_content, "{}:{}: {}; remove it, the next start writes it anew", path,
         error.line, error.what());
  }
  return status;
}

}  // namespace trireme::io
