// WorkMeter: is told what kernels and messages of a run on meta would do, and keeps time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include "base/dtype.hpp"

namespace trireme {

enum class WorkKind : std::uint8_t { product, attention, update, sweep };

// What one kernel does. A sweep reads and writes its tensors once each; an optimizer's
// update is one over tensors that no cache holds.
struct KernelWork {
  WorkKind kind = WorkKind::sweep;
  DType type = DType::f32;  // of operands; of a sweep's largest tensor
  double flops = 0;
  double bytes = 0;                    // of all tensors
  std::int64_t rows = 0, columns = 0;  // of a product
  std::int64_t inner = 0;              // of a product; the head width of an attention
  bool backward = false;               // of an attention
};

// What one collective, send or receive moves.
struct MessageWork {
  std::string_view group;
  int ranks = 1;
  bool to_one = false;  // a send or receive
  double bytes = 0;     // sent by this rank
};

// A message on its way, on the meter's clock.
struct MessageFlight {
  double start = 0, seconds = 0;
};

// A planner makes one and installs it; kernels and groups on meta look for it.
class WorkMeter {
 public:
  virtual ~WorkMeter() = default;
  // The rank does this now.
  virtual void kernel(const KernelWork& work) = 0;
  // The rank starts this now, and goes on.
  virtual MessageFlight message(const MessageWork& work) = 0;
  // The rank waits for the message. Returns for how many seconds.
  virtual double wait_for(const MessageFlight& flight) = 0;
  // On the clock.
  virtual double seconds() const = 0;
};

// The one that is installed on this thread, or null.
WorkMeter* work_meter();

// Installs a meter for as long as it lives. One at a time.
class WorkMeterInUse {
 public:
  explicit WorkMeterInUse(WorkMeter& meter);
  ~WorkMeterInUse();
  WorkMeterInUse(const WorkMeterInUse&) = delete;
  WorkMeterInUse& operator=(const WorkMeterInUse&) = delete;
};

}  // namespace trireme
