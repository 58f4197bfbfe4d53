// A batch job that starts again and again must come further each time.
// SPDX-License-Identifier: Apache-2.0
#include "launch/restarts.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "base/descriptor.hpp"
#include "base/error.hpp"

namespace trireme::launch {

void require_progress(std::span<const io::RunStart> starts) {
  constexpr int most_starts = 3;  // from one step
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
  require(in_vain < most_starts, Status::resources,
          "job {} has started {} times from step {} without reaching a checkpoint, and "
          "stops here: look for the cause in its log (a hang? a time limit that is too "
          "short?), lower checkpoint.every, and submit it anew",
          now.process.job, in_vain, now.step);
}

void end_count_of_script() {
  if (const char* const counted = std::getenv("TRIREME_STARTS")) ::unlink(counted);
}

void name_bad_host(const std::string& host) {
  const char* const path = std::getenv("TRIREME_BAD_HOSTS");
  if (path == nullptr) return;
  const Descriptor file(::open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (file.is_open()) write_all(file.get(), host + "\n");
}

}  // namespace trireme::launch
