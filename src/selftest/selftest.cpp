// The self-test: runs checks, agrees on what the ranks found, prints it.
// SPDX-License-Identifier: Apache-2.0
#include "selftest/selftest.hpp"

#include <fnmatch.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iterator>
#include <utility>

#include "base/counted.hpp"
#include "base/log.hpp"
#include "base/number.hpp"

namespace trireme::selftest {
namespace {

constexpr int most_named = 4;  // ranks in one message; then their number

// "1.2e-07": errors of all sizes side by side.
std::string scientific(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1e", value);
  return text;
}

// What the ranks found in one check, known to rank 0 alone.
struct Findings {
  std::vector<Finding> of_ranks;

  std::vector<int> wrong() const {
    std::vector<int> ranks;
    for (std::size_t r = 0; r < of_ranks.size(); ++r)
      if (of_ranks[r].wrong()) ranks.push_back(static_cast<int>(r));
    return ranks;
  }
  const Finding& worst() const {
    return *std::max_element(
        of_ranks.begin(), of_ranks.end(),
        [](const Finding& a, const Finding& b) { return a.share() < b.share(); });
  }
};

Findings gather(comm::World& world, const Finding& mine) {
  const auto errors = world.gather(mine.error), bounds = world.gather(mine.bound);
  const auto reasons = world.gather_text(mine.left_out);
  Findings all;
  for (std::size_t r = 0; r < errors.size(); ++r)
    all.of_ranks.push_back({errors[r], bounds[r], 1, reasons[r]});
  return all;
}

// A check of this rank's device. One that the device cannot do is left out; any other
// error says in which check it was, and where.
void run_here(const comm::World& world, const Check& check, Probe& probe) {
  try {
    check.run(probe);
  } catch (const Error& error) {
    if (error.status() == Status::resources && !check.collective)
      return probe.leave_out(error.what());
    throw Error(error.status(),
                format("self-test, {}, on rank {} (host {}): {}", check.name,
                       world.rank(), world.host(), error.what()));
  }
}

Finding find(comm::World& world, const launch::ComputeDevice& on, const Check& check,
             bool faulty) {
  Probe probe(on.device, faulty);
  if (check.collective) {
    run_here(world, check, probe);
  } else {
    world.agree([&] { run_here(world, check, probe); });
  }
  return probe.finding();
}

// Prints the lines, and remembers who was wrong.
class Report {
 public:
  Report(comm::World& world, const launch::ComputeDevice& on)
      : places_(
            world.gather_text(format("host {}, {}", world.host(),
                                     on.device.is_cuda() ? on.gpu.name : "CPU") +
                              (on.device.is_cuda() ? " at " + on.gpu.pci_bus_id : ""))) {}

  void add(const Check& check, const Findings& found) {
    const auto left_out =
        std::count_if(found.of_ranks.begin(), found.of_ranks.end(),
                      [](const Finding& one) { return !one.left_out.empty(); });
    const auto ranks = static_cast<std::ptrdiff_t>(found.of_ranks.size());
    ++summary.checks;
    summary.left_out += left_out == ranks ? 1 : 0;
    const std::vector<int> wrong = found.wrong();
    std::string line = check.name;
    line.resize(std::max<std::size_t>(line.size() + 1, 44), ' ');
    if (left_out == ranks) {
      line += "left out: " + found.of_ranks.front().left_out;
    } else {
      line += format("error {}  bound {}  {}", scientific(found.worst().error),
                     scientific(found.worst().bound),
                     wrong.empty() ? "ok" : "WRONG on " + named(wrong));
      if (left_out > 0) line += format(" (left out on {})", counted(left_out, "rank"));
    }
    log::line(line);
    if (wrong.empty()) return;
    ++summary.wrong;
    if (first_.empty())
      first_ = format("{} (error {}, bound {})", check.name,
                      scientific(found.worst().error), scientific(found.worst().bound));
    for (const int rank : wrong)
      if (std::find(ranks_.begin(), ranks_.end(), rank) == ranks_.end())
        ranks_.push_back(rank);
  }

  // "" where nothing was wrong.
  std::string message() const {
    if (ranks_.empty()) return "";
    std::vector<int> ranks = ranks_;
    std::sort(ranks.begin(), ranks.end());
    return format(
        "{} gave wrong results in {} of {}, first in: {}. Take the device out of "
        "the job and run the self-test there once more; if it is wrong again, have it "
        "looked at",
        named(ranks), summary.wrong, counted(summary.checks, "check"), first_);
  }

  Summary summary;

 private:
  // "rank 1 (host a, CPU), rank 3 (host b, CPU)"
  std::string named(const std::vector<int>& ranks) const {
    std::string text;
    for (std::size_t i = 0; i < ranks.size() && i < most_named; ++i)
      text += format("{}rank {} ({})", i > 0 ? ", " : "", ranks[i],
                     places_[static_cast<std::size_t>(ranks[i])]);
    if (ranks.size() > most_named)
      text += format(" and {} more ranks", ranks.size() - most_named);
    return text;
  }

  std::vector<std::string> places_;  // of the ranks
  std::vector<int> ranks_;           // that were wrong in any check
  std::string first_;
};

std::string last_line(const Summary& summary) {
  return format("self-test: {}, {} left out, {} wrong, {} s",
                counted(summary.checks, "check"), summary.left_out, summary.wrong,
                fixed(summary.seconds, 1));
}

}  // namespace

std::optional<Fault> parse_fault(std::string_view text) {
  const auto at = text.rfind('@');
  if (at == std::string_view::npos || at == 0) return std::nullopt;
  const auto rank = parse_number<int>(text.substr(at + 1));
  if (!rank || *rank < 0) return std::nullopt;
  return Fault{std::string(text.substr(0, at)), *rank};
}

bool fits(const std::string& name, const std::string& pattern) {
  return ::fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

std::vector<Check> all_checks(comm::World& world, const launch::ComputeDevice& on) {
  std::vector<Check> checks = kernel_checks();
  for (Check& check : collective_checks(world, on)) checks.push_back(std::move(check));
  for (Check& check : training_checks()) checks.push_back(std::move(check));
  return checks;
}

Summary run(comm::World& world, const launch::ComputeDevice& on,
            const std::vector<Check>& checks, const std::optional<Fault>& fault) {
  Report report(world, on);
  bool spoiled = false;
  world.barrier();
  const auto start = std::chrono::steady_clock::now();
  for (const Check& check : checks) {
    const bool faulty = fault && !spoiled && fits(check.name, fault->pattern);
    spoiled |= faulty;
    const Finding mine = find(world, on, check, faulty && fault->rank == world.rank());
    const Findings all = gather(world, mine);
    if (world.rank() == 0) report.add(check, all);
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  report.summary.seconds = seconds.count();
  if (world.rank() == 0) log::line(last_line(report.summary));
  const std::string wrong = world.broadcast(report.message());
  if (!wrong.empty()) throw comm::Agreed(Status::corruption, wrong);
  return report.summary;
}

}  // namespace trireme::selftest
