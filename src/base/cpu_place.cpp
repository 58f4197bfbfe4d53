// cpu_place() and what the kernel says about the node.
// SPDX-License-Identifier: Apache-2.0
#include "base/cpu_place.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "base/format.hpp"

namespace trireme {
namespace {

namespace fs = std::filesystem;

std::string first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// Entries of a directory of /sys, sorted; empty where there is none.
std::vector<fs::path> entries(const fs::path& directory) {
  std::vector<fs::path> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory, error))
    found.push_back(entry.path());
  std::sort(found.begin(), found.end());
  return found;
}

std::vector<int> allowed_cores() {
  // A mask of 1,024 cores is too small for some nodes.
  for (int size = 1024; size <= 1 << 18; size *= 4) {
    cpu_set_t* set = CPU_ALLOC(static_cast<std::size_t>(size));
    if (!set) break;
    const std::size_t bytes = CPU_ALLOC_SIZE(static_cast<std::size_t>(size));
    CPU_ZERO_S(bytes, set);
    const bool known = ::sched_getaffinity(0, bytes, set) == 0;
    std::vector<int> cores;
    for (int core = 0; known && core < size; ++core)
      if (CPU_ISSET_S(static_cast<std::size_t>(core), bytes, set)) cores.push_back(core);
    CPU_FREE(set);
    if (known) return cores;
  }
  return {};
}

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("model name")) continue;
    const auto colon = line.find(": ");
    if (colon != std::string::npos) return line.substr(colon + 2);
  }
  return "processor";
}

std::string network() {
  std::string text;
  for (const fs::path& card : entries("/sys/class/infiniband")) {
    const std::string rate = first_line(card / "ports/1/rate");
    if (rate.empty()) continue;
    text += (text.empty() ? "; " : ", ") + card.filename().string() + " " + rate;
  }
  return text;
}

bool overlap(const std::vector<int>& a, const std::vector<int>& b) {
  return std::any_of(a.begin(), a.end(),
                     [&](int x) { return std::binary_search(b.begin(), b.end(), x); });
}

}  // namespace

std::string ranges_text(const std::vector<int>& numbers) {
  std::string text;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    text += (text.empty() ? "" : ",") + std::to_string(numbers[i]);
    if (last > i) text += "-" + std::to_string(numbers[last]);
    i = last + 1;
  }
  return text;
}

std::vector<int> parse_ranges(std::string_view text) {
  std::vector<int> numbers;
  std::size_t at = 0;
  const auto number = [&] {
    int value = 0;
    while (at < text.size() && std::isdigit(static_cast<unsigned char>(text[at])))
      value = 10 * value + (text[at++] - '0');
    return value;
  };
  while (at < text.size()) {
    if (!std::isdigit(static_cast<unsigned char>(text[at]))) {
      ++at;
      continue;
    }
    const int first = number();
    int last = first;
    if (at + 1 < text.size() && text[at] == '-') {
      ++at;
      last = number();
    }
    for (int i = first; i <= last; ++i) numbers.push_back(i);
  }
  return numbers;
}

CpuPlace cpu_place() {
  CpuPlace place;
  place.cores = allowed_cores();
  for (const fs::path& node : entries("/sys/devices/system/node")) {
    const std::string name = node.filename().string();
    if (!name.starts_with("node")) continue;
    const auto number = parse_ranges(name);
    if (number.size() == 1 &&
        overlap(place.cores, parse_ranges(first_line(node / "cpulist"))))
      place.numa_nodes.push_back(number.front());
  }
  std::sort(place.numa_nodes.begin(), place.numa_nodes.end());
  return place;
}

int numa_node_of(const std::string& pci_bus_id) {
  std::string id = pci_bus_id;
  std::transform(id.begin(), id.end(), id.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const std::string text = first_line("/sys/bus/pci/devices/" + id + "/numa_node");
  if (text.starts_with('-')) return -1;  // how the kernel says that it does not know
  const auto number = parse_ranges(text);
  return number.size() == 1 ? number.front() : -1;
}

std::string describe_node() {
  const auto nodes = parse_ranges(first_line("/sys/devices/system/node/online"));
  const double memory = static_cast<double>(::sysconf(_SC_PHYS_PAGES)) *
                        static_cast<double>(::sysconf(_SC_PAGE_SIZE));
  return format("{}, {} logical cores, {} NUMA {}, {}{}", processor_name(),
                ::sysconf(_SC_NPROCESSORS_ONLN), std::max<std::size_t>(1, nodes.size()),
                nodes.size() > 1 ? "nodes" : "node", human_bytes(memory), network());
}

}  // namespace trireme
