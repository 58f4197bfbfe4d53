// Check: a named test of the device, of the messages between ranks, or of training.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "comm/world.hpp"
#include "launch/compute_device.hpp"
#include "selftest/probe.hpp"

namespace trireme::selftest {

struct Check {
  std::string name;  // "norms bf16"
  std::function<void(Probe&)> run;
  // Every rank takes part, in the same order. What one throws then ends the job.
  bool collective = false;
};

// Kernels and matrix products, on the rank's own device.
std::vector<Check> kernel_checks();
// Each collective on all ranks and on the axes of meshes that this number of ranks
// allows. Makes the meshes when the first of them runs.
std::vector<Check> collective_checks(comm::World& world, const launch::ComputeDevice& on);
// A step of each recipe, on the rank's own device.
std::vector<Check> training_checks();

}  // namespace trireme::selftest
