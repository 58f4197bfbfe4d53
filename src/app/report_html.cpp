// A report as one page of HTML.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "app/markup.hpp"
#include "app/report_pages.hpp"
#include "app/report_script.hpp"
#include "app/report_style.hpp"
#include "base/format.hpp"
#include "base/number.hpp"
#include "base/version.hpp"
#include "io/json_fields.hpp"
#include "io/run_lock.hpp"

namespace trireme::app {
namespace {

using io::Json;

constexpr std::size_t most_columns = 1500;  // a curve has twice as many points at most
constexpr std::size_t most_rows = 200;      // of tables of runs

std::string cell(const std::string& text) { return "<td>" + xml_text(text) + "</td>"; }

std::string chip(int colour) {
  return format(
      "<span class=\"chip\" style=\"background: {}; background: "
      "light-dark({}, {})\"></span>",
      colour_name(colour), colour_name(colour), colour_name(colour, true));
}

std::string joules_text(const std::optional<double>& joules) {
  if (!joules) return "-";
  return *joules < 3.6e5 ? human_count(*joules) + "J"
                         : fixed(*joules / 3.6e6, 2) + " kWh";
}

std::string summary(const Report& report) {
  std::string out =
      "<div class=\"scroll\"><table><tr><th>run</th><th>state</th><th>steps</th><th>loss"
      "</th><th>validation</th><th>tokens/s</th><th>MFU</th><th>best MFU</th><th>tokens"
      "</th><th>time</th><th>rank hours</th><th>energy</th><th>checkpoints</th>"
      "<th>restarts</th></tr>\n";
  for (std::size_t r = 0; r < report.runs.size() && r < most_rows; ++r) {
    const ReportedRun& run = report.runs[r];
    const RunTotals& totals = report.totals[r];
    const auto measured = [&](bool there, const std::string& text) {
      return cell(there ? text : "-");
    };
    const std::string state = name_of(run.state.phase);
    out +=
        "<tr><td>" + chip(static_cast<int>(r)) + xml_text(run.name) +
        format("</td><td><span class=\"state {}\">{}</span></td>", state, state) +
        cell(steps_text(run.state)) + cell(loss_text(run.state.loss)) +
        cell(loss_text(run.state.validation_loss)) +
        measured(totals.steps > 0, human_count(totals.tokens_per_second)) +
        measured(totals.mfu > 0, fixed(100 * totals.mfu, 1) + " %") +
        measured(totals.mfu > 0, fixed(100 * totals.best_mfu, 1) + " %") +
        measured(totals.steps > 0, human_count(totals.tokens)) +
        measured(totals.steps > 0, human_seconds(totals.seconds)) +
        measured(totals.rank_hours > 0,
                 fixed(totals.rank_hours, totals.rank_hours < 1 ? 4 : 2)) +
        cell(joules_text(totals.joules)) +
        measured(totals.checkpoints > 0, format("{} ({})", totals.checkpoints,
                                                human_seconds(totals.waited_seconds))) +
        cell(std::to_string(run.restarts().size())) + "</tr>\n";
  }
  out += "</table></div>\n";
  if (report.runs.size() > most_rows)
    out += format("<p class=\"soft\">and {} more runs</p>\n",
                  report.runs.size() - most_rows);
  return out +
         "<p class=\"soft\">Time is that of steps; checkpoints say how long training "
         "waited for them; energy is that of all GPUs, each by its own counter; of a run "
         "on CPUs, that of its nodes."
         "</p>\n";
}

std::string notes(const Report& report) {
  std::string out;
  for (const auto& run : report.runs) {
    std::vector<std::string> texts;
    for (const auto& note : notes_of(run))
      texts.push_back(format("In {}: {}", run.directory, note));
    if (!run.state.note.empty() && run.state.phase == RunPhase::failed)
      texts.push_back(run.name + " failed: " + run.state.note);
    for (const auto& text : texts)
      out += "<p class=\"note\">" + xml_text(text) + "</p>\n";
  }
  return out;
}

// Which key mattered: its share of the variance, and its values from the best on. Keys
// that tell the same runs apart cannot be told apart themselves: they share a row.
std::string importance(const Report& report) {
  constexpr std::size_t most_named = 4;
  std::vector<std::pair<const DifferingKey*, std::vector<std::string>>> rows;
  for (const DifferingKey& key : report.differing) {
    if (!key.share) continue;
    const auto same = std::find_if(rows.begin(), rows.end(), [&](const auto& row) {
      return splits_alike(*row.first, key);
    });
    if (same == rows.end())
      rows.push_back({&key, {key.key}});
    else
      same->second.push_back(key.key);
  }
  if (rows.empty()) return "";
  std::string out =
      "<h2>Which key mattered</h2>\n<p class=\"soft\">The share of the final losses' "
      "variance that lies between a key's values, and the mean loss of the runs with "
      "each (their number), the best first. Keys that change together share a row.</p>\n"
      "<div class=\"scroll\"><table class=\"words\"><tr><th>key</th><th>explains</th>"
      "<th>mean loss by value</th></tr>\n";
  for (const auto& [key, names] : rows) {
    std::string text, values;
    for (std::size_t i = 0; i < names.size() && i < most_named; ++i)
      text += (i ? ", " : "") + names[i];
    if (names.size() > most_named)
      text += format(" and {} more", names.size() - most_named);
    for (const auto& group : key->groups)
      values += format("{}{}: {} ({})", values.empty() ? "" : ", ", group.value,
                       fixed(group.mean, 4), group.runs);
    out += "<tr>" + cell(text) +
           format("<td><span class=\"share\" style=\"width:{}px\"></span>{} %</td>",
                  fixed(120 * *key->share, 0), fixed(100 * *key->share, 0)) +
           cell(values) + "</tr>\n";
  }
  return out + "</table></div>\n";
}

std::string differences(const Report& report) {
  if (report.runs.size() < 2 || report.differing.empty()) return "";
  std::vector<std::size_t> order(report.runs.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return report.losses[a].value_or(INFINITY) < report.losses[b].value_or(INFINITY);
  });
  if (order.size() > most_rows) order.resize(most_rows);
  constexpr std::size_t most_keys = 30;
  const std::size_t keys = std::min(report.differing.size(), most_keys);
  std::string out =
      "<h2>Keys that differ</h2>\n<p class=\"soft\">The best final loss first.</p>\n"
      "<div class=\"scroll\"><table class=\"words\"><tr><th>run</th><th>final loss</th>";
  for (std::size_t k = 0; k < keys; ++k)
    out += "<th>" + xml_text(report.differing[k].key) + "</th>";
  out += "</tr>\n";
  for (const std::size_t r : order) {
    out += "<tr><td>" + chip(static_cast<int>(r)) + xml_text(report.runs[r].name) +
           "</td>" + cell(loss_text(report.losses[r]));
    for (std::size_t k = 0; k < keys; ++k) out += cell(report.differing[k].values[r]);
    out += "</tr>\n";
  }
  return out + "</table></div>\n" +
         (keys < report.differing.size()
              ? format("<p class=\"soft\">and {} more keys</p>\n",
                       report.differing.size() - keys)
              : "");
}

// The last step's load of each expert: a row a layer, blue below the mean, orange above.
std::string expert_loads(const Report& report) {
  std::string out;
  for (const auto& run : report.runs) {
    std::vector<std::pair<std::int64_t, const std::vector<double>*>> layers;
    for (const auto& [key, load] : run.metrics.lists)
      if (key.starts_with("expert_load.") && !load.empty() && load.size() <= 512)
        layers.emplace_back(
            parse_number<std::int64_t>(key.substr(key.find('.') + 1)).value_or(0), &load);
    if (layers.empty()) continue;
    std::sort(layers.begin(), layers.end());
    out += "<h2>Expert load" +
           (report.runs.size() > 1 ? ": " + xml_text(run.name) : std::string()) +
           "</h2>\n<p class=\"soft\">Of the last step: a row a layer, a cell an expert; "
           "grey has the mean, orange up to twice as much or more, blue less.</p>\n<div "
           "class=\"scroll\"><table class=\"heat\">\n";
    for (const auto& [layer, load] : layers) {
      double sum = 0;
      for (const double value : *load) sum += value;
      const double mean = sum / static_cast<double>(load->size());
      out += format("<tr><th>{}</th>", layer);
      for (const double value : *load) {
        const double of_mean = mean > 0 ? value / mean : 0;
        const double strength = std::clamp(std::abs(of_mean - 1), 0.0, 1.0);
        out += format(
            "<td title=\"{} tokens, {} of the mean\" style=\"background: color-mix(in "
            "srgb, {} {}%, var(--grid))\"></td>",
            exact(value), fixed(of_mean, 2), of_mean > 1 ? "#d55e00" : "#0072b2",
            fixed(100 * strength, 0));
      }
      out += "</tr>\n";
    }
    out += "</table></div>\n";
  }
  return out;
}

std::string starts(const Report& report) {
  if (std::all_of(report.runs.begin(), report.runs.end(),
                  [](const ReportedRun& run) { return run.starts.empty(); }))
    return "";
  std::string out = "<h2>Starts</h2>\n";
  for (const auto& run : report.runs) {
    if (run.starts.empty()) continue;
    out += "<details" + std::string(report.runs.size() == 1 ? " open" : "") +
           "><summary>Starts of " + xml_text(run.name) +
           "</summary>\n<div class=\"scroll\"><table class=\"words\"><tr><th>after step"
           "</th><th>ranks</th><th>where</th></tr>\n";
    for (const auto& start : run.starts)
      out += "<tr>" + cell(std::to_string(start.step)) +
             cell(std::to_string(start.ranks)) + cell(start.process.describe()) +
             "</tr>\n";
    out += "</table></div></details>\n";
  }
  return out;
}

double rounded(double value) {
  if (value == 0 || !std::isfinite(value)) return value;
  const double digits = 7 - std::ceil(std::log10(std::abs(value)));
  if (std::abs(digits) > 300) return value;
  const double power = std::pow(10, digits);
  const double out = std::round(value * power) / power;
  return std::isfinite(out) ? out : value;
}

Json line_json(const PlotLine& line, int run) {
  std::vector<PlotPoint> points = line.points;
  std::erase_if(points, [](const PlotPoint& p) {
    return !std::isfinite(p.x) || !std::isfinite(p.y);
  });
  Json xs = Json::array(), ys = Json::array();
  for (const auto& [x, y] : thinned(points, most_columns)) {
    xs.push_back(x);
    ys.push_back(rounded(std::clamp(y, -1e300, 1e300)));
  }
  return {{"name", line.name},     {"run", run},         {"colour", line.colour},
          {"dashed", line.dashed}, {"x", std::move(xs)}, {"y", std::move(ys)}};
}

// Steps beside what else can be on the axis: tokens, or hours of steps.
Json axis_table(const io::Series& series, bool sums) {
  std::vector<PlotPoint> points;
  double sum = 0;
  for (const auto& [step, value] : series) {
    sum += value;
    points.push_back({static_cast<double>(step), sums ? sum / 3600 : value});
  }
  Json xs = Json::array(), ys = Json::array();
  for (const auto& [x, y] : thinned(points, most_columns)) {
    xs.push_back(x);
    ys.push_back(rounded(y));
  }
  return Json::array({std::move(xs), std::move(ys)});
}

std::string numbers(const Report& report) {
  Json all = {{"light", Json::array()}, {"dark", Json::array()}};
  constexpr int colours = 8;
  for (int i = 0; i < colours; ++i) {
    all["light"].push_back(colour_name(i));
    all["dark"].push_back(colour_name(i, true));
  }
  all["runs"] = Json::array();
  for (const auto& run : report.runs)
    all["runs"].push_back(
        {{"name", run.name},
         {"tokens", axis_table(run.metrics.series_of("tokens"), false)},
         {"hours", axis_table(run.metrics.series_of("step_seconds"), true)}});
  all["figures"] = Json::array();
  for (const Figure& figure : report.figures) {
    const Plot& plot = figure.plot;
    Json lines = Json::array(), marks = Json::array();
    for (std::size_t i = 0; i < plot.lines.size(); ++i)
      lines.push_back(line_json(plot.lines[i], figure.runs[i]));
    for (const PlotMark& mark : plot.marks)
      marks.push_back(
          {{"x", mark.x},
           {"colour", mark.colour},
           {"run", mark.colour < 0 && !figure.runs.empty() ? figure.runs.front()
                                                           : std::max(mark.colour, 0)}});
    all["figures"].push_back({{"id", figure.file},
                              {"title", plot.title},
                              {"stacked", plot.stacked},
                              {"zero", plot.from_zero},
                              {"share", figure.is_share},
                              {"bytes", figure.is_bytes},
                              {"lines", std::move(lines)},
                              {"marks", std::move(marks)}});
  }
  // In a script's element nothing ends it but "</", and "<" may stand as an escape.
  std::string out;
  for (const char c : all.dump(-1, ' ', true, Json::error_handler_t::replace))
    out += c == '<' ? std::string("\\u003c") : std::string(1, c);
  return out;
}

std::string figure_box(const Figure& figure) {
  const Plot& plot = figure.plot;
  const std::string unit =
      plot.y_label.empty() ? "" : "<small>" + xml_text(plot.y_label) + "</small>";
  return format(
             "<figure id=\"figure-{}\"><div class=\"head\"><h3>{}{}</h3></div>"
             "<div class=\"static\">",
             figure.file, xml_text(plot.title), unit) +
         svg(plot) +
         format("</div><figcaption>{}</figcaption></figure>\n", xml_text(figure.caption));
}

constexpr std::string_view tools =
    R"html(<div class="tools" id="tools" hidden>
<label>smooth <input type="range" id="smooth" min="0" max="100" value="0"></label>
<label>along <select id="axis"><option>step</option><option>tokens</option>
<option>hours</option></select></label>
<label><input type="checkbox" id="log"> logarithmic</label>
<button id="theme">light / dark</button>
<span class="soft">drag across a plot to zoom, click a name to hide its curve</span>
</div>
)html";

}  // namespace

std::string html_page(const Report& report) {
  const std::string title = xml_text(title_of(report.runs));
  std::string out =
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta "
      "name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>" +
      title + "</title>\n<style>" + std::string(report_css) +
      "</style>\n</head>\n<body>\n<header><h1>" + title + "</h1>\n<p class=\"soft\">" +
      format("trireme {}, {}", build_info().version, io::utc_time()) +
      "</p></header>\n<main>\n" + summary(report) + notes(report) + importance(report) +
      std::string(tools) + "<div class=\"plots\">\n";
  for (const Figure& figure : report.figures) out += figure_box(figure);
  const bool restarted =
      std::any_of(report.runs.begin(), report.runs.end(),
                  [](const auto& run) { return !run.restarts().empty(); });
  out += "</div>\n";
  if (restarted) out += "<p class=\"soft\">Dashed vertical lines are restarts.</p>\n";
  out += expert_loads(report) + differences(report) + starts(report) +
         "<footer>This page is whole: it needs no other file, no server "
         "and no network.</footer>\n</main>\n<script type=\"application/json\" "
         "id=\"data\">" +
         numbers(report) + "</script>\n<script>" + std::string(report_script) +
         "</script>\n</body>\n</html>\n";
  return out;
}

}  // namespace trireme::app
