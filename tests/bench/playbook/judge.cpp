// Fits, predicts, and sums up.
// SPDX-License-Identifier: Apache-2.0
#include "bench/playbook/judge.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "base/error.hpp"
#include "base/text_table.hpp"

namespace trireme::bench {
namespace {

using Errors = std::vector<double>;

// The value below which the share `p` of the sorted errors lies, between neighbours in
// proportion.
double quantile(const Errors& sorted, double p) {
  const double at = p * static_cast<double>(sorted.size() - 1);
  const auto low = static_cast<std::size_t>(at);
  const std::size_t high = std::min(low + 1, sorted.size() - 1);
  return sorted[low] + (at - std::floor(at)) * (sorted[high] - sorted[low]);
}

std::string percent(double share) { return fixed(100 * share, 1) + " %"; }

void add_row(std::vector<TextRow>& rows, const std::string& name, Errors errors) {
  if (errors.empty()) return;
  std::sort(errors.begin(), errors.end());
  const auto within = [&](double limit) {
    return static_cast<double>(std::upper_bound(errors.begin(), errors.end(), limit) -
                               errors.begin()) /
           static_cast<double>(errors.size());
  };
  rows.push_back({name, std::to_string(errors.size()), percent(quantile(errors, .5)),
                  percent(quantile(errors, .9)), percent(within(.1)),
                  percent(within(.15))});
}

struct Choice {
  double mean = 0, worst = 1;
  std::size_t cells = 0;
};

// For each model and number of nodes: the best measured time over that of the run that is
// predicted to take least. Cells of one run choose nothing. Runs that are `barred` are
// not there.
Choice choose(std::span<const PlaybookRun> runs, std::span<const Prediction> predictions,
              const std::vector<bool>& barred) {
  std::map<std::pair<std::string, double>, std::vector<std::size_t>> cells;
  for (std::size_t i = 0; i < runs.size(); ++i)
    if (runs[i].nodes <= 32 && runs[i].judgeable() && (barred.empty() || !barred[i]))
      cells[{runs[i].model->name, runs[i].nodes}].push_back(i);
  Choice choice;
  for (const auto& [name, cell] : cells) {
    if (cell.size() < 2) continue;
    std::size_t chosen = cell.front(), best = cell.front();
    for (const std::size_t i : cell) {
      if (predictions[i].seconds() < predictions[chosen].seconds()) chosen = i;
      if (runs[i].seconds < runs[best].seconds) best = i;
    }
    const double share = runs[best].seconds / runs[chosen].seconds;
    choice.mean += share;
    choice.worst = std::min(choice.worst, share);
    ++choice.cells;
  }
  if (choice.cells > 0) choice.mean /= static_cast<double>(choice.cells);
  return choice;
}

std::string choice_text(const std::string& name, const Choice& choice) {
  return format(
      "# {}: on average {} of the best measured, at worst {} ({} cells of model "
      "and nodes, up to 32)\n",
      name, percent(choice.mean), percent(choice.worst), choice.cells);
}

}  // namespace

Predictor::Predictor(std::span<const PlaybookRun> runs) {
  std::vector<PlaybookRun> good;
  for (const PlaybookRun& run : runs) {
    if (run.judgeable()) good.push_back(run);
  }
  fitted_ = good.size();
  left_out_ = runs.size() - good.size();
  require(fitted_ >= 2 * playbook_constants().size(), Status::bad_content,
          "{} runs are too few to fit {} constants: give at least {} whose batch is "
          "mbs x gradacc x dp",
          fitted_, playbook_constants().size(), 2 * playbook_constants().size());
  const std::vector<FittedRun> cut = with_cuts(good);
  constants_ = fit_constants(cut);
  neighbours_ = std::make_unique<Neighbours>(cut, constants_);
}

std::vector<Prediction> Predictor::predict(std::span<const PlaybookRun> runs) const {
  std::vector<Prediction> predictions;
  for (const FittedRun& fitted : with_cuts(runs)) {
    Prediction& prediction = predictions.emplace_back();
    prediction.time = step_time(fitted.run, fitted.cut, constants_);
    const double factor = neighbours_->correction(fitted.run);
    prediction.time.normal *= factor;
    prediction.time.slow *= factor;
    prediction.slow_probability = nearly_full(fitted.run, fitted.cut)
                                      ? 1
                                      : neighbours_->slow_probability(fitted.run);
    prediction.slow = prediction.slow_probability >= slow_from;
  }
  return predictions;
}

std::string Predictor::describe() const {
  std::string text = format(
      "# fitted to {} runs; {} left out, whose mesh or batch "
      "contradicts itself or that have no time\n",
      fitted_, left_out_);
  const auto constants = playbook_constants();
  for (std::size_t k = 0; k < constants.size(); ++k)
    text += format("# constant {}: {} {} (from {} to {})\n", constants[k].name,
                   fixed(constants_[k], 4), constants[k].unit, constants[k].low,
                   constants[k].high);
  return text;
}

std::string table(std::span<const PlaybookRun> runs,
                  std::span<const Prediction> predictions) {
  std::string text = "row,predicted_seconds,measured_seconds\n";
  for (std::size_t i = 0; i < runs.size(); ++i)
    text += format("{},{},{}\n", i + 1, fixed(predictions[i].seconds(), 4),
                   fixed(runs[i].seconds, 4));
  return text;
}

std::string summary(std::span<const PlaybookRun> runs,
                    std::span<const Prediction> predictions) {
  Errors all, normal, efficient, taken_slow;
  std::size_t slow = 0, rightly = 0;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (!runs[i].judgeable()) continue;
    const double error = std::abs(predictions[i].seconds() / runs[i].seconds - 1);
    const bool was_slow = residual_of(runs[i], predictions[i].time).slow;
    all.push_back(error);
    if (runs[i].mfu >= 20) efficient.push_back(error);
    if (runs[i].nodes <= 32 && !was_slow) normal.push_back(error);
    slow += predictions[i].slow ? 1 : 0;
    rightly += predictions[i].slow && was_slow ? 1 : 0;
  }
  std::vector<TextRow> rows = {{"error", "runs", "median", "90th", "in 10 %", "in 15 %"}};
  add_row(rows, "not slow, up to 32 nodes", normal);
  add_row(rows, "MFU of 20 % and more", efficient);
  add_row(rows, "all", all);
  const std::string text = text_table(rows, 1, 0);
  std::string marked = "# ";
  for (std::size_t i = 0; i < text.size(); ++i)
    marked += text[i] == '\n' && i + 1 < text.size() ? "\n# " : std::string(1, text[i]);
  marked += format(
      "# slow state: {} runs are taken for slow, {} of them were; a run is, "
      "if {} of its neighbours' weight was\n",
      slow, rightly, percent(slow_from));
  std::vector<bool> was_slow;
  for (std::size_t i = 0; i < runs.size(); ++i)
    was_slow.push_back(residual_of(runs[i], predictions[i].time).slow);
  marked += choice_text("choice among all runs", choose(runs, predictions, {}));
  marked +=
      choice_text("choice among runs not slow", choose(runs, predictions, was_slow));
  return marked;
}

}  // namespace trireme::bench
