// Rules about the deck's health section.
// SPDX-License-Identifier: Apache-2.0
#include "config/rules.hpp"

namespace trireme::config {

// A second run of a step has the bits of the first only where the first has changed
// nothing that it starts from, and on CPUs, whose kernels and choices are the same twice.
void HealthRules::health_rules() {
  const HealthSettings& health = config_.health;
  const bool carries = config_.precision.error_feedback;
  rule({key::health.rerun_every, key::precision.error_feedback},
       health.rerun_every == 0 || !carries, key::health.rerun_every,
       " computes a step twice from the same state, but ", key::precision.error_feedback,
       " changes what is carried over while gradients are sent: write "
       "health.rerun_every = 0, or precision.error_feedback = false");
  rule({key::health.rerun_every, key::run.device},
       health.rerun_every == 0 || config_.run.device != DeviceChoice::cuda,
       key::health.rerun_every, " computes steps twice on CPUs alone, but ",
       key::run.device, ": write health.rerun_every = 0");
}

}  // namespace trireme::config
