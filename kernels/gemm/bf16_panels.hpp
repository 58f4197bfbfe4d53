// Operands of a bf16 product, packed as the processor's instruction reads them.
// SPDX-License-Identifier: Apache-2.0
// A *panel* holds `width` rows of op(A), or columns of op(B), and a depth of K: element
// pair (2 k, 2 k + 1) of line j is the 32-bit number at [k][j]. Lines and the second
// element of a pair that do not exist are 0.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/gemm/ahead.hpp"

namespace trireme::kernels {

constexpr std::int64_t panel_group = 16;  // lines that are packed at once: a register

// Lines of an operand as they are stored.
struct PanelSource {
  const std::uint16_t* data = nullptr;
  std::int64_t stride = 0;   // elements from row to row
  bool lines_apart = false;  // a row is a line (K along memory), or else a k
  std::int64_t lines = 0, depth = 0;

  PanelSource part(std::int64_t line, std::int64_t count, std::int64_t first_k,
                   std::int64_t depth) const {
    const std::int64_t offset =
        lines_apart ? line * stride + first_k : first_k * stride + line;
    return {data + offset, stride, lines_apart, count, depth};
  }
  // What is read when this is packed, to be asked for in `calls` calls.
  Ahead ahead(std::int64_t calls) const {
    constexpr std::int64_t element = sizeof(std::uint16_t);
    return {data, lines_apart ? lines : depth, (lines_apart ? depth : lines) * element,
            stride * element, calls};
  }
};

// Where a group of lines is packed: its first eight at `low`, the others at `high`,
// `step` 32-bit numbers further for each pair.
struct PanelPlace {
  std::uint32_t* low = nullptr;
  std::uint32_t* high = nullptr;
  std::int64_t step = 0;
};

// Packs up to two groups of lines of `from`, each to its place: divide_up(depth, 2)
// pairs. Only on a processor for which has_bf16_products().
void pack_groups(const PanelSource& from, PanelPlace first, PanelPlace second);
// The same for one group.
inline void pack_group(const PanelSource& from, PanelPlace to) {
  pack_groups(from, to, {});
}

// Packs `from` by pack_groups() or its like: each group of lines at the place that
// `place(line)` gives. Where lines lie along memory, some rows of all groups come first,
// so that cache lines are used whole.
template <class F>
void pack_panels(const PanelSource& from,
                 void (*pack_lines)(const PanelSource&, PanelPlace, PanelPlace),
                 const F& place) {
  constexpr std::int64_t rows_at_once = 32;  // what a tile of AMX holds
  constexpr std::int64_t lines = 2 * panel_group;
  const std::int64_t step = from.lines_apart ? from.depth : rows_at_once;
  for (std::int64_t k = 0; k < from.depth; k += step)
    for (std::int64_t line = 0; line < from.lines; line += lines) {
      const auto place_of = [&](std::int64_t group) {
        PanelPlace to = place(group);
        to.low += k / 2 * to.step;
        to.high += k / 2 * to.step;
        return to;
      };
      const std::int64_t count = std::min(lines, from.lines - line);
      pack_lines(from.part(line, count, k, std::min(step, from.depth - k)),
                 place_of(line),
                 count > panel_group ? place_of(line + panel_group) : PanelPlace{});
    }
}

}  // namespace trireme::kernels
