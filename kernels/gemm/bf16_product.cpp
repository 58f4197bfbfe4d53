// Blocks, panels and threads of bf16 products: docs/decisions/gemm.md says why these.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm/bf16_product.hpp"

#include <algorithm>

#include "base/split.hpp"
#include "kernels/gemm/bf16_panels.hpp"
#include "kernels/gemm/bf16_target.hpp"
#include "kernels/gemm/bf16_tile_kinds.hpp"
#include "kernels/gemm/even_part.hpp"
#include "kernels/gemm/packed_units.hpp"
#include "kernels/gemm/workspace.hpp"
#include "kernels/host/parallel.hpp"
#include "kernels/runtime/runtime.hpp"

namespace trireme::kernels {
namespace {

constexpr std::int64_t left_elements = 1 << 21;       // packed, shared by all threads
constexpr std::int64_t sum_elements = 1 << 22;        // f32, where K is cut and C is bf16
constexpr std::int64_t unit_lines = 4 * panel_group;  // of A: two cache lines

// Rows of A as they are packed: in whole groups.
std::int64_t padded(std::int64_t rows) {
  return divide_up(rows, panel_group) * panel_group;
}

PanelSource source_of(const TensorView& operand, bool lines_apart, std::int64_t lines,
                      std::int64_t depth) {
  return {static_cast<const std::uint16_t*>(operand.raw()), operand.stride(0),
          lines_apart, lines, depth};
}

std::uint32_t* take_pairs(WorkspaceUse use, std::int64_t pairs) {
  return static_cast<std::uint32_t*>(
      workspace(use, static_cast<std::size_t>(pairs) * sizeof(std::uint32_t)));
}

// What a thread multiplies at a time.
struct Piece {
  Range block_rows = {}, block_depths = {};  // of A, that are packed for all threads
  Range rows = {}, depth = {};               // of these
  Range columns = {};                        // of B, that this thread has packed
  std::int64_t first_unit = 0;               // of A, with which the thread begins
};

// One product: a packed block of A, of some rows and some parts of K, serves all columns;
// threads share the columns (and the rows, where columns are few) and pack their own of
// B, a part of K at a time. Of A each begins with other rows and packs what is missing;
// what comes next of both is asked for meanwhile. A row of tiles goes through the steps
// of a part one by one.
template <class Tile>
struct Packed {
  TensorView c;
  PanelSource a, b;
  const std::uint16_t* bias;
  bool accumulate;
  std::int64_t m, n, k;
  std::int64_t m_part = 0, k_part = 0, k_step = 0, k_block = 0;
  std::int64_t columns = 0;                      // of B, packed at once
  std::int64_t column_parts = 0, row_parts = 0;  // of the threads' shares
  float* sums = nullptr;  // [m_part, n] of earlier parts of K, or of one part's earlier
                          // steps [threads][Tile::rows, columns]
  std::uint32_t* left = nullptr;
  std::uint32_t* right = nullptr;
  PackedUnits units = {};  // of the block of A: [lines][steps]

  void choose_parts();
  void run();
  void run_block(Range rows, Range depths);
  PanelSource left_unit(const Piece& piece, std::int64_t unit, Range depth) const;
  // Where a step of K of a line of the packed block begins.
  std::uint32_t* left_at(const Piece& piece, std::int64_t line, Range depth) const {
    const std::int64_t before = (depth.begin - piece.block_depths.begin) / 2;
    return left + padded(piece.block_rows.count()) * before +
           line * pairs_of(depth.count());
  }
  std::int64_t first_step(const Piece& piece, std::int64_t unit) const;
  void need_left(const Piece& piece, std::int64_t unit);
  void pack_right(Range columns, Range depth, std::uint32_t* to) const;
  void multiply(const Piece& piece, const std::uint32_t* packed, float* kept,
                NextOperands& next, Tile& tile);
  void multiply_rows(const Piece& piece, Range rows, const std::uint32_t* packed,
                     float* kept, NextOperands& next, Tile& tile) const;
  TileResult result(std::int64_t row, std::int64_t column, Range depth, float* kept,
                    std::int64_t kept_stride) const;
  // How often tiles of that many rows of a piece ask for what is next.
  static std::int64_t fetches(std::int64_t rows, const Piece& piece) {
    return fetches_of_tile * divide_up(rows, Tile::rows) *
           divide_up(piece.columns.count(), Tile::columns);
  }
  bool sums_are_kept() const { return c.dtype() != DType::f32 && k_step < k; }
  bool parts_are_kept() const { return c.dtype() != DType::f32 && k_part < k; }
  // The i-th step of some parts of K that begin with a whole one.
  std::int64_t steps_of(Range depths) const {
    return divide_up(depths.count(), k_part) * divide_up(k_part, k_step);
  }
  Range step(Range depths, std::int64_t i) const {
    const std::int64_t of_part = divide_up(k_part, k_step);
    const std::int64_t part = depths.begin + i / of_part * k_part;
    const std::int64_t end = std::min(part + k_part, depths.end);
    const std::int64_t begin = std::min(end, part + i % of_part * k_step);
    return {begin, std::min(end, begin + k_step)};
  }
  static std::int64_t pairs_of(std::int64_t depth) {
    return divide_up(depth, 2 * Tile::pair_unit) * Tile::pair_unit;
  }
};

template <class Tile>
void Packed<Tile>::choose_parts() {
  k_part = even_part(k, Tile::most_depth, 32);
  k_step = even_part(k_part, Tile::most_step, 32);
  m_part = std::min(left_elements / k_part, PackedUnits::most * unit_lines);
  if (parts_are_kept()) m_part = std::min(m_part, sum_elements / n);
  m_part = even_part(m, m_part, panel_group);
  columns = even_part(n, Tile::right_elements / k_part, Tile::columns);
  const std::int64_t panels = divide_up(n, Tile::columns);
  column_parts = std::min<std::int64_t>(panels, threads());
  row_parts = std::min(divide_up(m_part, panel_group), threads() / column_parts);
  const std::int64_t pairs = pairs_of(k_part), shares = column_parts * row_parts;
  // As many parts of K are packed at once as there is room for: threads meet less often.
  k_block = std::max<std::int64_t>(1, left_elements / (padded(m_part) * k_part)) * k_part;
  left = take_pairs(WorkspaceUse::left,
                    padded(m_part) * divide_up(std::min(k_block, k), k_part) * pairs);
  right = take_pairs(WorkspaceUse::right,
                     shares * divide_up(columns, Tile::columns) * Tile::columns * pairs);
  const std::int64_t kept = parts_are_kept() ? m_part * n : shares * Tile::rows * columns;
  if (sums_are_kept())
    sums = static_cast<float*>(
        workspace(WorkspaceUse::result, static_cast<std::size_t>(kept) * sizeof(float)));
}

template <class Tile>
PanelSource Packed<Tile>::left_unit(const Piece& piece, std::int64_t unit,
                                    Range depth) const {
  const std::int64_t line = unit * unit_lines;
  return a.part(piece.block_rows.begin + line,
                std::min(unit_lines, piece.block_rows.count() - line), depth.begin,
                depth.count());
}

// The first step of the piece's part of K, of a unit of lines.
template <class Tile>
std::int64_t Packed<Tile>::first_step(const Piece& piece, std::int64_t unit) const {
  return unit * steps_of(piece.block_depths) +
         steps_of({piece.block_depths.begin, piece.depth.begin});
}

// Returns when a unit of lines is packed for the piece's part of K.
template <class Tile>
void Packed<Tile>::need_left(const Piece& piece, std::int64_t unit) {
  for (std::int64_t i = 0; i < steps_of(piece.depth); ++i) {
    const Range depth = step(piece.depth, i);
    if (depth.count() == 0) continue;  // the last part has fewer steps
    std::uint32_t* const to = left_at(piece, unit * unit_lines, depth);
    const std::int64_t pairs = pairs_of(depth.count());
    units.need(first_step(piece, unit) + i, [&] {
      pack_panels(left_unit(piece, unit, depth), Tile::pack_left,
                  [&](std::int64_t line) { return Tile::left(to, line, pairs); });
    });
  }
}

template <class Tile>
void Packed<Tile>::pack_right(Range block, Range part, std::uint32_t* to) const {
  const std::int64_t width = divide_up(block.count(), panel_group) * panel_group;
  for (std::int64_t i = 0; i < steps_of(part); ++i) {
    const Range depth = step(part, i);
    if (depth.count() == 0) continue;
    const std::int64_t pairs = pairs_of(depth.count());
    std::uint32_t* const at = to + width * ((depth.begin - part.begin) / 2);
    const auto place = [&](std::int64_t line) {
      return Tile::right(at, line, block.count(), pairs);
    };
    pack_panels(b.part(block.begin, block.count(), depth.begin, depth.count()),
                pack_groups, place);
    const std::int64_t packed = divide_up(depth.count(), 2);
    if (packed < pairs)  // what a tile reads beyond K is 0
      for (std::int64_t line = 0; line < block.count(); line += panel_group)
        std::fill_n(place(line).low + packed * panel_group,
                    (pairs - packed) * panel_group, 0u);
  }
}

// What a step adds to C at (row, column); earlier steps' sums are kept there, or at
// `kept`.
template <class Tile>
TileResult Packed<Tile>::result(std::int64_t row, std::int64_t column, Range depth,
                                float* kept, std::int64_t kept_stride) const {
  const bool first = depth.begin == 0, last = depth.end == k;
  TileResult to;
  if (kept != nullptr) {
    if (!last) return {.c = kept, .stride = kept_stride, .accumulate = !first};
    if (!first) {
      to.add = kept;
      to.add_stride = kept_stride;
    }
  }
  const std::int64_t offset = row * c.stride(0) + column;
  to.c =
      static_cast<char*>(c.raw()) + static_cast<std::size_t>(offset) * size_of(c.dtype());
  to.dtype = c.dtype();
  to.stride = c.stride(0);
  to.bias = bias != nullptr && (kept != nullptr ? last : first) ? bias + column : nullptr;
  to.accumulate = accumulate || (kept == nullptr && !first);
  return to;
}

template <class Tile>
void Packed<Tile>::multiply_rows(const Piece& piece, Range rows,
                                 const std::uint32_t* packed, float* kept,
                                 NextOperands& next, Tile& tile) const {
  const Range &block = piece.columns, &depth = piece.depth;
  const std::int64_t width = divide_up(block.count(), panel_group) * panel_group;
  for (std::int64_t row = rows.begin; row < rows.end; row += Tile::rows) {
    const std::int64_t of_block = row - piece.block_rows.begin;
    for (std::int64_t i = 0; i < steps_of(depth); ++i) {
      const Range of = step(depth, i);
      if (of.count() == 0) continue;
      const std::int64_t pairs = pairs_of(of.count());
      const std::uint32_t* const a_at = left_at(piece, of_block, of);
      const std::uint32_t* b_at = packed + width * ((of.begin - depth.begin) / 2);
      for (std::int64_t column = block.begin; column < block.end;
           column += Tile::columns) {
        const std::int64_t count = std::min(Tile::columns, block.end - column);
        float* sums_at = nullptr;
        if (parts_are_kept())
          sums_at = sums + of_block * n + column;
        else if (sums_are_kept())
          sums_at = kept + (column - block.begin);
        tile.multiply(a_at, b_at, pairs, std::min(Tile::rows, rows.end - row), count,
                      result(row, column, of, sums_at, parts_are_kept() ? n : columns),
                      next);
        b_at += divide_up(count, panel_group) * panel_group * pairs;
      }
    }
  }
}

template <class Tile>
void Packed<Tile>::multiply(const Piece& piece, const std::uint32_t* packed, float* kept,
                            NextOperands& next, Tile& tile) {
  const std::int64_t begin = piece.rows.begin - piece.block_rows.begin;
  const std::int64_t end = piece.rows.end - piece.block_rows.begin;
  const Range all{begin / unit_lines, divide_up(end, unit_lines)};
  const auto unit_at = [&](std::int64_t i) {
    return all.begin + (piece.first_unit + i) % all.count();
  };
  for (std::int64_t i = 0; i < all.count(); ++i) {
    need_left(piece, unit_at(i));
    next.left = {};
    if (i + 1 < all.count() && units.is_missing(first_step(piece, unit_at(i + 1))))
      next.left =
          left_unit(piece, unit_at(i + 1), piece.depth).ahead(fetches(unit_lines, piece));
    const std::int64_t line = unit_at(i) * unit_lines;
    multiply_rows(piece,
                  {piece.block_rows.begin + std::max(begin, line),
                   piece.block_rows.begin + std::min(end, line + unit_lines)},
                  packed, kept, next, tile);
  }
}

template <class Tile>
void Packed<Tile>::run_block(Range rows, Range depths) {
  units.begin(divide_up(rows.count(), unit_lines) * steps_of(depths));
  const std::int64_t panels = divide_up(n, Tile::columns);
  const std::int64_t groups = divide_up(rows.count(), panel_group);
  const std::int64_t room =
      divide_up(columns, Tile::columns) * Tile::columns * pairs_of(k_part);
  const auto share = [&](std::int64_t part) {
    const Range columns_of = split_range(panels, column_parts, part / row_parts);
    const Range groups_of = split_range(groups, row_parts, part % row_parts);
    Piece piece{.block_rows = rows, .block_depths = depths};
    piece.rows = {rows.begin + groups_of.begin * panel_group,
                  std::min(rows.end, rows.begin + groups_of.end * panel_group)};
    if (piece.rows.count() <= 0) return;
    piece.first_unit =
        divide_up(piece.rows.count(), unit_lines) * (part / row_parts) / column_parts;
    std::uint32_t* const packed = right + part * room;
    float* const kept = sums == nullptr ? nullptr : sums + part * Tile::rows * columns;
    const std::int64_t end = std::min(n, columns_of.end * Tile::columns);
    const std::int64_t begin = columns_of.begin * Tile::columns;
    const std::int64_t width = even_part(end - begin, columns, Tile::columns);
    const auto part_at = [&](std::int64_t k_at) {
      return Range{k_at, std::min(depths.end, k_at + k_part)};
    };
    const auto block_at = [&](std::int64_t at) {
      return Range{at, std::min(end, at + width)};
    };
    Tile tile;
    for (std::int64_t k_at = depths.begin; k_at < depths.end; k_at += k_part) {
      piece.depth = part_at(k_at);
      for (std::int64_t at = begin; at < end; at += width) {
        piece.columns = block_at(at);
        pack_right(piece.columns, piece.depth, packed);
        NextOperands next;
        const bool same_part = at + width < end;
        if (same_part || k_at + k_part < depths.end) {
          const Range block = block_at(same_part ? at + width : begin);
          const Range depth = part_at(same_part ? k_at : k_at + k_part);
          next.right = b.part(block.begin, block.count(), depth.begin, depth.count())
                           .ahead(fetches(piece.rows.count(), piece));
        }
        multiply(piece, packed, kept, next, tile);
      }
    }
  };
  run_chunks("gemm.bf16", column_parts * row_parts, ChunkBody(share));
}

template <class Tile>
void Packed<Tile>::run() {
  choose_parts();
  for (std::int64_t row = 0; row < m; row += m_part)
    for (std::int64_t at = 0; at < k; at += k_block)
      run_block({row, std::min(m, row + m_part)}, {at, std::min(k, at + k_block)});
}

}  // namespace

bool has_bf16_products() {
#if TRIREME_HAS_BF16_TARGET
  static const bool has =
      __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512f") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512dq");
  return has;
#else
  return false;
#endif
}

bool bf16_products_pay() {
#if TRIREME_HAS_BF16_TARGET
  return has_bf16_products() && !__builtin_cpu_is("intel");
#else
  return false;
#endif
}

namespace {

template <class Tile>
void multiply_packed(const TensorView& c, const TensorView& a, Transpose transpose_a,
                     const TensorView& b, Transpose transpose_b, Accumulate accumulate,
                     const TensorView& bias) {
  const std::int64_t m = c.dim(0), n = c.dim(1);
  const std::int64_t k = a.dim(transpose_a == Transpose::yes ? 0 : 1);
  Packed<Tile>{
      .c = c,
      .a = source_of(a, transpose_a == Transpose::no, m, k),
      .b = source_of(b, transpose_b == Transpose::yes, n, k),
      .bias = bias.empty() ? nullptr : static_cast<const std::uint16_t*>(bias.raw()),
      .accumulate = accumulate == Accumulate::yes,
      .m = m,
      .n = n,
      .k = k}
      .run();
}

}  // namespace

void gemm_bf16(const TensorView& c, const TensorView& a, Transpose transpose_a,
               const TensorView& b, Transpose transpose_b, Accumulate accumulate,
               const TensorView& bias) {
  multiply_packed<VectorTile>(c, a, transpose_a, b, transpose_b, accumulate, bias);
}

void gemm_amx(const TensorView& c, const TensorView& a, Transpose transpose_a,
              const TensorView& b, Transpose transpose_b, Accumulate accumulate,
              const TensorView& bias) {
  multiply_packed<MatrixTile>(c, a, transpose_a, b, transpose_b, accumulate, bias);
}

}  // namespace trireme::kernels
