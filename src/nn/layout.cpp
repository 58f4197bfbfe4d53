// Params cut along the tensor axis.
// SPDX-License-Identifier: Apache-2.0
#include "nn/layout.hpp"

namespace trireme::nn {
namespace {

Shape origin(const Shape& like) {
  Shape zero = like;
  for (int i = 0; i < zero.rank(); ++i) zero[i] = 0;
  return zero;
}

// A Param that is one box of one tensor.
Param box_param(const std::string& tensor, const Shape& whole, const Shape& begin,
                const Shape& extent, Initializer initializer) {
  Param param;
  param.name = tensor;
  param.shape = extent;
  param.initializer = initializer;
  param.decay = whole.rank() > 1;
  param.boxes.push_back(
      {tensor, whole, origin(whole), begin, extent, Place::varying, true});
  return param;
}

// A Param that every rank of the tensor axis holds, at `place` where there are several.
Param shared_param(const parallel::TensorRegion& region, const std::string& tensor,
                   const Shape& shape, Initializer initializer, Place place) {
  Param param = box_param(tensor, shape, origin(shape), shape, initializer);
  if (!region.divided()) return param;
  param.boxes.front().place = place;
  param.boxes.front().owned = region.counts_here();
  return param;
}

}  // namespace

Param unsplit_param(const parallel::TensorRegion& region, const std::string& tensor,
                    const Shape& shape, Initializer initializer) {
  return shared_param(region, tensor, shape, initializer, region.unsplit_weight());
}

Param unsplit_inner_param(const parallel::TensorRegion& region, const std::string& tensor,
                          const Shape& shape, Initializer initializer) {
  return shared_param(region, tensor, shape, initializer, Place::replicate);
}

Param row_split_param(const std::string& tensor, const Shape& whole, Range rows,
                      Initializer initializer) {
  Shape begin = origin(whole), extent = whole;
  begin[0] = rows.begin;
  extent[0] = rows.count();
  return box_param(tensor, whole, begin, extent, initializer);
}

Param column_split_param(const std::string& tensor, const Shape& whole, Range columns,
                         Initializer initializer) {
  Shape begin = origin(whole), extent = whole;
  begin[1] = columns.begin;
  extent[1] = columns.count();
  return box_param(tensor, whole, begin, extent, initializer);
}

}  // namespace trireme::nn
