// TensorRegion: sums and gathers in parts, and gathering small values.
// SPDX-License-Identifier: Apache-2.0
#include "parallel/tensor_region.hpp"

#include <memory>
#include <utility>
#include <vector>

#include "comm/meta_group.hpp"

namespace trireme::parallel {

const TensorRegion& TensorRegion::whole() {
  static const std::unique_ptr<comm::Group> alone = comm::make_meta_group("tensor", 0, 1);
  static const TensorRegion region(*alone, false);
  return region;
}

// The chunk's rows of x lie one after the other, for a reduce-scatter those of every
// rank: x is scratch, and its order of rows is this function's own.
Transfer TensorRegion::sum(Edge::Change change, Stream& stream, Arena& arena,
                           const TensorView& x_TD, const Product& product) const {
  const std::int64_t T = x_TD.dim(0);
  if (size() == 1 || chunks_ == 1) {
    product({0, T}, x_TD);
    return change(group_, stream, arena, x_TD);
  }
  const bool scatters = outside() == Place::varying;
  const std::int64_t parts = scatters ? size() : 1, rows = T / parts;
  require(T % parts == 0, "{} rows cannot be split over {} ranks of '{}'", T, parts,
          group_.name());
  const TensorView sum_TD =
      scatters ? arena.take(x_TD.dtype(), {rows, x_TD.dim(1)}, "reduce_scatter") : x_TD;
  std::vector<comm::Handle> handles;
  for (int chunk = 0; chunk < chunks_; ++chunk) {
    const Range range = split_range(rows, chunks_, chunk);
    const std::int64_t count = range.count();
    if (count == 0) continue;
    const TensorView terms = x_TD.rows(parts * range.begin, parts * count);
    for (std::int64_t part = 0; part < parts; ++part) {
      const std::int64_t first = part * rows;
      product({first + range.begin, first + range.end}, terms.rows(part * count, count));
    }
    group_.progress();
    handles.push_back(
        scatters ? group_.reduce_scatter(stream, terms, sum_TD.rows(range.begin, count))
                 : group_.all_reduce(stream, terms));
  }
  return {sum_TD, std::move(handles)};
}

TensorView TensorRegion::enter(Stream& stream, Arena& arena, const TensorView& x_TD,
                               bool in_parts, const Reader& read) const {
  Transfer all = enter(stream, arena, x_TD);
  if (!in_parts || !gathers() || !cuts()) {
    const TensorView all_TD = all.wait();
    read({0, all_TD.dim(0)}, all_TD);
    return all_TD;
  }
  const std::int64_t T = x_TD.dim(0) * size();
  const Range mine = part(T);
  read(mine, x_TD);
  const TensorView all_TD = all.wait();
  for (const Range& others : {Range{0, mine.begin}, Range{mine.end, T}})
    if (others.count() > 0) read(others, all_TD.rows(others.begin, others.count()));
  return all_TD;
}

bool TensorRegion::in_one_part(std::int64_t extent, Range range) const {
  for (int rank = 0; rank < size(); ++rank) {
    const Range part = split_range(extent, size(), rank);
    if (part.begin <= range.begin && range.begin < part.end) return range.end <= part.end;
  }
  return false;
}

TensorView TensorRegion::gather(Stream& stream, Arena& arena, const TensorView& x) const {
  Shape shape = x.shape().rank() == 1   ? Shape{size(), x.dim(0)}
                : x.shape().rank() == 2 ? Shape{size(), x.dim(0), x.dim(1)}
                                        : Shape{size(), x.elements()};
  if (!divided()) return x.reshape(shape);
  const TensorView all = arena.take(x.dtype(), {shape.elements()}, "gather");
  group_.all_gather(stream, x.reshape({x.elements()}), all).wait();
  return all.reshape(shape);
}

}  // namespace trireme::parallel
