// Matrices of codes: E4M3 to nearest, and where the scales of boxes lie.
// SPDX-License-Identifier: Apache-2.0
#include "base/coded_matrix.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

namespace trireme {
namespace {

TEST(CodedMatrix, NearestE4m3) {
  const std::pair<float, unsigned> golden[] = {
      {1.0F, 0x38},     {448.0F, 0x7e},   {0x1p-6F, 0x08},
      {0x1p-9F, 0x01},  {-2.5F, 0xc2},    {17.0F, 0x58},
      {18.0F, 0x59},    {19.0F, 0x5a},    {20.0F, 0x5a},
      {0.0F, 0x00},     {-0.0F, 0x80},    {1e9F, 0x7e},
      {0x1p-10F, 0x00}, {0x3p-10F, 0x02}, {0x1.ep-7F + 0x1p-11F, 0x08}};
  for (const auto& [number, code] : golden)
    EXPECT_EQ(unsigned{nearest_e4m3(number)}, code) << number;
  EXPECT_EQ(nearest_e4m3(std::numeric_limits<float>::quiet_NaN()) & 0x7f, 0x7f);
  EXPECT_EQ(nearest_e4m3(-std::numeric_limits<float>::infinity()), 0xfe);
  CodedMatrix floats;
  floats.type = CodeType::e4m3;
  const float* const numbers = numbers_of(floats);
  for (unsigned code = 0; code < 256; ++code)
    if ((code & 0x7fu) != 0x7fu) {
      EXPECT_EQ(unsigned{nearest_e4m3(numbers[code])}, code);
    }
}

// Element [i, j] of a whole matrix of 6 x 10, by its definition.
float whole(std::int64_t i, std::int64_t j, std::int64_t block) {
  const auto code = static_cast<float>((7 * i + 3 * j) % 16);
  return (code - static_cast<float>(block % 3)) * static_cast<float>(block + 1);
}

// Every box has the numbers of the whole, whose blocks it cuts.
void expect_boxes(ScaleLayout layout,
                  const std::function<std::int64_t(std::int64_t, std::int64_t)>& of) {
  constexpr std::int64_t rows = 6, columns = 10;
  const ScaleLayout all = layout;
  for (std::int64_t i0 = 0; i0 < rows; ++i0)
    for (std::int64_t j0 = 0; j0 < columns; ++j0) {
      const Shape extent = {rows - i0, columns - j0};
      std::int64_t first = of(i0, j0);
      if (all.runs) {
        layout.first_column = (i0 * columns + j0) % all.columns;
      } else {
        layout.first_row = i0 % all.rows;
        layout.first_column = j0;
        first = of(i0, 0);
      }
      OwnedCodes box(Device::host(), CodeType::four_bits, extent, layout, true);
      for (int code = 0; code < 16; ++code)
        box.matrix.book.numbers[code] = static_cast<float>(code);
      for (std::int64_t s = 0; s < box.scales.view().elements(); ++s) {
        box.scales.view().data<float>()[s] = static_cast<float>(first + s + 1);
        box.zeros.view().data<float>()[s] = static_cast<float>((first + s) % 3);
      }
      const std::int64_t bytes = (extent[1] + 1) / 2;
      for (std::int64_t i = 0; i < extent[0]; ++i) {
        for (std::int64_t j = 0; j < extent[1]; ++j) {
          auto& two = box.codes.view().data<std::uint8_t>()[i * bytes + j / 2];
          const auto code = static_cast<unsigned>((7 * (i0 + i) + 3 * (j0 + j)) % 16);
          two = static_cast<std::uint8_t>(j % 2 == 0 ? code << 4 : two | code);
        }
        std::vector<float> row(static_cast<std::size_t>(extent[1]));
        decode_row(box.matrix, i, row.data());
        for (std::int64_t j = 0; j < extent[1]; ++j)
          ASSERT_EQ(row[static_cast<std::size_t>(j)],
                    whole(i0 + i, j0 + j, of(i0 + i, j0 + j)))
              << i0 << " " << j0 << " " << i << " " << j;
      }
    }
}

TEST(CodedMatrix, BlocksOfAGrid) {
  expect_boxes({4, 3, false, 0, 0, 4, 0},
               [](std::int64_t i, std::int64_t j) { return i / 4 * 4 + j / 3; });
}

TEST(CodedMatrix, RunsAcrossTheEndsOfRows) {
  expect_boxes({1, 8, true, 0, 0, 1, 10},
               [](std::int64_t i, std::int64_t j) { return (i * 10 + j) / 8; });
}

TEST(CodedMatrix, ProductsAreRounded) {
  OwnedCodes one(Device::host(), CodeType::int8, {1, 1}, {1, 1}, false);
  *one.codes.view().data<std::uint8_t>() = 3;
  *one.scales.view().data<float>() = 1.0F + 0x1p-9F;
  const std::pair<DType, float> want[] = {
      {DType::f32, 3.0F + 0x3p-9F}, {DType::f16, 3.0F + 0x3p-9F}, {DType::bf16, 3.0F}};
  for (const auto& [type, number] : want) {
    one.matrix.rounding = type;
    float got = 0;
    decode_row(one.matrix, 0, &got);
    EXPECT_EQ(got, number) << name_of(type);
  }
}

}  // namespace
}  // namespace trireme
