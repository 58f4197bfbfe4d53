// The meter of this thread.
// SPDX-License-Identifier: Apache-2.0
#include "base/work_meter.hpp"

#include "base/error.hpp"

namespace trireme {
namespace {

thread_local WorkMeter* installed = nullptr;

}  // namespace

WorkMeter* work_meter() { return installed; }

WorkMeterInUse::WorkMeterInUse(WorkMeter& meter) {
  require(installed == nullptr, "a meter of work is in use already");
  installed = &meter;
}

WorkMeterInUse::~WorkMeterInUse() { installed = nullptr; }

}  // namespace trireme
