// EnergyMeter: joules that a GPU has taken, where it counts them.
// SPDX-License-Identifier: Apache-2.0
#include "base/energy_meter.hpp"

#include <dlfcn.h>

namespace trireme {
namespace {

// A function of the library, or nullptr.
template <class F>
F* find(void* library, const char* name) {
  return reinterpret_cast<F*>(::dlsym(library, name));
}

}  // namespace

EnergyMeter::EnergyMeter(const std::string& pci_bus_id) {
  if (pci_bus_id.empty()) return;
  void* const library = ::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return;  // it stays open: the driver's own threads may use it
  auto* const start = find<int()>(library, "nvmlInit_v2");
  auto* const open =
      find<int(const char*, void**)>(library, "nvmlDeviceGetHandleByPciBusId_v2");
  auto* const read = find<int(void*, unsigned long long*)>(
      library, "nvmlDeviceGetTotalEnergyConsumption");
  if (start == nullptr || open == nullptr || read == nullptr || start() != 0) return;
  if (open(pci_bus_id.c_str(), &device_) == 0) read_ = read;
}

std::optional<double> EnergyMeter::joules() const {
  unsigned long long millijoules = 0;
  if (read_ == nullptr || read_(device_, &millijoules) != 0) return std::nullopt;
  return static_cast<double>(millijoules) * 1e-3;
}

}  // namespace trireme
