// A batch job that starts again and again must come further each time.
// SPDX-License-Identifier: Apache-2.0
#include "launch/restarts.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "base/descriptor.hpp"
#include "base/error.hpp"
#include "base/number.hpp"

namespace trireme::launch {

namespace {

// From one step.
int most_starts() {
  const char* const wanted = std::getenv("TRIREME_MOST_STARTS");
  if (wanted == nullptr) return 3;
  const auto number = parse_number<int>(wanted);
  require(
      number && *number >= 1, Status::command_line,
      "TRIREME_MOST_STARTS = \"{}\": write how many starts a job has from one step, 1 "
      "or more",
      wanted);
  return *number;
}

}  // namespace

void require_progress(std::span<const io::RunStart> starts) {
  const io::RunStart& now = starts.back();
  if (now.process.job.empty()) return;
  int in_vain = 0;  // in a row, up to now
  for (auto before = starts.rbegin() + 1; before != starts.rend(); ++before) {
    // Several runs of the program in one start of a job do not count.
    if (before->process.job != now.process.job ||
        std::pair(before->restart, before->attempt) >=
            std::pair(now.restart, now.attempt))
      continue;
    if (before->step != now.step) break;
    ++in_vain;
  }
  require(in_vain < most_starts(), Status::resources,
          "job {} has started {} times from step {} without reaching a checkpoint, and "
          "stops here: look for the cause in its log (a hang? a time limit that is too "
          "short?), lower checkpoint.every, and submit it anew (where failures are "
          "ordinary, with more TRIREME_MOST_STARTS)",
          now.process.job, in_vain, now.step);
}

void end_count_of_script() {
  if (const char* const counted = std::getenv("TRIREME_STARTS")) ::unlink(counted);
}

void note_copies_folder(const std::string& written) {
  const char* const path = std::getenv("TRIREME_COPIES_NOTE");
  if (path == nullptr) return;
  const Descriptor file(::open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (file.is_open()) write_all(file.get(), written + "\n");
}

void name_bad_host(const std::string& host) {
  const char* const path = std::getenv("TRIREME_BAD_HOSTS");
  if (path == nullptr) return;
  const Descriptor file(::open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (file.is_open()) write_all(file.get(), host + "\n");
}

}  // namespace trireme::launch
