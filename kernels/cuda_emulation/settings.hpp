// The order of threads and how streams run: from the environment, or set by a test.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cuda_emulation/control.hpp"

namespace trireme::cuda_emulation {

struct Settings {
  Order order;
  bool lazy_streams = true;
  bool reads_host_pages = false;
};

// Read from the environment at the first call. A value that is not known ends the
// process.
Settings& settings();

}  // namespace trireme::cuda_emulation
