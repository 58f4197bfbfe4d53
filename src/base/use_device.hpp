// Which GPU the calls of a thread mean.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/device.hpp"

namespace trireme {

// Makes `device` the one that calls of the CUDA runtime by this thread mean, if it is a
// GPU: a thread begins with the first, and would make a context there. Throws
// Error(transport).
void use_device(Device device);

}  // namespace trireme
