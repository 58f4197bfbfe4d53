// `trireme selftest`: whether devices compute right, and whether hosts are slow.
// SPDX-License-Identifier: Apache-2.0
#include "selftest/selftest.hpp"

#include <algorithm>
#include <set>

#include "app/app.hpp"
#include "app/deck_arguments.hpp"
#include "base/counted.hpp"
#include "base/log.hpp"
#include "base/path.hpp"
#include "base/version.hpp"
#include "base/writable_folder.hpp"
#include "kernels/runtime/runtime.hpp"
#include "selftest/pass_record.hpp"
#include "selftest/speed.hpp"

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

constexpr std::string_view usage =
    "trireme selftest [--device auto|cpu|cuda] [--list] [--only PATTERN] "
    "[--fault PATTERN@RANK]\n"
    "trireme selftest --speed [--exclude FILE] [--below PERCENT] [--seconds N] [--quick] "
    "[--device auto|cpu|cuda] [--list] [--only PATTERN] [--fault PATTERN@RANK]";

// names: of all that could be done. Throws Error(command_line).
void require_named(const Arguments& arguments, const std::vector<std::string_view>& names,
                   const std::optional<selftest::Fault>& fault) {
  const auto fits_any = [&](const std::string& pattern) {
    return std::any_of(names.begin(), names.end(), [&](std::string_view name) {
      return selftest::fits(std::string(name), pattern);
    });
  };
  const std::string only = arguments.text("--only", "*");
  require(
      fits_any(only), Status::command_line,
      "--only: no measurement is called '{}'; 'trireme selftest --speed --list' names "
      "all, and * stands for any letters",
      only);
  require(
      !fault || fits_any(fault->pattern), Status::command_line,
      "--fault: no measurement is called '{}'; 'trireme selftest --speed --list' names "
      "all",
      fault ? fault->pattern : "");
}

void require_speed(const Arguments& arguments) {
  for (const char* option : {"--exclude", "--below", "--seconds", "--quick"})
    require(arguments.has("--speed") || !arguments.has(option), Status::command_line,
            "{} belongs to --speed, which measures hosts: add it", option);
}

// Before all is measured for a list that cannot be written.
void require_place_of(const std::string& path) {
  require(!is_folder(path), Status::cannot_create,
          "--exclude {}: is a folder: name a file in it", path);
  const auto slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  const std::string why = why_no_files_in(folder);
  require(why.empty(), Status::cannot_create,
          "--exclude: no file can be made in '{}': {}", folder, why);
}

selftest::SpeedOptions speed_options(const Arguments& arguments,
                                     const std::optional<selftest::Fault>& fault) {
  selftest::SpeedOptions options;
  options.quick = arguments.has("--quick");
  options.seconds =
      arguments.real("--seconds", options.quick ? 0.2 : options.seconds, 0.01, 86400);
  options.only = arguments.text("--only", options.only);
  if (arguments.has("--below"))
    options.below = arguments.real("--below", 0, 0, 100) / 100;
  options.fault = fault;
  if (arguments.has("--exclude")) options.exclude = arguments.text("--exclude", "");
  return options;
}

// Where the hosts' speeds are measured, in place of checks.
int measure_speed(comm::World& world, const Arguments& arguments,
                  const std::optional<selftest::Fault>& fault) {
  const std::vector<std::string_view> names = selftest::speed_names();
  selftest::SpeedOptions options;
  world.agree([&] {
    options = speed_options(arguments, fault);
    require_named(arguments, names, fault);
    if (options.exclude && world.rank() == 0) require_place_of(*options.exclude);
  });
  if (arguments.has("--list")) {
    for (const std::string_view name : names)
      if (selftest::fits(std::string(name), options.only)) log::line(name);
    return 0;
  }
  const kernels::Runtime runtime(0, world.ranks_on_node());
  const launch::ComputeDevice on = device_of(world, arguments);
  world.set_timeout(patience_seconds + 2 * options.seconds);
  const double hosts = world.sum(world.rank_on_node() == 0 ? 1 : 0);
  log::info("trireme {}  speed of {} on {}, {}", build_info().version,
            counted(world.size(), "rank"),
            counted(static_cast<std::int64_t>(hosts), "host"), on.describe());
  selftest::run_speed(world, on, options);
  return 0;
}

}  // namespace

int selftest(comm::World& world, const Arguments& given) {
  Arguments arguments = given;
  std::optional<selftest::Fault> fault;
  world.agree([&] {
    constexpr Option options[] = {
        {"--device", true}, {"--list", false},   {"--only", true},
        {"--fault", true},  {"--speed", false},  {"--exclude", true},
        {"--below", true},  {"--seconds", true}, {"--quick", false}};
    arguments.parse(usage, options, 0, 0);
    require_speed(arguments);
    if (!arguments.has("--fault")) return;
    const std::string text = arguments.text("--fault", "");
    fault = selftest::parse_fault(text);
    require(fault && fault->rank < world.size(), Status::command_line,
            "--fault: '{}' is not PATTERN@RANK with a rank from 0 to {}", text,
            world.size() - 1);
  });
  if (arguments.has("--speed")) return measure_speed(world, arguments, fault);
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
  log::info("trireme {}  self-test on {}, {}", build_info().version,
            counted(world.size(), "rank"), on.describe());
  selftest::run(world, on, checks, fault);
  if (!arguments.has("--only")) record(world, on);
  return 0;
}

}  // namespace trireme::app
