// Direction: forward or backward, of a pass through a model and of what is adjoint in it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace trireme {

enum class Direction : std::uint8_t { forward, backward };

}  // namespace trireme
