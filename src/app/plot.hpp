// Plots as SVG: lines and stacked areas over steps.
// SPDX-License-Identifier: Apache-2.0
#pragma once

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
};

struct Plot {
  std::string title, x_label, y_label;
  std::vector<PlotLine> lines;
  std::vector<double> marks;  // dashed vertical lines, such as restarts
  bool stacked = false;       // areas, one on the other, which share their x
  bool from_zero = false;     // the y axis begins at 0
};

// The whole SVG document. Long curves are thinned to what the eye can see: of the points
// that fall on one pixel column, the lowest and the highest. A plot without points says
// so.
std::string svg(const Plot& plot);

// About `count` round numbers (1, 2 or 5 times a power of ten apart) that lie in
// [low, high].
std::vector<double> ticks(double low, double high, int count);

}  // namespace trireme::app
