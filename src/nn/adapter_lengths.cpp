// Adapter: lengths of the rows of a weight with its product, and their gradients (DoRA).
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>

#include "kernels/elementwise.hpp"
#include "kernels/row_lengths.hpp"
#include "nn/adapter.hpp"
#include "nn/linear.hpp"

namespace trireme::nn {

using kernels::Accumulate, kernels::Transpose;

// They lie as the rows of B do.
void Adapter::add_magnitudes(Part& part) const {
  part.magnitude.name = part.module + std::string(magnitude_suffix);
  part.magnitude.shape = {part.up.shape[0]};
  part.magnitude.expert = part.up.expert;
  part.magnitude.initializer = {Initializer::Kind::ones};
  for (const NamedBox& up : part.up.boxes)
    part.magnitude.boxes.push_back(
        {up.tensor.substr(0, up.tensor.size() - up_suffix.size()) +
             std::string(magnitude_suffix),
         {up.whole[0]},
         {up.local_begin[0]},
         {up.global_begin[0]},
         {up.extent[0]},
         up.place,
         up.owned});
}

template <class Body>
void Adapter::each_block(const Body& body) const {
  const std::int64_t L = std::max<std::int64_t>(experts_, 1);
  const std::int64_t O = weight_.shape[0] / L;
  for (std::int64_t l = 0; l < L; ++l)
    for (const Part& part : parts_) {
      std::int64_t at = l * part.width;
      for (const Range& range : part.outputs) {
        body(Block{part, l * O + range.begin, at, range.count(),
                   l * ranks_ + part.first_rank});
        at += range.count();
      }
    }
}

template <class Body>
void Adapter::each_group(const TensorView& y_TO, Rows rows, const Body& body) const {
  if (!grouped()) return body(Range{0, y_TO.dim(0)}, Range{0, y_TO.dim(1)});
  const std::int64_t O = y_TO.dim(1);
  std::int64_t first = 0;
  for (std::size_t l = 0; l < rows.size(); ++l) {
    const auto begin = static_cast<std::int64_t>(l) * O;
    if (rows[l] > 0) body(Range{first, first + rows[l]}, Range{begin, begin + O});
    first += rows[l];
  }
}

// Some rows of V at a time, so that V is never whole in memory.
void Adapter::add_squares(Pass& pass, const Block& block, DType type,
                          const TensorView& squares_O) const {
  constexpr std::int64_t at_once = 256;
  const ArenaScope scope(pass.scratch);
  const std::int64_t rank = block.part.what.rank, columns = weight_.shape[1];
  const TensorView down = in_type(pass, down_.value.rows(block.down, rank), type);
  for (std::int64_t row = 0; row < block.rows; row += at_once) {
    const std::int64_t count = std::min(at_once, block.rows - row);
    const ArenaScope rows(pass.scratch);
    const TensorView sum = pass.scratch.take(type, {count, columns}, "adapter.rows");
    const TensorView up = pass.scratch.take(type, {count, rank}, "adapter.up");
    kernels::copy(pass.stream, weight_.value.rows(block.weight + row, count), sum);
    kernels::copy(pass.stream, block.part.up.value.rows(block.up + row, count), up);
    kernels::scale(pass.stream, up, block.part.what.scale);
    kernels::gemm(pass.stream, sum, up, Transpose::no, down, Transpose::no,
                  Accumulate::yes);
    kernels::add_row_squares(pass.stream, sum, squares_O.rows(block.weight + row, count));
  }
}

TensorView Adapter::lengths(Pass& pass, Arena& arena, DType compute) const {
  const DType type = compute == DType::f64 ? DType::f64 : DType::f32;
  const TensorView lengths_O =
      arena.take(DType::f64, {weight_.shape[0]}, "adapter.lengths");
  kernels::fill(pass.stream, lengths_O, 0.0);
  each_block([&](const Block& block) { add_squares(pass, block, type, lengths_O); });
  if (split_by_columns()) region_->sum(pass.stream, lengths_O);
  kernels::take_roots(pass.stream, lengths_O, type);
  return lengths_O;
}

void Adapter::weigh(Pass& pass, const TensorView& lengths_O, const TensorView& x_TO,
                    const TensorView& y_TO, Rows rows) const {
  const ArenaScope scope(pass.scratch);
  const TensorView factors_O =
      pass.scratch.take(DType::f64, lengths_O.shape(), "adapter.factors");
  kernels::fill(pass.stream, factors_O, 1.0);
  each_block([&](const Block& block) {
    kernels::divide_by_lengths(pass.stream,
                               block.part.magnitude.value.rows(block.up, block.rows),
                               lengths_O.rows(block.weight, block.rows), 1.0,
                               factors_O.rows(block.weight, block.rows));
  });
  each_group(y_TO, rows, [&](const Range& some, const Range& outputs) {
    kernels::scale_columns(pass.stream, x_TO.rows(some.begin, some.count()),
                           factors_O.rows(outputs.begin, outputs.count()),
                           y_TO.rows(some.begin, some.count()));
  });
}

void Adapter::post_magnitudes(Pass& pass, const TensorView& lengths_O,
                              const TensorView& dy_TO, const TensorView& v_TO,
                              Rows rows) {
  std::optional<ArenaScope> scope;  // as in post_gradients()
  if (!pass.weight_gradients.deferred()) scope.emplace(pass.scratch);
  const TensorView sums_O =
      pass.kept().take(DType::f64, lengths_O.shape(), "adapter.magnitudes");
  kernels::fill(pass.stream, sums_O, 0.0);
  each_group(dy_TO, rows, [&](const Range& some, const Range& outputs) {
    kernels::add_column_products(pass.stream, dy_TO.rows(some.begin, some.count()),
                                 v_TO.rows(some.begin, some.count()),
                                 sums_O.rows(outputs.begin, outputs.count()));
  });
  kernels::divide_by_lengths(pass.stream, sums_O, lengths_O, 0.0, sums_O);
  for (Part& part : parts_)
    pass.weight_gradients.post(
        pass.stream, part.magnitude, [this, &part, sums_O](Stream& on) {
          each_block([&](const Block& block) {
            if (&block.part != &part) return;
            kernels::accumulate(on, sums_O.rows(block.weight, block.rows),
                                part.magnitude.gradient.rows(block.up, block.rows));
          });
        });
}

}  // namespace trireme::nn
