// FeedForward: storage of gate and up projection.
// SPDX-License-Identifier: Apache-2.0
#include "nn/feed_forward.hpp"

namespace trireme::nn {

Param up_param(Activation activation, const std::string& gate, const std::string& up,
               const Shape& whole, Range units, Initializer initializer) {
  Param param = row_split_param(up + ".weight", whole, units, initializer);
  if (!kernels::row_of(activation).gated) return param;
  NamedBox first = param.boxes.front();
  first.tensor = gate + ".weight";
  param.boxes.front().local_begin[0] = units.count();
  param.boxes.insert(param.boxes.begin(), first);
  param.shape[0] = 2 * units.count();
  return param;
}

}  // namespace trireme::nn
