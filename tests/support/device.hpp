// The device that a test program computes on.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/device.hpp"

namespace trireme::test {

// The host, or with TRIREME_TEST_DEVICE=cuda in the environment the first GPU, which the
// ranks of a test share. A program that is to use a GPU where there is none ends as
// skipped before its first test.
Device test_device();

// Whether a sanitizer watches every access to memory, so that all takes ten times as
// long. Tests then take smaller sizes and fewer cases, of the same kinds.
bool is_watched();

}  // namespace trireme::test
