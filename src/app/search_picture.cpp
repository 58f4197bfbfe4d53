// Draws what a search found as SVG.
// SPDX-License-Identifier: Apache-2.0
#include "app/search_picture.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "app/markup.hpp"
#include "app/plot.hpp"
#include "base/format.hpp"

namespace trireme::app {
namespace {

constexpr double width = 760, height = 440;
constexpr double left = 84, right = 24, top = 48, bottom = 96;
constexpr double inner_width = width - left - right, inner_height = height - top - bottom;
constexpr double gibi = 1024.0 * 1024 * 1024;

// Colours of both kinds of pages: Okabe and Ito (2008), lighter on dark ones.
constexpr auto style = R"(<style>
  .page { fill: #ffffff } .text { fill: #222222 } .grid { stroke: #dddddd }
  .frame { fill: none; stroke: #444444 }
  .estimated { fill: #999999; fill-opacity: 0.45 } .planned { fill: #0072b2 }
  .frontier { fill: none; stroke: #d55e00; stroke-width: 2 }
  .winner { fill: none; stroke: #d55e00; stroke-width: 2.5 }
  .room { stroke: #222222; stroke-width: 1.5; stroke-dasharray: 6 4 }
  @media (prefers-color-scheme: dark) {
    .page { fill: #16181d } .text { fill: #e6e6e6 } .grid { stroke: #3a3d45 }
    .frame { stroke: #b0b0b0 }
    .estimated { fill: #a0a0a0; fill-opacity: 0.4 } .planned { fill: #56b4e9 }
    .frontier, .winner { stroke: #e69f00 } .room { stroke: #e6e6e6 }
  }
</style>
)";

struct Frame {
  double most_gib = 1, most_seconds = 1;
  double x(double bytes) const { return left + bytes / gibi / most_gib * inner_width; }
  double y(double seconds) const {
    return top + inner_height * (1 - seconds / most_seconds);
  }
  bool shows(double bytes, double seconds) const {
    return bytes / gibi <= most_gib && seconds <= most_seconds;
  }
};

std::string at(double value) { return fixed(value, 1); }

std::string text_at(double x, double y, const char* anchor, const std::string& text,
                    const char* more = "") {
  return format("<text class=\"text\" x=\"{}\" y=\"{}\" text-anchor=\"{}\"{}>{}</text>\n",
                at(x), at(y), anchor, more, xml_text(text));
}

std::string line_of(const char* name, double x1, double y1, double x2, double y2) {
  return format("<line class=\"{}\" x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\"/>\n", name,
                at(x1), at(y1), at(x2), at(y2));
}

std::string dot(const char* name, double x, double y, double radius) {
  return format("<circle class=\"{}\" cx=\"{}\" cy=\"{}\" r=\"{}\"/>\n", name, at(x),
                at(y), at(radius));
}

Frame frame_of(const plan::SearchResult& result, const plan::MemoryRoom& room) {
  Frame frame;
  double bytes = room.bytes;
  for (const plan::PlannedCandidate& one : result.planned)
    bytes = std::max(bytes, one.bytes);
  if (room.bytes > 0) bytes = std::min(bytes, 1.3 * room.bytes);
  frame.most_gib = 1.05 * bytes / gibi;
  double slowest = 0;
  for (const plan::PlannedCandidate& one : result.planned)
    slowest = std::max(slowest, one.seconds());
  for (const plan::Estimate& one : result.estimated)
    slowest = std::max(slowest, one.seconds);
  frame.most_seconds = 1.05 * std::min(slowest, 3 * result.ranked.front().seconds());
  return frame;
}

std::string axes(const Frame& frame) {
  std::string out;
  for (const double gib : ticks(0, frame.most_gib, 8)) {
    const double x = frame.x(gib * gibi);
    out += line_of("grid", x, top, x, top + inner_height);
    out += text_at(x, top + inner_height + 18, "middle", exact(gib));
  }
  for (const double seconds : ticks(0, frame.most_seconds, 6)) {
    const double y = frame.y(seconds);
    out += line_of("grid", left, y, left + inner_width, y);
    out += text_at(left - 8, y + 4, "end", exact(seconds));
  }
  out += text_at(left + inner_width / 2, top + inner_height + 38, "middle",
                 "memory of the fullest rank [GiB]");
  out += text_at(
      24, top + inner_height / 2, "middle", "time of a step [s]",
      format(" transform=\"rotate(-90 24 {})\"", at(top + inner_height / 2)).c_str());
  return out;
}

// One dot for all that fall on the same few pixels.
std::string estimated(const plan::SearchResult& result, const Frame& frame) {
  std::set<std::pair<int, int>> taken;
  std::string out;
  for (const plan::Estimate& one : result.estimated) {
    if (!frame.shows(one.bytes, one.seconds)) continue;
    const double x = frame.x(one.bytes), y = frame.y(one.seconds);
    if (taken.emplace(static_cast<int>(x / 6), static_cast<int>(y / 6)).second)
      out += dot("estimated", x, y, 2);
  }
  return out;
}

std::string frontier(const plan::SearchResult& result, const Frame& frame) {
  std::vector<plan::Estimate> all;
  for (const plan::PlannedCandidate& one : result.planned)
    if (frame.shows(one.bytes, one.seconds())) all.push_back({one.seconds(), one.bytes});
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
    return std::pair(a.bytes, a.seconds) < std::pair(b.bytes, b.seconds);
  });
  std::string points;
  double best = 0;
  for (const plan::Estimate& one : all) {
    if (best > 0 && one.seconds >= best) continue;
    if (best > 0) points += format(" {},{}", at(frame.x(one.bytes)), at(frame.y(best)));
    points += format("{}{},{}", points.empty() ? "" : " ", at(frame.x(one.bytes)),
                     at(frame.y(one.seconds)));
    best = one.seconds;
  }
  if (best > 0) points += format(" {},{}", at(left + inner_width), at(frame.y(best)));
  return format("<polyline class=\"frontier\" points=\"{}\"/>\n", points);
}

std::string legend() {
  const double y = height - 18;
  return dot("estimated", left + 6, y - 4, 3) +
         text_at(left + 16, y, "start", "estimated, fits") +
         dot("planned", left + 136, y - 4, 4) +
         text_at(left + 146, y, "start", "planned exactly") +
         line_of("frontier", left + 262, y - 4, left + 286, y - 4) +
         text_at(left + 292, y, "start", "frontier of what was planned") +
         dot("winner", left + 494, y - 4, 6) + text_at(left + 506, y, "start", "winner");
}

}  // namespace

std::string search_picture(const plan::SearchResult& result, const plan::MemoryRoom& room,
                           const std::string& title) {
  const Frame frame = frame_of(result, room);
  std::string out = format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{}\" viewBox=\"0 "
      "0 "
      "{} {}\" font-family=\"sans-serif\" font-size=\"12\">\n",
      width, height, width, height);
  out += style;
  out += "<rect class=\"page\" width=\"100%\" height=\"100%\"/>\n";
  out += text_at(left + inner_width / 2, 22, "middle", title, " font-weight=\"bold\"");
  out += axes(frame) + estimated(result, frame);
  for (const plan::PlannedCandidate& one : result.planned)
    if (frame.shows(one.bytes, one.seconds()))
      out += dot("planned", frame.x(one.bytes), frame.y(one.seconds()), 3.5);
  out += frontier(result, frame);
  if (room.bytes > 0) {
    const double x = frame.x(room.bytes);
    out += line_of("room", x, top, x, top + inner_height);
    out += text_at(x, top - 6, "middle", format("room: {}", human_bytes(room.bytes)));
  }
  const plan::PlannedCandidate& winner = result.ranked.front();
  out += dot("winner", frame.x(winner.bytes), frame.y(winner.seconds()), 7);
  out += format("<rect class=\"frame\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/>\n",
                at(left), at(top), at(inner_width), at(inner_height));
  return out + legend() + "</svg>\n";
}

}  // namespace trireme::app
