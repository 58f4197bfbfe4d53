// cpu_place() and what the kernel says about the node.
// SPDX-License-Identifier: Apache-2.0
#include "base/cpu_place.hpp"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <new>
#include <system_error>
#include <utility>

#include "base/counted.hpp"
#include "base/find_function.hpp"
#include "base/format.hpp"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr int most_cores = 1 << 18;  // more than any node has

// A cpu_set_t of any size.
class CoreSet {
 public:
  explicit CoreSet(int size)
      : size_(size), set_(CPU_ALLOC(static_cast<std::size_t>(size))) {
    if (set_ == nullptr) throw std::bad_alloc();
    CPU_ZERO_S(bytes(), set_);
  }
  CoreSet(const CoreSet&) = delete;
  CoreSet& operator=(const CoreSet&) = delete;
  ~CoreSet() { CPU_FREE(set_); }

  cpu_set_t* get() const { return set_; }
  std::size_t bytes() const { return CPU_ALLOC_SIZE(static_cast<std::size_t>(size_)); }
  void add(int core) { CPU_SET_S(static_cast<std::size_t>(core), bytes(), set_); }
  std::vector<int> cores() const {
    std::vector<int> cores;
    for (int core = 0; core < size_; ++core)
      if (CPU_ISSET_S(static_cast<std::size_t>(core), bytes(), set_))
        cores.push_back(core);
    return cores;
  }

 private:
  int size_;
  cpu_set_t* set_;
};

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

// Of all places of OpenMP together; empty: it binds no threads, or is not linked.
std::vector<int> openmp_places() {
  const auto count = find_function<int()>("omp_get_num_places");
  const auto size = find_function<int(int)>("omp_get_place_num_procs");
  const auto read = find_function<void(int, int*)>("omp_get_place_proc_ids");
  std::vector<int> cores;
  if (count == nullptr || size == nullptr || read == nullptr) return cores;
  for (int place = 0; place < count(); ++place) {
    std::vector<int> more(static_cast<std::size_t>(std::max(size(place), 0)));
    if (more.empty()) continue;
    read(place, more.data());
    cores.insert(cores.end(), more.begin(), more.end());
  }
  return cores;
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

std::vector<int> cores_of_this_thread() {
  // A mask of 1,024 cores is too small for some nodes.
  for (int size = 1024; size <= most_cores; size *= 4) {
    const CoreSet set(size);
    if (::sched_getaffinity(0, set.bytes(), set.get()) == 0) return set.cores();
  }
  return {};
}

std::vector<int> allowed_cores() {
  std::vector<int> cores = cores_of_this_thread();
  const std::vector<int> places = openmp_places();
  cores.insert(cores.end(), places.begin(), places.end());
  std::sort(cores.begin(), cores.end());
  cores.erase(std::unique(cores.begin(), cores.end()), cores.end());
  return cores;
}

void unbind_new_threads() {
#ifdef __GLIBC__
  const std::vector<int> all = allowed_cores();
  if (all == cores_of_this_thread()) return;  // new threads inherit this
  CoreSet set(all.back() + 1);
  for (const int core : all) set.add(core);
  pthread_attr_t usual;
  if (::pthread_getattr_default_np(&usual) != 0) return;
  if (::pthread_attr_setaffinity_np(&usual, set.bytes(), set.get()) == 0)
    ::pthread_setattr_default_np(&usual);
  ::pthread_attr_destroy(&usual);
#endif
}

CpuPlace cpu_place(std::vector<int> cores) {
  CpuPlace place{std::move(cores), {}};
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
  return format("{}, {} logical cores, {}, {}{}", processor_name(),
                ::sysconf(_SC_NPROCESSORS_ONLN),
                counted(std::max<std::int64_t>(1, std::ssize(nodes)), "NUMA node"),
                human_bytes(memory), network());
}

}  // namespace trireme
