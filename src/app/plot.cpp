// Plots as SVG: lines and stacked areas over steps.
// SPDX-License-Identifier: Apache-2.0
#include "app/plot.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <string_view>

#include "app/markup.hpp"
#include "base/format.hpp"

namespace trireme::app {
namespace {

constexpr double width = 760, height = 380;
constexpr double left = 84, right = 20, top = 40, bottom = 76;
constexpr double inner_width = width - left - right, inner_height = height - top - bottom;

// Okabe and Ito (2008): told apart by colour-blind eyes too.
constexpr std::array<std::string_view, 8> colours = {"#0072b2", "#d55e00", "#009e73",
                                                     "#cc79a7", "#e69f00", "#56b4e9",
                                                     "#6b7280", "#999933"};

constexpr std::array<std::string_view, 8> on_dark = {"#4da6e8", "#ff8a4c", "#2fc79a",
                                                     "#e39ac4", "#f2c14e", "#8fd3f4",
                                                     "#a3acb8", "#c7c760"};

std::string_view colour_of(const PlotLine& line, std::size_t place) {
  const std::size_t number =
      line.colour < 0 ? place : static_cast<std::size_t>(line.colour);
  return colours[number % colours.size()];
}

std::string at(double value) { return fixed(value, 1); }

// 1500000 -> "1.5M"; 0.00025 and 1500 as they are.
std::string tick_text(double value) {
  struct Unit {
    double size;
    const char* name;
  };
  const double size = std::abs(value);
  for (const Unit unit :
       {Unit{1e12, "T"}, Unit{1e9, "G"}, Unit{1e6, "M"}, Unit{1e3, "k"}})
    if (size < 1e18 && size >= std::max(unit.size, 1e4))
      return tick_text(value / unit.size) + unit.name;
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.6g", value);
  return text.data();
}

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  void add(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  bool empty() const { return low > high; }
};

// Maps data to the picture.
struct Frame {
  Range x, y;
  double to_x(double value) const {
    return left + (value - x.low) / (x.high - x.low) * inner_width;
  }
  double to_y(double value) const {
    return top + inner_height - (value - y.low) / (y.high - y.low) * inner_height;
  }
};

// Values beyond this are drawn here, so that no sum or extent of values overflows.
constexpr double furthest = 1e300;

// Without points that are not finite; stacked: each line on the sum of those before.
std::vector<PlotLine> prepared(const Plot& plot) {
  std::vector<PlotLine> lines = plot.lines;
  for (auto& line : lines) {
    std::erase_if(line.points, [](const PlotPoint& p) {
      return !std::isfinite(p.x) || !std::isfinite(p.y);
    });
    for (auto& [x, y] : line.points) {
      x = std::clamp(x, -furthest, furthest);
      y = std::clamp(y, -furthest, furthest);
    }
  }
  if (!plot.stacked) return lines;
  for (std::size_t i = 1; i < lines.size(); ++i) {
    auto& points = lines[i].points;
    const auto& below = lines[i - 1].points;
    std::size_t j = 0;
    for (auto& point : points) {
      while (j + 1 < below.size() && below[j + 1].x <= point.x) ++j;
      if (j < below.size() && below[j].x <= point.x) point.y += below[j].y;
    }
  }
  return lines;
}

Frame frame_of(const Plot& plot, const std::vector<PlotLine>& lines) {
  Frame frame;
  for (const auto& line : lines) {
    for (const auto& point : line.points) {
      frame.x.add(point.x);
      frame.y.add(point.y);
    }
  }
  if (frame.x.empty()) return frame;
  if (plot.stacked || plot.from_zero) frame.y.add(0);
  // An extent that doubles cannot divide into ticks is drawn as one value.
  const auto widen = [](Range& range, double share) {
    const double size = std::max(std::abs(range.low), std::abs(range.high));
    const double extent = range.high - range.low;
    const bool flat = !(extent > 1e-12 * size && extent > 1e-290);
    const double margin = flat ? std::max(size * 0.05, 1e-12) : share * extent;
    range.high += margin;
    if (range.low != 0) range.low -= margin;
  };
  widen(frame.y, 0.05);
  widen(frame.x, 0);
  return frame;
}

std::string coordinates(const std::vector<PlotPoint>& points, const Frame& frame) {
  std::string out;
  for (const auto& point : points)
    out += (out.empty() ? "" : " ") + at(frame.to_x(point.x)) + "," +
           at(frame.to_y(point.y));
  return out;
}

std::string text_at(double x, double y, const char* anchor, std::string_view text) {
  return format("<text x=\"{}\" y=\"{}\" text-anchor=\"{}\">{}</text>\n", at(x), at(y),
                anchor, xml_text(text));
}

std::string line_from(double x1, double y1, double x2, double y2, const char* style) {
  return format("<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\" {}/>\n", at(x1), at(y1),
                at(x2), at(y2), style);
}

std::string axes(const Plot& plot, const Frame& frame) {
  constexpr auto grid = "stroke=\"#dddddd\"";
  std::string out;
  for (const double x : ticks(frame.x.low, frame.x.high, 8)) {
    if (x != std::floor(x)) continue;  // steps are whole
    out += line_from(frame.to_x(x), top, frame.to_x(x), top + inner_height, grid);
    out += text_at(frame.to_x(x), top + inner_height + 18, "middle", tick_text(x));
  }
  for (const double y : ticks(frame.y.low, frame.y.high, 6)) {
    out += line_from(left, frame.to_y(y), left + inner_width, frame.to_y(y), grid);
    out += text_at(left - 8, frame.to_y(y) + 4, "end", tick_text(y));
  }
  out += text_at(left + inner_width / 2, top + inner_height + 38, "middle", plot.x_label);
  out += text_at(left, top - 10, "start", plot.y_label);
  return out;
}

std::string marks(const Plot& plot, const Frame& frame) {
  std::string out;
  for (const PlotMark& mark : plot.marks) {
    if (!(mark.x >= frame.x.low && mark.x <= frame.x.high)) continue;
    const std::string stroke = mark.colour < 0 ? "#888888" : colour_name(mark.colour);
    const std::string style =
        "stroke=\"" + stroke + "\" stroke-dasharray=\"4 4\" class=\"mark\"";
    out += line_from(frame.to_x(mark.x), top, frame.to_x(mark.x), top + inner_height,
                     style.c_str());
  }
  return out;
}

std::string curve(const Plot& plot, const Frame& frame, const PlotLine& line,
                  std::size_t index) {
  const auto points = thinned(line.points, static_cast<std::size_t>(inner_width));
  const std::string_view colour = colour_of(line, index);
  if (points.empty()) return "";
  if (plot.stacked) {
    const double base = frame.to_y(0);
    return format("<polygon points=\"{},{} {} {},{}\" fill=\"{}\" stroke=\"{}\"/>\n",
                  at(frame.to_x(points.front().x)), at(base), coordinates(points, frame),
                  at(frame.to_x(points.back().x)), at(base), colour, colour);
  }
  if (points.size() == 1)
    return format("<circle cx=\"{}\" cy=\"{}\" r=\"3\" fill=\"{}\"/>\n",
                  at(frame.to_x(points[0].x)), at(frame.to_y(points[0].y)), colour);
  return format(
      "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.5\"{}/>\n",
      coordinates(points, frame), colour, line.dashed ? " stroke-dasharray=\"6 3\"" : "");
}

std::string legend(const std::vector<PlotLine>& lines) {
  std::string out;
  double x = left;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const double y = height - 16;
    out += format("<rect x=\"{}\" y=\"{}\" width=\"14\" height=\"10\" fill=\"{}\"/>\n",
                  at(x), at(y - 9), colour_of(lines[i], i));
    out += text_at(x + 19, y, "start", lines[i].name);
    x += 40 + 7.0 * static_cast<double>(lines[i].name.size());
  }
  return out;
}

}  // namespace

std::string colour_name(int number, bool dark) {
  const auto& all = dark ? on_dark : colours;
  return std::string(all[static_cast<std::size_t>(std::max(number, 0)) % all.size()]);
}

std::vector<PlotPoint> thinned(const std::vector<PlotPoint>& points,
                               std::size_t columns) {
  if (points.size() <= 2 * columns) return points;
  const double first = points.front().x, extent = points.back().x - first;
  const auto column_of = [&](std::size_t i) {
    return std::floor((points[i].x - first) / extent * static_cast<double>(columns));
  };
  std::vector<PlotPoint> out;
  for (std::size_t i = 0; i < points.size();) {
    const double column = column_of(i);
    std::size_t low = i, high = i, end = i;
    for (; end < points.size() && column_of(end) == column; ++end) {
      if (points[end].y < points[low].y) low = end;
      if (points[end].y > points[high].y) high = end;
    }
    end = std::max(end, i + 1);  // an extent that is not finite has no columns
    out.push_back(points[std::min(low, high)]);
    if (low != high) out.push_back(points[std::max(low, high)]);
    i = end;
  }
  return out;
}

std::vector<double> ticks(double low, double high, int count) {
  std::vector<double> out;
  if (!(high > low) || count < 1) return out;
  const double rough = (high - low) / count;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (const double factor : {5.0, 2.0, 1.0})
    if (factor * power >= rough) step = factor * power;
  const double first = std::ceil(low / step - 1e-9);
  for (int i = 0; (first + i) * step <= high + 1e-9 * step && i < 100; ++i)
    out.push_back((first + i) * step);
  return out;
}

std::string svg(const Plot& plot) {
  const auto lines = prepared(plot);
  const Frame frame = frame_of(plot, lines);
  std::string out = format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{}\" viewBox=\"0 "
      "0 "
      "{} {}\" font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" "
      "height=\"100%\" fill=\"white\"/>\n",
      width, height, width, height);
  out += format(
      "<text x=\"{}\" y=\"18\" text-anchor=\"middle\" font-weight=\"bold\">{}"
      "</text>\n",
      at(left + inner_width / 2), xml_text(plot.title));
  if (frame.x.empty())
    return out + text_at(width / 2, height / 2, "middle", "no data") + "</svg>\n";
  out += axes(plot, frame);
  // The highest area first, so that the lower ones lie on it.
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::size_t index = plot.stacked ? lines.size() - 1 - i : i;
    out += curve(plot, frame, lines[index], index);
  }
  out += marks(plot, frame);
  out += format(
      "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"none\" "
      "stroke=\"#444444\"/>\n",
      at(left), at(top), at(inner_width), at(inner_height));
  return out + legend(lines) + "</svg>\n";
}

}  // namespace trireme::app
