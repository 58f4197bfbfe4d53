// The device of a test, apart from main.cpp: some programs have their own main().
// SPDX-License-Identifier: Apache-2.0
#include "support/device.hpp"

#include <cstdlib>
#include <string>

namespace trireme::test {

Device test_device() {
  const char* wanted = std::getenv("TRIREME_TEST_DEVICE");
  return wanted != nullptr && std::string(wanted) == "cuda" ? Device::cuda(0)
                                                            : Device::host();
}

}  // namespace trireme::test
