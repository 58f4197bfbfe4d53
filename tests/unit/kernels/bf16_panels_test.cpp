// Where each number of an operand of a bf16 product is packed, for both kinds of tiles.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm/bf16_panels.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "kernels/gemm/bf16_product.hpp"
#include "kernels/gemm/bf16_tile_kinds.hpp"

namespace trireme::kernels {
namespace {

constexpr std::uint32_t untouched = 0xdeadbeef;

std::uint32_t number(std::int64_t line, std::int64_t k) {
  return static_cast<std::uint32_t>(line * 211 + k + 1);
}

// The 32-bit number that holds pair p of a line; what does not exist is 0.
std::uint32_t pair_of(std::int64_t line, std::int64_t p, std::int64_t lines,
                      std::int64_t depth) {
  if (line >= lines) return 0;
  const std::uint32_t low = 2 * p < depth ? number(line, 2 * p) : 0;
  const std::uint32_t high = 2 * p + 1 < depth ? number(line, 2 * p + 1) : 0;
  return low | high << 16;
}

// Packs `lines` lines by pack(from, words, pairs) and expects pair p of line j at
// at(j, p, pairs), for all lines of whole groups and all pairs that a tile reads.
template <class Pack, class At>
void expect_places(std::int64_t pair_unit, const Pack& pack, const At& at) {
  for (const bool apart : {true, false})
    for (const std::int64_t lines : {1, 8, 16, 17, 33, 48, 49, 64, 70})
      for (const std::int64_t depth : {1, 2, 31, 32, 33, 67, 128}) {
        const std::int64_t stride = (apart ? depth : lines) + 3;
        std::vector<std::uint16_t> from(
            static_cast<std::size_t>(stride * (apart ? lines : depth)), 0x7fff);
        for (std::int64_t j = 0; j < lines; ++j)
          for (std::int64_t k = 0; k < depth; ++k)
            from[static_cast<std::size_t>(apart ? j * stride + k : k * stride + j)] =
                static_cast<std::uint16_t>(number(j, k));
        const std::int64_t pairs = divide_up(depth, 2 * pair_unit) * pair_unit;
        std::vector<std::uint32_t> words(static_cast<std::size_t>(96 * pairs), untouched);
        pack(PanelSource{from.data(), stride, apart, lines, depth}, words.data(), pairs);
        const std::int64_t padded = divide_up(lines, panel_group) * panel_group;
        for (std::int64_t j = 0; j < padded; ++j)
          for (std::int64_t p = 0; p < (pair_unit > 1 ? pairs : divide_up(depth, 2)); ++p)
            ASSERT_EQ(words[static_cast<std::size_t>(at(j, p, lines, pairs))],
                      pair_of(j, p, lines, depth))
                << "pair " << p << " of line " << j << " of " << lines << " x " << depth
                << (apart ? ", lines apart" : ", lines along");
      }
}

// A whole operand as op(A).
template <class Tile>
void pack_left(const PanelSource& from, std::uint32_t* words, std::int64_t pairs) {
  pack_panels(from, Tile::pack_left,
              [&](std::int64_t line) { return Tile::left(words, line, pairs); });
}

// As op(B).
template <class Tile>
void pack_right(const PanelSource& from, std::uint32_t* words, std::int64_t pairs) {
  pack_panels(from, pack_groups, [&](std::int64_t line) {
    return Tile::right(words, line, from.lines, pairs);
  });
}

class Bf16Panels : public testing::Test {
  void SetUp() override {
    if (!has_bf16_products()) GTEST_SKIP() << "this processor has no products of bf16";
  }
};

TEST_F(Bf16Panels, LeftOfVectors) {
  expect_places(1, pack_left<VectorTile>, [](auto j, auto p, auto, auto pairs) {
    return j / tile_rows * tile_rows * pairs + p * tile_rows + j % tile_rows;
  });
}

TEST_F(Bf16Panels, RightOfVectors) {
  expect_places(1, pack_right<VectorTile>, [](auto j, auto p, auto lines, auto pairs) {
    const std::int64_t panel = j / tile_columns * tile_columns;
    const std::int64_t width =
        divide_up(std::min(tile_columns, lines - panel), panel_group) * panel_group;
    return panel * pairs + p * width + (j - panel);
  });
}

// 16 lines of 16 pairs are a tile of AMX, each line's pairs together.
TEST_F(Bf16Panels, LeftOfAmx) {
  constexpr std::int64_t side = 16;
  expect_places(side, pack_left<MatrixTile>, [](auto j, auto p, auto, auto pairs) {
    return j / side * side * pairs + p / side * side * side + j % side * side + p % side;
  });
}

TEST_F(Bf16Panels, RightOfAmx) {
  expect_places(1, pack_right<MatrixTile>, [](auto j, auto p, auto, auto pairs) {
    return j / panel_group * panel_group * pairs + p * panel_group + j % panel_group;
  });
}

}  // namespace
}  // namespace trireme::kernels
