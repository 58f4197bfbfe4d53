// The device of a test, apart from main.cpp: some programs have their own main().
// SPDX-License-Identifier: Apache-2.0
#include "support/device.hpp"

#include <cstdlib>
#include <string>

// What the run-time libraries of the sanitizers define; null where none is linked. Not a
// macro of the compiler: the program of a test may be compiled without its sanitizer.
extern "C" {
[[gnu::weak]] void __asan_init();
[[gnu::weak]] void __tsan_init();
}

namespace trireme::test {

Device test_device() {
  const char* wanted = std::getenv("TRIREME_TEST_DEVICE");
  return wanted != nullptr && std::string(wanted) == "cuda" ? Device::cuda(0)
                                                            : Device::host();
}

bool is_watched() { return __asan_init != nullptr || __tsan_init != nullptr; }

}  // namespace trireme::test
