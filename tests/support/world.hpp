// The world of a test program.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "comm/world.hpp"

namespace trireme::test {
comm::World& world();
}  // namespace trireme::test
