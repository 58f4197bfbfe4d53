// NodeEnergy: reads the counters of HPE Cray's nodes, and RAPL's.
// SPDX-License-Identifier: Apache-2.0
#include "base/node_energy.hpp"

#include <fstream>
#include <string_view>

#include "base/directory.hpp"
#include "base/error.hpp"
#include "base/number.hpp"

namespace trireme {
namespace {

// The first word of a file, which is empty if it cannot be read.
std::string first_word(const std::string& path) {
  std::ifstream file(path);
  std::string word;
  file >> word;
  return word;
}

std::optional<double> number_in(const std::string& path) {
  return parse_number<double>(first_word(path));
}

std::vector<std::string> names_in(const std::string& path) try {
  return Directory::to_read(path).names();
} catch (const Error&) {
  return {};
}

// Packages hold cores and graphics, which are not counted again; a package's memory is
// beside it. "psys", the whole platform, exists on laptops alone. The same packages come
// once more under intel-rapl-mmio.
bool is_counted(std::string_view folder, std::string_view name) {
  return folder.starts_with("intel-rapl:") &&
         (name.starts_with("package-") || name == "dram");
}

}  // namespace

NodeEnergy::NodeEnergy(Allow allow) : NodeEnergy(allow, Places()) {}

NodeEnergy::NodeEnergy(Allow allow, const Places& places) {
  add({places.cray});
  if (!empty() || allow == Allow::whole_node) return;
  for (const std::string& name : names_in(places.powercap)) {
    const std::string folder = places.powercap + "/" + name;
    if (is_counted(name, first_word(folder + "/name")))
      add({folder + "/energy_uj", 1e-6,
           number_in(folder + "/max_energy_range_uj").value_or(0)});
  }
}

void NodeEnergy::add(const Counter& counter) {
  if (const auto now = number_in(counter.path)) {
    counters_.push_back(counter);
    counters_.back().last = *now;
  }
}

std::optional<double> NodeEnergy::joules() {
  for (Counter& counter : counters_) {
    const auto now = number_in(counter.path);
    if (!now) {
      counters_.clear();
      break;
    }
    double used = *now - counter.last;
    if (used < 0) used += counter.range > 0 ? counter.range : counter.last;
    joules_ += used * counter.unit;
    counter.last = *now;
  }
  if (empty()) return std::nullopt;
  return joules_;
}

}  // namespace trireme
