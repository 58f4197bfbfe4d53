// Dropout on a GPU: one pass.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/common/rows.cuh"
#include "kernels/dropout.hpp"
#include "kernels/math/dropout.hpp"

namespace trireme::kernels::cuda {
namespace {

template <class T>
struct Dropout {
  Rows<T> x, y;
  const std::int32_t* positions;
  math::DropoutMask mask;
  Wide<T> scale;
  template <int W>
  __device__ void at(std::int64_t r, std::int64_t c) const {
    auto group = load_group<W>(x[r] + c);
    const std::int64_t row = mask.row(r, positions[r]);
    std::uint64_t draw = 0;
#pragma unroll
    for (int i = 0; i < W; ++i) {
      if (i == 0 || mask.begins_draw(c + i)) draw = mask.draw(row, c + i);
      const bool kept = mask.kept_by(draw, c + i);
      group.x[i] = narrow<T>(kept ? widen(group.x[i]) * scale : Wide<T>(0));
    }
    store_group(y[r] + c, group);
  }
};

}  // namespace

void dropout(Stream& stream, const DropoutKey& key, double rate,
             const TensorView& positions_T, const TensorView& x_TD,
             const TensorView& y_TD) {
  visit_floating(y_TD.dtype(), [&]<class H>(H) {
    using T = DeviceType<H>;
    const Area area{y_TD.dim(0), y_TD.dim(1)};
    const bool aligned = starts_are_aligned({&x_TD, &y_TD}, area);
    launch_over_rows<pack_elements<T>>(
        stream, area, aligned,
        Dropout<T>{rows_of<H>(x_TD), rows_of<H>(y_TD), positions_T.data<std::int32_t>(),
                   math::DropoutMask(key, rate, y_TD.dim(1)),
                   static_cast<Wide<T>>(1 / (1 - rate))});
  });
}

}  // namespace trireme::kernels::cuda
