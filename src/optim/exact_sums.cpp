// ExactSums: rounding to a grid by adding an offset, and its removal.
// SPDX-License-Identifier: Apache-2.0
#include "optim/exact_sums.hpp"

#include <algorithm>
#include <vector>

#include "kernels/elementwise.hpp"

namespace trireme::optim {

namespace {

// Between 256 and 512 f64 has steps of the grid.
constexpr double offset = 384;
static_assert(0x1p8 * 0x1p-52 == ExactSums::grid);
constexpr std::int64_t most_staged_exactly = std::int64_t{1} << 18;

}  // namespace

ExactSums::ExactSums(Stream& stream, const FlatLayout& layout, Device device)
    : stream_(stream),
      layout_(layout),
      chunk_(std::min(most_staged_exactly, layout.trained_unsharded_elements)),
      sums_(device, DType::f64, {layout.trained_unsharded_elements},
            MemoryClass::gradients, "exact sums of gradients"),
      staging_(device, DType::f64, {2, chunk_}, MemoryClass::workspace,
               "numbers that are added exactly") {
  kernels::fill(stream_, staging_.view().rows(1, 1), -offset);
}

void ExactSums::clear() { kernels::fill(stream_, sums_.view(), 0.0); }

void ExactSums::add(const FlatParameter& flat, const TensorView& values) {
  const TensorView number = staging_.view().rows(0, 1).reshape({chunk_});
  const TensorView minus = staging_.view().rows(1, 1).reshape({chunk_});
  for (std::int64_t at = 0; at < flat.elements; at += chunk_) {
    const std::int64_t count = std::min(chunk_, flat.elements - at);
    const TensorView rounded = number.rows(0, count);
    kernels::fill(stream_, rounded, offset);
    kernels::accumulate(stream_, values.rows(at, count), rounded);
    kernels::accumulate(stream_, minus.rows(0, count), rounded);
    kernels::accumulate(stream_, rounded,
                        sums_.view().rows(flat.unsharded_begin + at, count));
  }
}

void ExactSums::finish(const TensorView& values) {
  std::vector<comm::Handle> handles;
  for (const FlatParameter& flat : layout_.flats)
    if (!flat.frozen && flat.sum_group->size() > 1)
      handles.push_back(flat.sum_group->all_reduce(
          stream_, sums_.view().rows(flat.unsharded_begin, flat.elements)));
  for (comm::Handle& handle : handles) handle.wait();
  kernels::copy(stream_, sums_.view(), values);
}

}  // namespace trireme::optim
