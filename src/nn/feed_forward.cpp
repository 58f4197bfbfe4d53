// FeedForward: storage of gate and up projection.
// SPDX-License-Identifier: Apache-2.0
#include "nn/feed_forward.hpp"

namespace trireme::nn {

Param up_param(Activation activation, const std::string& gate, const std::string& up,
               const Shape& whole, Range units, Initializer initializer) {
  const std::string kind = whole.rank() == 1 ? ".bias" : ".weight";
  Param param = row_split_param(up + kind, whole, units, initializer);
  if (!kernels::row_of(activation).gated) return param;
  NamedBox first = param.boxes.front();
  first.tensor = gate + kind;
  param.boxes.front().local_begin[0] = units.count();
  if (gate == up) {
    first.whole[0] = param.boxes.front().whole[0] = 2 * whole[0];
    param.boxes.front().global_begin[0] += whole[0];
  }
  param.boxes.insert(param.boxes.begin(), first);
  param.shape[0] = 2 * units.count();
  return param;
}

}  // namespace trireme::nn
