// What a host does while it waits for a GPU.
// SPDX-License-Identifier: Apache-2.0
//
// In a call of the driver it would be deaf: a GPU that waits for a rank that never comes
// does not end, and nobody would say so. Where GPUs wait for each other, the transport
// has the host ask again and again instead, and look after its messages and its patience.
#pragma once

#include <functional>

namespace trireme {

// Called between two questions; throws, or ends the job, when it has waited too long.
using DeviceIdle = std::function<void()>;

// From now on waits of the calling thread for a device call make() once, and then what it
// returned between questions. An empty function: waits block in the driver. Other threads
// always do.
void set_device_wait(std::function<DeviceIdle()> make);

// Of the calling thread; empty where it is to block in the driver.
DeviceIdle start_device_wait();

}  // namespace trireme
