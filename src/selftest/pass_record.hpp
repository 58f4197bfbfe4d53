// What devices this build has passed its self-test on: small files in the user's cache.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/cuda_devices.hpp"

namespace trireme::selftest {

// $XDG_CACHE_HOME, or ~/.cache, and trireme/selftest below it. "" where neither is an
// absolute path.
std::string record_folder();

// The name of the file of a device: this build's version and commit, the device's name
// and its compute capability.
std::string record_name(const CudaDevice& gpu);

// Whether this user has a record of a pass on such a device.
bool has_passed(const CudaDevice& gpu);

// Leaves a record of record_name(). "" or why there is none: a cache that cannot be
// written is no error.
std::string record_pass(const std::string& name);

}  // namespace trireme::selftest
