// HostTable: names of hosts are put together to runs as they come.
// SPDX-License-Identifier: Apache-2.0
#include "comm/host_table.hpp"

#include <algorithm>
#include <sstream>

#include "base/error.hpp"
#include "base/number.hpp"

namespace trireme::comm {

namespace {

// How many digits a name ends with, as far as a number has room for them.
std::size_t digits_of(std::string_view name) {
  constexpr std::size_t most = 9;
  std::size_t digits = 0;
  while (digits < std::min(name.size(), most) && name[name.size() - 1 - digits] >= '0' &&
         name[name.size() - 1 - digits] <= '9')
    ++digits;
  return digits;
}

}  // namespace

// The number is what the name ends with ("node0012", "10.0.0.12"), else what its first
// label does ("node0012.cluster").
HostTable::Run HostTable::run_of(std::string_view host) {
  std::string_view numbered = host;
  if (digits_of(host) == 0) numbered = host.substr(0, host.find('.'));
  const std::size_t digits = digits_of(numbered);
  if (digits == 0) numbered = host;
  const auto prefix = numbered.substr(0, numbered.size() - digits);
  const auto number = numbered.substr(numbered.size() - digits);
  return {.prefix = std::string(prefix),
          .suffix = std::string(host.substr(numbered.size())),
          .number = parse_number<std::int64_t>(std::string(number)).value_or(0),
          .digits = static_cast<int>(digits)};
}

std::string HostTable::Run::host(int index) const {
  if (digits == 0) return prefix;
  std::string text = std::to_string(number + index);
  const auto width = static_cast<std::size_t>(digits);
  if (text.size() < width) text.insert(0, width - text.size(), '0');
  return prefix + text + suffix;
}

bool HostTable::follows(const Run& run, const Run& next) {
  return run.digits > 0 && run.digits == next.digits && run.ranks == next.ranks &&
         run.prefix == next.prefix && run.suffix == next.suffix &&
         next.number == run.number + run.hosts;
}

void HostTable::add(std::string_view host) {
  Run next = run_of(host);
  if (runs_.empty()) {
    runs_.push_back(std::move(next));
    return;
  }
  Run& last = runs_.back();
  next.first = last.first + last.hosts * last.ranks;
  const bool same = last.host(last.hosts - 1) == host;
  if (same && last.hosts == 1) {
    ++last.ranks;
    merge();
  } else if (same) {  // the last host of a run has more ranks than those before it
    --last.hosts;
    next.first -= last.ranks;
    next.ranks = last.ranks + 1;
    runs_.push_back(std::move(next));
  } else {
    runs_.push_back(std::move(next));
    merge();
  }
}

// The last run with the one before it, if that is complete.
void HostTable::merge() {
  if (runs_.size() < 2) return;
  Run& run = runs_[runs_.size() - 2];
  const Run& next = runs_.back();
  if (next.hosts != 1 || !follows(run, next)) return;
  ++run.hosts;
  runs_.pop_back();
}

std::string HostTable::host(int rank) const {
  auto run = std::upper_bound(runs_.begin(), runs_.end(), rank,
                              [](int r, const Run& other) { return r < other.first; });
  if (rank < 0 || run == runs_.begin()) return "unknown";
  --run;
  const int index = (rank - run->first) / run->ranks;
  return index < run->hosts ? run->host(index) : "unknown";
}

int HostTable::number_of(int rank) const {
  int before = 0;
  for (const Run& run : runs_) {
    const int index = (rank - run.first) / run.ranks;
    if (rank >= run.first && index < run.hosts) return before + index;
    before += run.hosts;
  }
  return -1;
}

int HostTable::first_rank(int number) const {
  int before = 0;
  for (const Run& run : runs_) {
    if (number < before + run.hosts) return run.first + (number - before) * run.ranks;
    before += run.hosts;
  }
  fail(Status::internal, "host {} of {}", number, before);
}

int HostTable::hosts() const {
  int hosts = 0;
  for (const Run& run : runs_) hosts += run.hosts;
  return hosts;
}

std::string HostTable::text() const {
  std::string text;
  for (const Run& run : runs_)
    text += format("{}\t{}\t{}\t{}\t{}\t{}\n", run.prefix, run.suffix, run.number,
                   run.digits, run.hosts, run.ranks);
  return text;
}

HostTable HostTable::from_text(const std::string& text) {
  HostTable table;
  std::istringstream lines(text);
  int first = 0;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    Run run;
    std::string number, digits, hosts, ranks;
    std::getline(fields, run.prefix, '\t');
    std::getline(fields, run.suffix, '\t');
    std::getline(fields, number, '\t');
    std::getline(fields, digits, '\t');
    std::getline(fields, hosts, '\t');
    std::getline(fields, ranks, '\t');
    run.number = parse_number<std::int64_t>(number).value_or(-1);
    run.digits = parse_number<int>(digits).value_or(-1);
    run.hosts = parse_number<int>(hosts).value_or(0);
    run.ranks = parse_number<int>(ranks).value_or(0);
    require(run.number >= 0 && run.digits >= 0 && run.hosts > 0 && run.ranks > 0,
            "'{}' is no line of a table of hosts", line);
    run.first = first;
    first += run.hosts * run.ranks;
    table.runs_.push_back(std::move(run));
  }
  return table;
}

}  // namespace trireme::comm
