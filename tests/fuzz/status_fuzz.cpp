// status.toml of a run's directory: what is read is written and read again.
// SPDX-License-Identifier: Apache-2.0
#include "fuzz.hpp"
#include "io/run_status.hpp"

namespace trireme {
namespace {

std::string text_of(const io::RunStatus& status) {
  std::string text =
      format("{} {} {} {} {}\n", status.running, static_cast<int>(status.status),
             status.message, status.ended, status.steps);
  for (const io::RunStart& start : status.starts)
    text += format("{} {} {} {} {} {} {}\n", start.step, start.ranks, start.process.host,
                   start.process.pid, start.process.job, start.process.since, start.name);
  return text;
}

void check(std::string_view text) {
  fuzz::put("status.toml", text);
  const auto status =
      fuzz::unless_refused([] { return io::read_run_status(fuzz::folder()).value(); });
  if (!status) return;
  io::write_run_status(fuzz::folder(), *status);
  const auto again = io::read_run_status(fuzz::folder());
  if (!again) fuzz::finding("is written and not read");
  fuzz::require_equal("the status", text_of(*status), text_of(*again));
}

}  // namespace
}  // namespace trireme

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  trireme::check({reinterpret_cast<const char*>(data), size});
  return 0;
}
