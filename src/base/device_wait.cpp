// What a host does while it waits for a GPU.
// SPDX-License-Identifier: Apache-2.0
#include "base/device_wait.hpp"

#include <utility>

namespace trireme {
namespace {

thread_local std::function<DeviceIdle()> make_idle;

}  // namespace

void set_device_wait(std::function<DeviceIdle()> make) { make_idle = std::move(make); }

DeviceIdle start_device_wait() { return make_idle ? make_idle() : DeviceIdle(); }

}  // namespace trireme
