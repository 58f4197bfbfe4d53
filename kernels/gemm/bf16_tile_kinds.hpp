// The kinds of tiles that bf16 products are made of, and how their operands are packed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "base/split.hpp"
#include "kernels/gemm/amx_tile.hpp"
#include "kernels/gemm/bf16_panels.hpp"
#include "kernels/gemm/bf16_tile.hpp"

namespace trireme::kernels {

// VDPBF16PS: panels of 8 lines of A and of up to three registers of B.
struct VectorTile {
  static constexpr std::int64_t rows = tile_rows, columns = tile_columns;
  static constexpr std::int64_t pair_unit = 1;      // pairs of K come in multiples of it
  static constexpr std::int64_t most_depth = 1024;  // of K: a panel of A stays in L1
  static constexpr std::int64_t most_step = most_depth;
  static constexpr std::int64_t right_elements = 3 << 16;  // packed, of one thread: in L2
  static constexpr auto pack_left = pack_groups;
  // Where `lines` lines of A, from `line` of them on, are packed.
  static PanelPlace left(std::uint32_t* to, std::int64_t line, std::int64_t pairs) {
    std::uint32_t* const low = to + line * pairs;
    return {low, low + rows * pairs, rows};
  }
  // Where columns of B are, from `line` of `lines` of them on.
  static PanelPlace right(std::uint32_t* to, std::int64_t line, std::int64_t lines,
                          std::int64_t pairs) {
    const std::int64_t panel = line / columns * columns;
    const std::int64_t width = std::min(columns, lines - panel);
    std::uint32_t* const low = to + panel * pairs + (line - panel);
    return {low, low + panel_group / 2, divide_up(width, panel_group) * panel_group};
  }
  static constexpr auto multiply = multiply_tile;
};

// AMX: two by two tiles of 16 lines each. One thread's.
struct MatrixTile {
  static constexpr std::int64_t rows = amx_rows, columns = amx_columns;
  static constexpr std::int64_t pair_unit = 16;
  static constexpr std::int64_t most_depth = 1024;
  static constexpr std::int64_t most_step = 768;  // a panel of A stays in L1
  static constexpr std::int64_t right_elements = 1 << 19;
  static void pack_left(const PanelSource& from, PanelPlace first, PanelPlace second) {
    pack_tiles(from.part(0, std::min(panel_group, from.lines), 0, from.depth), first);
    if (from.lines > panel_group)
      pack_tiles(from.part(panel_group, from.lines - panel_group, 0, from.depth), second);
  }
  static PanelPlace left(std::uint32_t* to, std::int64_t line, std::int64_t pairs) {
    std::uint32_t* const low = to + line * pairs;
    return {low, low + panel_group / 2, panel_group};
  }
  static PanelPlace right(std::uint32_t* to, std::int64_t line, std::int64_t /*lines*/,
                          std::int64_t pairs) {
    return left(to, line, pairs);
  }
  MatrixTile() { configure_amx_tiles(); }
  ~MatrixTile() {
    finish_amx_tiles(sums);
    release_amx_tiles();
  }
  void multiply(const std::uint32_t* a, const std::uint32_t* b, std::int64_t pairs,
                std::int64_t lines, std::int64_t width, const TileResult& result,
                NextOperands& /*next*/) {  // is not asked for
    multiply_amx_tile(a, b, pairs, lines, width, result, sums);
  }
  AmxSums sums;
};

static_assert(panel_group == 2 * tile_rows && tile_columns % panel_group == 0);
static_assert(amx_rows % panel_group == 0 && amx_columns % panel_group == 0);

}  // namespace trireme::kernels
