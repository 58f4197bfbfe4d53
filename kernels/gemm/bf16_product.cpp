// Blocks, panels and threads of bf16 products: docs/decisions/gemm.md says why these.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm/bf16_product.hpp"

#include <algorithm>

#include "base/split.hpp"
#include "kernels/gemm/bf16_panels.hpp"
#include "kernels/gemm/bf16_target.hpp"
#include "kernels/gemm/bf16_tile.hpp"
#include "kernels/gemm/workspace.hpp"
#include "kernels/host/parallel.hpp"
#include "kernels/runtime/runtime.hpp"

namespace trireme::kernels {
namespace {

constexpr std::int64_t most_depth = 1024;         // of K: a panel of A stays in L1
constexpr std::int64_t left_elements = 1 << 21;   // packed, shared by all threads
constexpr std::int64_t right_elements = 3 << 16;  // packed, of one thread: in its L2
constexpr std::int64_t sum_elements = 1 << 22;    // f32, where K is cut and C is bf16

// Panels of whole registers, which are two panels of A or a third of one of B.
static_assert(panel_group == 2 * tile_rows && tile_columns % panel_group == 0);

std::int64_t even_part(std::int64_t total, std::int64_t most, std::int64_t unit) {
  const std::int64_t parts = divide_up(total, std::max(most, unit));
  return std::min(total, divide_up(divide_up(total, parts), unit) * unit);
}

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

// One product: a packed block of A, of some rows and some parts of K, serves all columns;
// threads share the columns (and the rows, where columns are few) and pack their own of
// B.
struct Packed {
  TensorView c;
  PanelSource a, b;
  const std::uint16_t* bias;
  bool accumulate;
  std::int64_t m, n, k;
  std::int64_t m_part = 0, k_part = 0, k_block = 0;
  std::int64_t columns = 0;                      // of B, packed at once
  std::int64_t column_parts = 0, row_parts = 0;  // of the threads' shares
  float* sums = nullptr;                         // [m_part, n] of earlier parts of K
  std::uint32_t* left = nullptr;
  std::uint32_t* right = nullptr;

  void choose_parts();
  void run();
  void run_block(Range rows, Range depths);
  void pack_left(Range rows, Range depths) const;
  void pack_right(Range columns, Range depth, std::uint32_t* to) const;
  void multiply(Range rows, Range block_rows, Range depth, Range columns,
                const std::uint32_t* packed_left, const std::uint32_t* packed) const;
  TileResult result(std::int64_t row, std::int64_t row_of_block, std::int64_t column,
                    Range depth) const;
  bool sums_are_kept() const { return c.dtype() != DType::f32 && k_part < k; }
};

void Packed::choose_parts() {
  k_part = even_part(k, most_depth, 32);
  m_part = left_elements / k_part;
  if (sums_are_kept()) m_part = std::min(m_part, sum_elements / n);
  m_part = even_part(m, m_part, panel_group);
  columns = even_part(n, right_elements / k_part, tile_columns);
  const std::int64_t panels = divide_up(n, tile_columns);
  column_parts = std::min<std::int64_t>(panels, threads());
  row_parts = std::min(divide_up(m_part, panel_group), threads() / column_parts);
  const std::int64_t pairs = divide_up(k_part, 2);
  // As many parts of K are packed at once as there is room for: threads meet less often.
  k_block = std::max<std::int64_t>(1, left_elements / (padded(m_part) * k_part)) * k_part;
  left = take_pairs(WorkspaceUse::left,
                    padded(m_part) * divide_up(std::min(k_block, k), k_part) * pairs);
  right = take_pairs(
      WorkspaceUse::right,
      column_parts * row_parts * divide_up(columns, tile_columns) * tile_columns * pairs);
  if (sums_are_kept())
    sums = static_cast<float*>(workspace(
        WorkspaceUse::result, static_cast<std::size_t>(m_part * n) * sizeof(float)));
}

// Packs `from`, groups of lines at the places that `place(line)` gives. Where lines lie
// along memory, some rows of all groups come first, so that cache lines are used whole.
template <class F>
void pack(const PanelSource& from, const F& place) {
  constexpr std::int64_t rows_at_once = 64;
  const std::int64_t step = from.lines_apart ? from.depth : rows_at_once;
  for (std::int64_t k = 0; k < from.depth; k += step)
    for (std::int64_t line = 0; line < from.lines; line += panel_group) {
      const PanelPlace to = place(line);
      const std::int64_t offset = k / 2 * to.step;
      pack_group(from.part(line, std::min(panel_group, from.lines - line), k,
                           std::min(step, from.depth - k)),
                 {to.low + offset, to.high + offset, to.step});
    }
}

// A part of K of a packed block of A begins at depth * padded rows / 2.
void Packed::pack_left(Range rows, Range depths) const {
  constexpr std::int64_t lines = 4 * panel_group;  // two cache lines
  const std::int64_t clusters = divide_up(rows.count(), lines);
  const std::int64_t parts = divide_up(depths.count(), k_part);
  for_ranges("gemm.pack", clusters * parts, 1, threads(), [&](auto begin, auto end) {
    for (auto i = begin; i < end; ++i) {
      const std::int64_t line = i / parts * lines, at = i % parts * k_part;
      const std::int64_t depth = std::min(k_part, depths.count() - at);
      const std::int64_t pairs = divide_up(depth, 2);
      std::uint32_t* const to = left + padded(rows.count()) * (at / 2) + line * pairs;
      pack(a.part(rows.begin + line, std::min(lines, rows.count() - line),
                  depths.begin + at, depth),
           [&](std::int64_t of_part) -> PanelPlace {
             std::uint32_t* low = to + of_part * pairs;
             return {low, low + tile_rows * pairs, tile_rows};
           });
    }
  });
}

void Packed::pack_right(Range block, Range depth, std::uint32_t* to) const {
  const std::int64_t pairs = divide_up(depth.count(), 2);
  pack(b.part(block.begin, block.count(), depth.begin, depth.count()),
       [&](std::int64_t line) -> PanelPlace {
         const std::int64_t panel = line / tile_columns * tile_columns;
         const std::int64_t columns_of = std::min(tile_columns, block.count() - panel);
         std::uint32_t* low = to + panel * pairs + (line - panel);
         return {low, low + panel_group / 2,
                 divide_up(columns_of, panel_group) * panel_group};
       });
}

// The row of C that is the `row_of_block`-th of its block.
TileResult Packed::result(std::int64_t row, std::int64_t row_of_block,
                          std::int64_t column, Range depth) const {
  const bool first = depth.begin == 0, last = depth.end == k;
  const std::int64_t offset = row * c.stride(0) + column;
  TileResult to;
  if (sums != nullptr) {
    float* kept = sums + row_of_block * n + column;
    if (!last) return {.c = kept, .stride = n, .accumulate = !first};
    if (!first) {
      to.add = kept;
      to.add_stride = n;
    }
  }
  to.c =
      static_cast<char*>(c.raw()) + static_cast<std::size_t>(offset) * size_of(c.dtype());
  to.dtype = c.dtype();
  to.stride = c.stride(0);
  to.bias = bias != nullptr && (sums != nullptr ? last : first) ? bias + column : nullptr;
  to.accumulate = accumulate || (sums == nullptr && !first);
  return to;
}

void Packed::multiply(Range rows, Range block_rows, Range depth, Range block,
                      const std::uint32_t* packed_left,
                      const std::uint32_t* packed) const {
  const std::int64_t pairs = divide_up(depth.count(), 2);
  for (std::int64_t row = rows.begin; row < rows.end; row += tile_rows) {
    const std::int64_t of_block = row - block_rows.begin;
    const std::uint32_t* from = packed;
    for (std::int64_t at = block.begin; at < block.end; at += tile_columns) {
      const std::int64_t width = std::min(tile_columns, block.end - at);
      multiply_tile(packed_left + of_block * pairs, from, pairs,
                    std::min(tile_rows, rows.end - row), width,
                    result(row, of_block, at, depth));
      from += divide_up(width, panel_group) * panel_group * pairs;
    }
  }
}

void Packed::run_block(Range rows, Range depths) {
  pack_left(rows, depths);
  const std::int64_t panels = divide_up(n, tile_columns);
  const std::int64_t groups = divide_up(rows.count(), panel_group);
  const std::int64_t room =
      divide_up(columns, tile_columns) * tile_columns * divide_up(k_part, 2);
  const auto share = [&](std::int64_t part) {
    const Range columns_of = split_range(panels, column_parts, part / row_parts);
    const Range groups_of = split_range(groups, row_parts, part % row_parts);
    const Range mine{rows.begin + groups_of.begin * panel_group,
                     std::min(rows.end, rows.begin + groups_of.end * panel_group)};
    if (mine.count() <= 0) return;
    std::uint32_t* const packed = right + part * room;
    const std::int64_t end = std::min(n, columns_of.end * tile_columns);
    const std::int64_t begin = columns_of.begin * tile_columns;
    const std::int64_t step = even_part(end - begin, columns, tile_columns);
    for (std::int64_t k_at = depths.begin; k_at < depths.end; k_at += k_part) {
      const Range depth{k_at, std::min(depths.end, k_at + k_part)};
      const std::uint32_t* const packed_left =
          left + padded(rows.count()) * ((k_at - depths.begin) / 2);
      for (std::int64_t at = begin; at < end; at += step) {
        const Range block{at, std::min(end, at + step)};
        pack_right(block, depth, packed);
        multiply(mine, rows, depth, block, packed_left, packed);
      }
    }
  };
  run_chunks("gemm.bf16", column_parts * row_parts, ChunkBody(share));
}

void Packed::run() {
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

void gemm_bf16(const TensorView& c, const TensorView& a, Transpose transpose_a,
               const TensorView& b, Transpose transpose_b, Accumulate accumulate,
               const TensorView& bias) {
  const std::int64_t m = c.dim(0), n = c.dim(1);
  const std::int64_t k = a.dim(transpose_a == Transpose::yes ? 0 : 1);
  Packed{.c = c,
         .a = source_of(a, transpose_a == Transpose::no, m, k),
         .b = source_of(b, transpose_b == Transpose::yes, n, k),
         .bias = bias.empty() ? nullptr : static_cast<const std::uint16_t*>(bias.raw()),
         .accumulate = accumulate == Accumulate::yes,
         .m = m,
         .n = n,
         .k = k}
      .run();
}

}  // namespace trireme::kernels
