// The bytes of weights and moments, for tests that compare runs to the bit.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "io/host_copy.hpp"
#include "optim/store_context.hpp"

namespace trireme::test {

// Of all boxes on this rank, one after another, from any device.
inline std::vector<std::byte> bytes_of(const std::vector<optim::StateBox>& boxes) {
  std::vector<std::byte> all;
  io::HostCopy host;
  for (const optim::StateBox& box : boxes) {
    const TensorView x = host.read(box.data);
    const auto* const first = static_cast<const std::byte*>(x.raw());
    all.insert(all.end(), first, first + x.bytes());
  }
  return all;
}

}  // namespace trireme::test
