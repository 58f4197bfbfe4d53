// TensorRegion: gathering small values.
// SPDX-License-Identifier: Apache-2.0
#include "parallel/tensor_region.hpp"

namespace trireme::parallel {

TensorView TensorRegion::gather(Stream& stream, Arena& arena, const TensorView& x) const {
  const std::int64_t n = size();
  if (n == 1) return x.reshape({1, x.elements()});
  const TensorView all = arena.take(x.dtype(), {n * x.elements()}, "gather");
  group_.all_gather(stream, x.reshape({x.elements()}), all).wait();
  return all.reshape({n, x.elements()});
}

}  // namespace trireme::parallel
