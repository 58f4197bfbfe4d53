// Scales of groups of inputs: where those of a box lie.
// SPDX-License-Identifier: Apache-2.0
#include "convert/quantized_groups.hpp"

#include <algorithm>

#include "base/split.hpp"

namespace trireme::convert {

std::vector<std::int32_t> group_of_inputs(
    const QuantizedSearch& search, const QuantizedMatrix::Stored* stored,
    std::int64_t group, std::vector<const QuantizedMatrix::Stored*>& used) {
  if (stored == nullptr) return {};
  const std::int64_t K = search.shape[1];
  expect_stored(*stored, {K}, {"I32"});
  used.push_back(stored);
  const Buffer read = read_elements(search.files, *stored, DType::i32, 0, K);
  const auto* const of = read.view().data<std::int32_t>();
  const std::int64_t size = group > 0 ? group : K, count = divide_up(K, size);
  // As compressed-tensors says of an unused order.
  if (std::all_of(of, of + K, [](std::int32_t group_of) { return group_of == -1; }))
    return {};
  bool in_order = true;
  for (std::int64_t k = 0; k < K; ++k) {
    in_order = in_order && of[k] == k / size;
    require(of[k] >= 0 && of[k] < count, Status::bad_content,
            "'{}' has the group {}, of which there are {}", stored->entry.name, of[k],
            count);
  }
  if (in_order) return {};
  return {of, of + K};
}

ScaleLayout GroupedScales::layout(const Shape& begin) const {
  ScaleLayout where{rows, columns};
  where.first_row = begin[0] % rows;
  where.first_column = begin[1];
  where.grid_columns = grid_columns;
  return where;
}

OwnedCodes GroupedScales::owned(CodeType type, const Shape& begin, const Shape& extent,
                                bool has_zeros) const {
  ScaleLayout where = layout(begin);
  if (!groups.empty()) {
    where.columns = 1;
    where.first_column = 0;
    where.grid_columns = extent[1];
  }
  OwnedCodes out(Device::host(), type, extent, where, has_zeros);
  const std::int64_t count = out.scales.view().elements();
  const auto fill = [&](const std::vector<float>& from, const Buffer& to) {
    auto* const numbers = to.view().data<float>();
    for (std::int64_t i = 0; i < count; ++i) {
      std::int64_t at = i;
      if (!groups.empty())
        at = i / extent[1] * grid_columns +
             groups[static_cast<std::size_t>(begin[1] + i % extent[1])];
      numbers[i] = from[static_cast<std::size_t>(at)];
    }
  };
  fill(scales, out.scales);
  if (has_zeros) fill(zeros, out.zeros);
  return out;
}

}  // namespace trireme::convert
