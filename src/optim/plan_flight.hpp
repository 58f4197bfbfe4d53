// Copies that go on beside other work, on the clock of a plan.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string_view>

#include "base/device.hpp"
#include "base/work_meter.hpp"

namespace trireme::optim {

// On meta, where a plan keeps time: the copy starts now. Else nothing.
inline MessageFlight fly(Device device, std::string_view queue, std::size_t bytes) {
  WorkMeter* const meter = device.is_meta() ? work_meter() : nullptr;
  if (meter == nullptr) return {};
  return meter->message(
      {.group = queue, .to_one = true, .bytes = static_cast<double>(bytes)});
}

// There the rank waits for it.
inline void wait_in_plan(Device device, const MessageFlight& flight) {
  WorkMeter* const meter = device.is_meta() ? work_meter() : nullptr;
  if (meter != nullptr) meter->wait_for(flight);
}

}  // namespace trireme::optim
