// EnergyMeter: what a GPU has used, as its driver counts.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

namespace trireme {

// Reads the counter of one GPU through NVML, which the driver brings along; the library
// is opened at run time, for nodes without a driver. NVIDIA NVML API, "Device Queries":
// nvmlDeviceGetTotalEnergyConsumption, from Volta on.
class EnergyMeter {
 public:
  // pci_bus_id: as CudaDevice has it; empty: it reads nothing. Never throws: a meter
  // without NVML reads nothing.
  explicit EnergyMeter(const std::string& pci_bus_id);

  // Joules since the driver was loaded; empty where there is no counter.
  std::optional<double> joules() const;

 private:
  void* device_ = nullptr;                                    // nvmlDevice_t
  int (*read_)(void* device, unsigned long long*) = nullptr;  // in millijoules
};

}  // namespace trireme
