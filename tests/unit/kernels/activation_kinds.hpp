// The activations of the table, for tests that hold for all of them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "kernels/activation.hpp"

namespace trireme::test {

inline std::vector<kernels::Activation> activation_kinds() {
  std::vector<kernels::Activation> all;
  for (std::size_t i = 0; i < kernels::activations.size(); ++i)
    all.push_back(static_cast<kernels::Activation>(i));
  return all;
}

inline std::vector<kernels::Activation> ungated_activation_kinds() {
  std::vector<kernels::Activation> some;
  for (const kernels::Activation kind : activation_kinds())
    if (!kernels::row_of(kind).gated) some.push_back(kind);
  return some;
}

}  // namespace trireme::test
