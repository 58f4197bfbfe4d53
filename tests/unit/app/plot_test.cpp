// Plots: ticks, scaling, thinning, and pictures that are well-formed whatever the data.
// SPDX-License-Identifier: Apache-2.0
#include "app/plot.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace trireme::app {
namespace {

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++n;
  return n;
}

// Every element is closed, and no number of the picture is inf or nan.
void expect_well_formed(const std::string& text) {
  EXPECT_TRUE(text.starts_with("<svg "));
  EXPECT_TRUE(text.ends_with("</svg>\n"));
  EXPECT_EQ(count(text, "<text "), count(text, "</text>"));
  EXPECT_EQ(count(text, "<"), count(text, ">"));
  for (const char* number : {"nan", "inf"})
    EXPECT_EQ(count(text, number), 0u) << number << " in " << text;
}

TEST(Plot, TicksAreRoundAndInside) {
  EXPECT_EQ(ticks(0, 10, 5), (std::vector<double>{0, 2, 4, 6, 8, 10}));
  const auto fine = ticks(0.101, 0.129, 6);
  ASSERT_FALSE(fine.empty());
  EXPECT_NEAR(fine.front(), 0.105, 1e-12);
  EXPECT_TRUE(ticks(1, 1, 5).empty());
  EXPECT_TRUE(ticks(0, std::nan(""), 5).empty());
}

TEST(Plot, LinesReachTheFrame) {
  const std::string text = svg(
      {"Loss", "step", "per token", {{"a", {{0, 0}, {100, 1}}}}, {{50}}, false, true});
  expect_well_formed(text);
  EXPECT_EQ(count(text, "<polyline"), 1u);
  EXPECT_EQ(count(text, "class=\"mark\""), 1u) << "a restart";
  EXPECT_NE(text.find("points=\"84.0,304.0 740.0,"), std::string::npos) << text;
}

TEST(Plot, NothingToDrawIsSaid) {
  for (const auto& lines : std::vector<std::vector<PlotLine>>{
           {}, {{"a", {}}}, {{"a", {{1, std::nan("")}, {std::nan(""), 1}}}}}) {
    const std::string text = svg({"t", "x", "y", lines, {}, false, false});
    expect_well_formed(text);
    EXPECT_NE(text.find("no data"), std::string::npos);
  }
}

TEST(Plot, OddDataStaysInside) {
  const double inf = std::numeric_limits<double>::infinity();
  for (const auto& points :
       std::vector<std::vector<PlotPoint>>{{{5, 7}},
                                           {{5, 0}},
                                           {{1, 3}, {2, 3}},
                                           {{1, 1}, {2, inf}, {3, -inf}, {4, 2}},
                                           {{1, 1e-300}, {2, 1e-300}},
                                           {{1, -1e30}, {2, 1e30}}})
    expect_well_formed(
        svg({"t", "x", "y", {{"<&>\"", points}}, {{-1}, {2}}, false, false}));
}

TEST(Plot, HoldsWhatDoublesHold) {
  const double most = std::numeric_limits<double>::max();
  const double least = std::numeric_limits<double>::denorm_min();
  const std::vector<std::vector<PlotPoint>> all = {{{1, 1e308}, {2, 1e308}, {3, 1}},
                                                   {{1, -1e308}, {2, 1e308}},
                                                   {{1, most}, {2, -most}},
                                                   {{1, most}},
                                                   {{1, least}, {2, 0}},
                                                   {{1, 1e-310}, {2, 3e-310}},
                                                   {{1, 1}, {2, std::nextafter(1, 2)}},
                                                   {{-most, 1}, {most, 2}},
                                                   {{1, 1e17}, {2, 1e17 + 16}},
                                                   {{1, -0.0}, {2, 0.0}}};
  for (const auto& points : all) {
    for (const bool stacked : {false, true}) {
      const std::string text = svg({"t",
                                    "x",
                                    "y",
                                    {{"a", points}, {"b", points}},
                                    {{most}, {-most}},
                                    stacked,
                                    stacked});
      expect_well_formed(text);
      EXPECT_LT(text.size(), 20000u) << "ticks without end";
      EXPECT_EQ(text.find("TT"), std::string::npos) << "a unit upon a unit";
      EXPECT_EQ(count(text, stacked             ? "<polygon"
                            : points.size() > 1 ? "<polyline"
                                                : "<circle"),
                2u);
    }
  }
}

TEST(Plot, NamesAreTextWhateverTheyHold) {
  const std::string hostile = "</text><script>alert('1')</script>&\"\x1b[2J\xff\n";
  const std::string text =
      svg({hostile, hostile, hostile, {{hostile, {{1, 1}, {2, 2}}}}, {}, false, false});
  expect_well_formed(text);
  EXPECT_EQ(text.find("<script"), std::string::npos);
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_EQ(text.find('\xff'), std::string::npos);
}

TEST(Plot, LongCurvesKeepTheirPeaks) {
  PlotLine line{"a", {}};
  for (int i = 0; i < 100000; ++i)
    line.points.push_back({static_cast<double>(i), i == 43210 ? 9.0 : 1.0});
  const std::string text = svg({"t", "x", "y", {line}, {}, false, false});
  expect_well_formed(text);
  EXPECT_LT(text.size(), 40000u);
  // 1 to 9 widened by 5 % on both sides: 9 lies 0.4 of 8.8 below the top.
  EXPECT_NE(text.find(",52.0"), std::string::npos);
}

TEST(Plot, AreasLieOnEachOther) {
  const std::string text = svg({"t",
                                "x",
                                "y",
                                {{"a", {{0, 1}, {10, 1}}}, {"b", {{0, 2}, {10, 2}}}},
                                {},
                                true,
                                true});
  expect_well_formed(text);
  EXPECT_EQ(count(text, "<polygon"), 2u);
  // The range is 0 to 3 and 5 %: the sum lies 0.15 of 3.15 below the top.
  EXPECT_NE(text.find("84.0,52.6"), std::string::npos) << text;
}

}  // namespace
}  // namespace trireme::app
