// `trireme selftest`: whether this build computes right on the devices it is started on.
// SPDX-License-Identifier: Apache-2.0
#include "selftest/selftest.hpp"

#include <algorithm>
#include <set>

#include "app/app.hpp"
#include "app/deck_arguments.hpp"
#include "base/log.hpp"
#include "base/version.hpp"
#include "kernels/runtime/runtime.hpp"
#include "selftest/pass_record.hpp"

namespace trireme::app {
namespace {

// Far longer than any check takes: what waits longer waits for a rank that hangs.
constexpr double patience_seconds = 300;

std::vector<selftest::Check> chosen(comm::World& world, const launch::ComputeDevice& on,
                                    const std::string& pattern) {
  std::vector<selftest::Check> checks = selftest::all_checks(world, on);
  std::erase_if(checks, [&](const selftest::Check& check) {
    return !selftest::fits(check.name, pattern);
  });
  world.agree([&] {
    require(!checks.empty(), Status::command_line,
            "--only: no check is called '{}'; 'trireme selftest --list' names all, and * "
            "stands for any letters",
            pattern);
  });
  return checks;
}

// A record for each kind of GPU among the ranks, written by rank 0.
void record(comm::World& world, const launch::ComputeDevice& on) {
  if (!on.device.is_cuda()) return;
  const auto names = world.gather_text(selftest::record_name(on.gpu));
  if (world.rank() != 0) return;
  std::string why;
  for (const std::string& name : std::set<std::string>(names.begin(), names.end()))
    if (why.empty()) why = selftest::record_pass(name);
  if (why.empty())
    log::info("recorded in {}", selftest::record_folder());
  else
    log::info("not recorded, train will ask for it again: {}", why);
}

}  // namespace

int selftest(comm::World& world, const Arguments& given) {
  Arguments arguments = given;
  std::optional<selftest::Fault> fault;
  world.agree([&] {
    constexpr Option options[] = {
        {"--device", true}, {"--list", false}, {"--only", true}, {"--fault", true}};
    arguments.parse(
        "trireme selftest [--device auto|cpu|cuda] [--list] [--only PATTERN] "
        "[--fault PATTERN@RANK]",
        options, 0, 0);
    if (!arguments.has("--fault")) return;
    const std::string text = arguments.text("--fault", "");
    fault = selftest::parse_fault(text);
    require(fault && fault->rank < world.size(), Status::command_line,
            "--fault: '{}' is not PATTERN@RANK with a rank from 0 to {}", text,
            world.size() - 1);
  });
  const kernels::Runtime runtime(0, world.ranks_on_node());
  const launch::ComputeDevice on = device_of(world, arguments);
  const auto checks = chosen(world, on, arguments.text("--only", "*"));
  world.agree([&] {
    require(!fault || std::any_of(checks.begin(), checks.end(),
                                  [&](const selftest::Check& check) {
                                    return selftest::fits(check.name, fault->pattern);
                                  }),
            Status::command_line,
            "--fault: no check that is made is called '{}'; 'trireme selftest --list' "
            "names all",
            fault ? fault->pattern : "");
  });
  if (arguments.has("--list")) {
    for (const selftest::Check& check : checks) log::line(check.name);
    return 0;
  }
  world.set_timeout(patience_seconds);
  log::info("trireme {}  self-test on {} ranks, {}", build_info().version, world.size(),
            on.describe());
  selftest::run(world, on, checks, fault);
  if (!arguments.has("--only")) record(world, on);
  return 0;
}

}  // namespace trireme::app
