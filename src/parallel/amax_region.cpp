// AmaxRegion: gathering, for a reduction by max may lose NaNs.
// SPDX-License-Identifier: Apache-2.0
#include "parallel/amax_region.hpp"

#include "kernels/quantize.hpp"

namespace trireme::parallel {

void AmaxRegion::agree(Stream& stream, Arena& scratch, const TensorView& amax_1) const {
  for (comm::Group* group : {tensor_, context_}) {
    if (group == nullptr || group->size() == 1) continue;
    const ArenaScope scope(scratch);
    const TensorView all_P = scratch.take(DType::f32, {group->size()}, "amax");
    group->all_gather(stream, amax_1, all_P).wait();
    kernels::amax(stream, all_P, amax_1);
  }
}

}  // namespace trireme::parallel
