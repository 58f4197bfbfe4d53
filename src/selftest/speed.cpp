// The speed of every host's parts, and which hosts are far below the others.
// SPDX-License-Identifier: Apache-2.0
#include "selftest/speed.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <sstream>

#include "base/counted.hpp"
#include "base/cpu_place.hpp"
#include "base/log.hpp"
#include "base/number.hpp"
#include "base/text.hpp"
#include "base/text_table.hpp"
#include "comm/host_table.hpp"
#include "comm/merge_up.hpp"
#include "io/files.hpp"
#include "kernels/runtime/runtime.hpp"
#include "launch/restarts.hpp"
#include "selftest/rank_rates.hpp"
#include "selftest/rate_verdict.hpp"

namespace trireme::selftest {
namespace {

// least_share: of the median, below which a rank is slow; 0: nobody is judged by it.
// Devices of one kind differ by some per cent, by their clocks and how warm they are;
// messages by their way and by what else is on it, so that only the best of several ways
// counts and half of the median is still sound.
struct Measurement {
  std::string_view name, unit;
  double time_share, least_share;
};
constexpr Measurement products = {"products", "GFLOP/s", 0.25, 0.8};
constexpr Measurement memory = {"memory", "GB/s", 0.15, 0.8};
constexpr Measurement patterns = {"patterns", "GB/s", 0.25, 0};
constexpr Measurement messages = {"messages", "GB/s", 0.25, 0.5};
constexpr Measurement all_reduce = {"all_reduce", "GB/s", 0.1, 0};
constexpr std::array all_measurements = {products, memory, patterns, messages,
                                         all_reduce};

constexpr std::size_t most_kinds = 64, most_kinds_shown = 4;
constexpr std::size_t most_lines = 16, most_named = 4, most_wrong_bytes = 4;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream all(text);
  for (std::string line; std::getline(all, line);) lines.push_back(line);
  return lines;
}

// What ranks must have in common to be compared.
std::string kind_of(const comm::World& world, const launch::ComputeDevice& on) {
  const std::string place = describe_node();
  return format("{}, {} each, {} a host",
                on.device.is_cuda() ? on.gpu.name : place.substr(0, place.find(", ")),
                counted(kernels::threads(), "thread"),
                counted(world.ranks_on_node(), "rank"));
}

// As Slurm calls this node, which may not be what the node calls itself; else its name
// without the domain. Launchers other than srun may have handed on the variables of the
// first node.
std::string node_of(const comm::World& world) {
  const char* const rank = std::getenv("SLURM_PROCID");
  const char* const node = std::getenv("SLURMD_NODENAME");
  const bool by_srun = rank != nullptr && parse_number<int>(rank) == world.rank();
  if (by_srun && node != nullptr && *node != '\0') return node;
  return world.host().substr(0, world.host().find('.'));
}

// On rank 0: the node of each rank.
comm::HostTable nodes_of(comm::World& world) {
  comm::HostTable nodes;
  for (const std::string& node : world.gather_text(node_of(world))) nodes.add(node);
  return nodes;
}

// The kinds of all ranks: those beyond the most that are told apart are one kind more.
class Kinds {
 public:
  Kinds(comm::World& world, const std::string& mine) {
    const auto join = [](std::string& so_far, const std::string& next) {
      std::set<std::string> all;
      for (std::string& line : lines_of(so_far + "\n" + next))
        all.insert(std::move(line));
      std::vector<std::string> kept(all.begin(), all.end());
      if (kept.size() > most_kinds) kept.resize(most_kinds);
      so_far = joined(kept, "\n");
    };
    names_ = lines_of(world.broadcast(comm::merge_up(world, mine, join)));
    const auto at = std::find(names_.begin(), names_.end(), mine) - names_.begin();
    for (const double number : world.gather(static_cast<double>(at)))
      of_ranks_.push_back(static_cast<std::uint8_t>(number));
  }

  const std::vector<std::string>& names() const { return names_; }
  const std::vector<std::uint8_t>& of_ranks() const { return of_ranks_; }  // on rank 0

 private:
  std::vector<std::string> names_;
  std::vector<std::uint8_t> of_ranks_;
};

// "byte 4096 of 1048576 is 0x54 and was written as 0x55, pattern 0101"
std::string text_of(const WrongByte& wrong, std::int64_t bytes) {
  const auto hex = [](int byte) {
    std::array<char, 8> text{};
    std::snprintf(text.data(), text.size(), "0x%02x", byte);
    return std::string(text.data());
  };
  return format("byte {} of {} is {} and was written as {}, pattern {}", wrong.offset,
                bytes, hex(wrong.found), hex(wrong.wanted), wrong.pattern);
}

class Speed {
 public:
  Speed(comm::World& world, const launch::ComputeDevice& on, const SpeedOptions& options)
      : world_(world),
        on_(on),
        options_(options),
        rates_(on, world.ranks_on_node(), options.quick),
        kinds_(world, kind_of(world, on)),
        nodes_(nodes_of(world)),
        named_(nodes_) {
    rows_.push_back(
        {"", "ranks", "median", "slowest", "fastest", "slowest rank", "host"});
  }

  // 1. This rank's device, all ranks at once. 2. Messages. 3. What they say of hosts.
  void run() {
    const auto start = std::chrono::steady_clock::now();
    if (wanted(products))
      add_rates(products,
                [&](double s, bool slowed) { return rates_.products(s, slowed); });
    if (wanted(memory))
      add_rates(memory, [&](double s, bool slowed) { return rates_.memory(s, slowed); });
    if (wanted(patterns)) test_patterns();
    if (world_.size() > 1) measure_messages();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    report(took.count());
    conclude();
  }

 private:
  bool wanted(const Measurement& of) const {
    return fits(std::string(of.name), options_.only);
  }
  bool is_spoiled(const Measurement& of) const {
    const std::optional<Fault>& fault = options_.fault;
    return fault && fault->rank == world_.rank() &&
           fits(std::string(of.name), fault->pattern);
  }
  double seconds(const Measurement& of) const { return options_.seconds * of.time_share; }

  template <class F>
  void add_rates(const Measurement& of, const F& measure) {
    world_.barrier();
    double rate = 0;
    world_.agree([&] { rate = measure(seconds(of), is_spoiled(of)); });
    add(of, rate);
  }

  // rate: of this rank.
  void add(const Measurement& of, double rate) {
    const std::vector<double> rates = world_.gather(rate);
    if (world_.rank() != 0) return;
    const double least =
        of.least_share == 0 ? 0 : options_.below.value_or(of.least_share);
    const RateVerdict verdict = judge(rates, kinds_.of_ranks(), least);
    named_.add_slow(std::string(of.name), verdict.slow);
    std::size_t shown = 0;
    for (const RateSpread& spread : verdict.kinds) {
      if (shown++ == most_kinds_shown) break;
      const bool one_kind = kinds_.names().size() == 1;
      add_row(format("{}{}, {}", of.name,
                     one_kind ? "" : format(" of kind {}", spread.kind + 1), of.unit),
              spread);
    }
  }

  void add_row(const std::string& name, const RateSpread& spread) {
    const auto giga = [](double rate) { return fixed(rate * 1e-9, 2); };
    rows_.push_back({name, std::to_string(spread.ranks), giga(spread.median),
                     giga(spread.slowest), giga(spread.fastest),
                     std::to_string(spread.slowest_rank),
                     nodes_.host(spread.slowest_rank)});
  }

  void test_patterns() {
    world_.barrier();
    MemoryTest test;
    std::int64_t bytes = 0;
    world_.agree([&] {
      bytes = rates_.pattern_bytes();
      test = rates_.patterns(seconds(patterns), is_spoiled(patterns));
    });
    add(patterns, test.rate);
    const std::vector<double> wrong = world_.gather(test.wrong ? 1 : 0);
    for (std::size_t r = 0; r < wrong.size(); ++r)
      if (wrong[r] > 0) named_.add_wrong(static_cast<int>(r));
    const auto join = [](std::string& so_far, const std::string& next) {
      std::vector<std::string> lines = lines_of(so_far);
      for (const std::string& line : lines_of(next))
        if (lines.size() < most_wrong_bytes) lines.push_back(line);
      so_far = joined(lines, "\n");
    };
    const std::string mine =
        !test.wrong ? ""
                    : format("rank {} (host {}, {}): {}", world_.rank(), node_of(world_),
                             on_.device.is_cuda() ? "GPU " + on_.gpu.pci_bus_id
                                                  : "memory of the CPU",
                             text_of(*test.wrong, bytes));
    wrong_bytes_ = lines_of(comm::merge_up(world_, mine, join));
  }

  void measure_messages() {
    if (!wanted(messages) && !wanted(all_reduce)) return;
    MessageRates rates(world_, on_, options_.quick);
    if (wanted(messages))
      add(messages, rates.pairs(seconds(messages), is_spoiled(messages)));
    if (!wanted(all_reduce)) return;
    const double rate = rates.all_reduce(seconds(all_reduce));
    rows_.push_back({format("{}, {}", all_reduce.name, all_reduce.unit),
                     std::to_string(world_.size()), fixed(rate * 1e-9, 2)});
  }

  void report(double took) {
    if (world_.rank() != 0) return;
    const std::vector<std::string>& kinds = kinds_.names();
    for (std::size_t k = 0; k < kinds.size() && k < most_kinds_shown; ++k)
      log::info("kind {}: {}", k + 1, kinds[k]);
    if (kinds.size() > most_kinds_shown)
      log::info("and more kinds, which are judged but not shown");
    std::string table = text_table(rows_, 1, 0);
    table.pop_back();
    log::line(table);
    for (const std::string& line : wrong_bytes_) log::line("wrong: " + line);
    for (const std::string& line : named_.lines(most_lines)) log::line(line);
    log::info("speed: {} named, {} s",
              counted(static_cast<std::int64_t>(named_.size()), "host"), fixed(took, 1));
  }

  void conclude() {
    world_.agree([&] {
      if (world_.rank() == 0 && options_.exclude)
        io::write_text_atomically(*options_.exclude, named_.exclude_list());
    });
    std::string message;
    if (world_.rank() == 0 && !named_.empty()) {
      for (const std::string& host : lines_of(named_.exclude_list()))
        launch::name_bad_host(host);
      message = error_text();
    }
    message = world_.broadcast(message);
    if (!message.empty()) throw comm::Agreed(Status::corruption, message);
  }

  std::string error_text() const {
    const bool one = named_.size() == 1;
    const std::string list =
        !options_.exclude
            ? ""
            : format(" (Slurm: --exclude={}{})",
                     options_.exclude->find('/') == std::string::npos ? "./" : "",
                     *options_.exclude);
    return format(
        "{} {} slow or wrong: {}{}. Leave {} out{}, or measure once more with nothing "
        "else running; a host that is named again should be looked at",
        counted(static_cast<std::int64_t>(named_.size()), "host"), one ? "is" : "are",
        joined(named_.names(most_named), ", "),
        wrong_bytes_.empty() ? "" : format(" ({})", wrong_bytes_.front()),
        one ? "it" : "them", list);
  }

  comm::World& world_;
  const launch::ComputeDevice& on_;
  const SpeedOptions& options_;
  DeviceRates rates_;
  Kinds kinds_;
  comm::HostTable nodes_;
  NamedHosts named_;  // on rank 0, as what follows
  std::vector<TextRow> rows_;
  std::vector<std::string> wrong_bytes_;
};

}  // namespace

std::vector<std::string_view> speed_names() {
  std::vector<std::string_view> names;
  for (const Measurement& one : all_measurements) names.push_back(one.name);
  return names;
}

void run_speed(comm::World& world, const launch::ComputeDevice& on,
               const SpeedOptions& options) {
  Speed(world, on, options).run();
}

}  // namespace trireme::selftest
