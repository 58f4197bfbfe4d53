// metrics.jsonl as a report, a sweep and a resumed run read it.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "app/plot.hpp"
#include "fuzz.hpp"
#include "io/metrics.hpp"
#include "io/metrics_history.hpp"

namespace trireme {
namespace {

constexpr std::int64_t most_steps = 8;

void check_plot(const io::MetricsHistory& history) {
  app::Plot plot;
  for (const auto& [key, series] : history.series) {
    app::PlotLine& line = plot.lines.emplace_back();
    line.name = key;
    for (const auto& [step, value] : series)
      line.points.push_back({static_cast<double>(step), value});
    if (plot.lines.size() == 3) break;
  }
  if (app::svg(plot).empty()) fuzz::finding("an empty plot");
}

void check(std::string_view text) {
  const std::string path = fuzz::put("metrics.jsonl", text);
  const auto history = fuzz::unless_refused([&] { return io::read_metrics(path); });
  if (history) {
    if (history->last_step() < 0) fuzz::finding("the last step is negative");
    check_plot(*history);
  }
  const auto steps = fuzz::unless_refused(
      [&] { return io::read_steps(path, std::int64_t{1} << 40, most_steps); });
  if (steps && std::ssize(*steps) > most_steps) fuzz::finding("too many steps");
  fuzz::unless_refused([&] {
    io::MetricsFile file(path, 3);  // drops what a start after step 3 makes anew
    file.write(io::Record().set("step", std::int64_t{4}));
    return true;
  });
}

}  // namespace
}  // namespace trireme

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  trireme::check({reinterpret_cast<const char*>(data), size});
  return 0;
}
