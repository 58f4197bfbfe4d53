// Plots as SVG: lines and stacked areas over steps.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace trireme::app {

struct PlotPoint {
  double x = 0, y = 0;
};

// A curve with its name in the legend. Points in the order of x; those that are not
// finite are left out.
struct PlotLine {
  std::string name;
  std::vector<PlotPoint> points;
  int colour = -1;      // number of its colour; -1: that of its place among the lines
  bool dashed = false;  // the same colour once more: validation beside training
};

// A dashed vertical line, such as a restart of the run whose colour it has; -1: grey.
struct PlotMark {
  double x = 0;
  int colour = -1;
};

struct Plot {
  std::string title, x_label, y_label;
  std::vector<PlotLine> lines;
  std::vector<PlotMark> marks;
  bool stacked = false;    // areas, one on the other, which share their x
  bool from_zero = false;  // the y axis begins at 0
};

// The whole SVG document. Long curves are thinned to what the eye can see: of the points
// that fall on one pixel column, the lowest and the highest. A plot without points says
// so.
std::string svg(const Plot& plot);

// "#0072b2": a colour by its number, on white paper or on a dark screen.
std::string colour_name(int number, bool dark = false);

// The points with which a curve looks the same where it is about `columns` pixels wide:
// of those that fall on one column, the lowest and the highest. Points in the order of x.
std::vector<PlotPoint> thinned(const std::vector<PlotPoint>& points, std::size_t columns);

// About `count` round numbers (1, 2 or 5 times a power of ten apart) that lie in
// [low, high].
std::vector<double> ticks(double low, double high, int count);

}  // namespace trireme::app
