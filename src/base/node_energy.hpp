// NodeEnergy: what a node has used, as its own meters count.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace trireme {

// HPE Cray's counter of the whole node, GPUs included, where there is one ("HPE Cray
// Supercomputing EX: Power Management", pm_counters: energy, in joules); else, if asked
// for, RAPL's counters of processors and their memory (Linux, "Power Capping Framework":
// energy_uj, which begins anew above max_energy_range_uj). RAPL's are readable by root
// alone unless the machine's administrators allow more.
class NodeEnergy {
 public:
  struct Places {
    std::string cray = "/sys/cray/pm_counters/energy";
    std::string powercap = "/sys/class/powercap";
  };
  enum class Allow : bool { whole_node, processors_too };

  explicit NodeEnergy(Allow allow);
  NodeEnergy(Allow allow, const Places& places);

  bool empty() const { return counters_.empty(); }
  // Joules since construction; nothing where there is no counter, and from then on when
  // one is not readable any more. A counter that begins anew more than once between two
  // calls is taken for one that did once.
  std::optional<double> joules();

 private:
  struct Counter {
    std::string path;
    double unit = 1;   // joules
    double range = 0;  // it begins anew above that; 0: only when it was reset
    double last = 0;
  };
  void add(const Counter& counter);

  std::vector<Counter> counters_;
  double joules_ = 0;
};

}  // namespace trireme
