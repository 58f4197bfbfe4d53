// The start-up report: where ranks run, and warnings about what is bound badly.
// SPDX-License-Identifier: Apache-2.0
#include "launch/startup_report.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <sstream>
#include <utility>

#include "base/counted.hpp"
#include "base/cpu_place.hpp"
#include "base/log.hpp"
#include "base/number.hpp"
#include "base/text.hpp"
#include "base/text_table.hpp"
#include "comm/hosts.hpp"
#include "comm/merge_up.hpp"
#include "io/digest.hpp"
#include "io/files.hpp"
#include "kernels/runtime/runtime.hpp"
#include "launch/distinct_texts.hpp"

namespace trireme::launch {
namespace {

constexpr std::size_t most_rows = 16, most_hosts_named = 4;

using Group = std::vector<RankPlace>;  // the ranks of a host, in order

bool look_alike(const Group& a, const Group& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const RankPlace& x, const RankPlace& y) {
                      return x.device == y.device && x.cores == y.cores &&
                             x.threads == y.threads && x.numa_nodes == y.numa_nodes;
                    });
}

std::vector<int> together(const Group& ranks, std::vector<int> RankPlace::*member) {
  std::set<int> all;
  for (const RankPlace& rank : ranks)
    all.insert((rank.*member).begin(), (rank.*member).end());
  return {all.begin(), all.end()};
}

std::string or_dash(const std::string& text) { return text.empty() ? "-" : text; }

// first: the number of the first rank. hosts: how many look like this one.
TextRow group_row(const Group& group, std::size_t first, std::size_t hosts) {
  const RankPlace& one = group.front();
  const std::size_t last = first + group.size() * hosts - 1;
  return {format("{}-{}", first, last),
          hosts > 1 ? format("{} and {} like it", one.host, hosts - 1) : one.host,
          group.size() > 1 ? format("{} x {}", group.size(), one.device) : one.device,
          or_dash(ranges_text(together(group, &RankPlace::cores))),
          or_dash(ranges_text(together(group, &RankPlace::numa_nodes))),
          std::to_string(one.threads)};
}

std::string written(const RankPlace& place) {
  std::string device = place.device;
  std::replace(device.begin(), device.end(), '\t', ' ');
  return format("{}\t{}\t{}\t{}\t{}", device, place.device_numa, ranges_text(place.cores),
                ranges_text(place.numa_nodes), place.threads);
}

RankPlace read(const std::string& text, const std::string& host) {
  RankPlace place;
  place.host = host;
  std::istringstream fields(text);
  std::string device_numa, cores, numa_nodes, threads;
  std::getline(fields, place.device, '\t');
  std::getline(fields, device_numa, '\t');
  std::getline(fields, cores, '\t');
  std::getline(fields, numa_nodes, '\t');
  std::getline(fields, threads, '\t');
  place.device_numa = parse_number<int>(device_numa).value_or(-1);
  place.cores = parse_ranges(cores);
  place.numa_nodes = parse_ranges(numa_nodes);
  place.threads = parse_number<int>(threads).value_or(0);
  return place;
}

// Whether some cores carry more threads than they are: for each mask of a rank, and for
// all cores together, the threads that can run nowhere else.
std::string crowded(const Group& ranks) {
  std::set<std::vector<int>> masks;
  for (const RankPlace& rank : ranks) masks.insert(rank.cores);
  masks.insert(together(ranks, &RankPlace::cores));
  for (const auto& mask : masks) {
    int threads = 0, bound = 0;
    for (const RankPlace& rank : ranks) {
      if (!std::includes(mask.begin(), mask.end(), rank.cores.begin(), rank.cores.end()))
        continue;
      threads += rank.threads;
      ++bound;
    }
    if (mask.empty() || threads <= static_cast<int>(mask.size())) continue;
    return format(
        "{} with {} threads on {} ({}): start fewer ranks or "
        "threads, ask for more cores (--cpus-per-task), or correct the binding",
        counted(bound, "rank"), threads, counted(std::ssize(mask), "logical core"),
        ranges_text(mask));
  }
  return {};
}

std::string far_from_gpu(const Group& ranks) {
  for (const RankPlace& rank : ranks) {
    const auto& near = rank.numa_nodes;
    if (rank.device_numa < 0 || near.empty() ||
        std::find(near.begin(), near.end(), rank.device_numa) != near.end())
      continue;
    return format(
        "GPU {} is at NUMA node {}, the cores of its rank ({}) at {}: bind "
        "ranks near their GPUs",
        rank.device, rank.device_numa, ranges_text(rank.cores), ranges_text(near));
  }
  return {};
}

std::int64_t count_hosts(const RankPlaces& places) {
  std::set<std::string> hosts;
  for (int rank = 0; rank < places.ranks; ++rank) hosts.insert(places.of(rank).host);
  return std::ssize(hosts);
}

// Throws where a text differs from that of rank 0.
void require_same(comm::World& world, const std::string& mine, Status status,
                  const char* what, const char* remedy) {
  const std::string first_rank = world.broadcast(mine);
  const bool differs = mine != first_rank;
  if (world.max(differs ? 1 : 0) == 0) return;
  const auto first =
      static_cast<int>(-world.max(differs ? -world.rank() : -world.size()));
  const std::string host = world.broadcast(world.host(), first);
  const std::string host_0 = world.broadcast(world.host());
  world.agree([&] {
    if (world.rank() == 0)
      fail(status, "{} of rank {} (host {}) is not that of rank 0 (host {}): {}", what,
           first, host, host_0, remedy);
  });
}

}  // namespace

RankPlaces::RankPlaces(const std::vector<RankPlace>& places)
    : ranks(static_cast<int>(places.size())),
      of([&places](int rank) { return places[static_cast<std::size_t>(rank)]; }) {}

std::string placement_table(const RankPlaces& places) {
  std::vector<TextRow> rows = {{"rank", "host", "device", "cores", "NUMA", "threads"}};
  if (places.ranks <= static_cast<int>(most_rows)) {
    for (int rank = 0; rank < places.ranks; ++rank) {
      rows.push_back(group_row({places.of(rank)}, static_cast<std::size_t>(rank), 1));
      rows.back().front() = std::to_string(rank);
    }
    return text_table(rows, 5, 2);
  }
  Group shown, next;  // the first of hosts that look alike, and the host that follows
  std::size_t first = 0, hosts = 0;
  const auto end_host = [&] {
    if (hosts > 0 && !look_alike(shown, next)) {
      rows.push_back(group_row(shown, first, hosts));
      first += shown.size() * hosts;
      hosts = 0;
    }
    if (hosts++ == 0) shown = next;
    next.clear();
  };
  for (int rank = 0; rank < places.ranks; ++rank) {
    RankPlace place = places.of(rank);
    if (!next.empty() && next.front().host != place.host) end_host();
    next.push_back(std::move(place));
  }
  end_host();
  rows.push_back(group_row(shown, first, hosts));
  return text_table(rows, 5, 2);
}

std::vector<std::string> placement_warnings(const RankPlaces& places) {
  std::map<std::string, std::vector<int>> hosts;
  for (int rank = 0; rank < places.ranks; ++rank)
    hosts[places.of(rank).host].push_back(rank);
  std::vector<std::string> lines;
  std::size_t more = 0;
  for (const auto& [host, ranks] : hosts) {
    Group here;
    for (const int rank : ranks) here.push_back(places.of(rank));
    for (const std::string& problem : {crowded(here), far_from_gpu(here)}) {
      if (problem.empty()) continue;
      if (lines.size() < most_hosts_named)
        lines.push_back("host " + host + ": " + problem);
      else
        ++more;
    }
  }
  if (more > 0) lines.push_back(format("and {} more of this kind", more));
  return lines;
}

void report_placement(comm::World& world, const ComputeDevice& on, int threads) {
  const CpuPlace cpus = cpu_place(kernels::cores_of_threads());
  RankPlace mine{world.host(), "CPU", -1, cpus.cores, cpus.numa_nodes, threads};
  if (on.device.is_cuda()) {
    mine.device = on.gpu.pci_bus_id + " " + on.gpu.name;
    mine.device_numa = numa_node_of(on.gpu.pci_bus_id);
  }
  DistinctTexts texts{written(mine)};
  const std::string all = comm::merge_up(
      world, texts.text(), [](std::string& so_far, const std::string& next) {
        DistinctTexts joined = DistinctTexts::from_text(so_far);
        joined.append(DistinctTexts::from_text(next));
        so_far = joined.text();
      });
  if (world.rank() > 0 || !log::speaks()) return;
  texts = DistinctTexts::from_text(all);
  const comm::HostTable& hosts = comm::hosts_of(world);
  const RankPlaces ranks(
      texts.size(), [&](int rank) { return read(texts.at(rank), hosts.host(rank)); });
  log::info("node      {}: {}", world.host(), describe_node());
  log::info("ranks     {} on {}", ranks.ranks, counted(count_hosts(ranks), "host"));
  std::string table = placement_table(ranks);
  if (table.ends_with('\n')) table.pop_back();
  log::line(table);
  for (const std::string& warning : placement_warnings(ranks))
    log::warn("{}", wrapped(warning, 90, 10));
}

void check_same_everywhere(comm::World& world, const std::string& deck,
                           const std::string& program_file) {
  require_same(world, io::digest_of(deck), Status::bad_content, "the deck",
               "give all nodes the same deck, on a file system that they share");
  std::string program;  // of each rank, for ranks of a node may be given different ones
  world.agree([&] { program = io::file_digest(program_file); });
  require_same(world, program, Status::resources, "the program file",
               "install the same build on all nodes, on a file system that they share");
}

}  // namespace trireme::launch
