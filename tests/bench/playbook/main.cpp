// playbook_check: fits the time model to measured runs and predicts others.
// SPDX-License-Identifier: Apache-2.0
//
// With --folds N FILE.csv: each N-th part of one table is predicted from the rest.
#include <iostream>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "bench/playbook/judge.hpp"

namespace trireme::bench {
namespace {

constexpr const char* usage =
    "usage: playbook_check FIT.csv JUDGE.csv, or playbook_check --folds N FILE.csv";

// Runs i with i mod parts != part are fitted, the others predicted.
std::vector<Prediction> cross_validated(const std::vector<PlaybookRun>& runs,
                                        std::size_t parts) {
  std::vector<Prediction> all(runs.size());
  for (std::size_t part = 0; part < parts; ++part) {
    std::vector<PlaybookRun> fitted, judged;
    for (std::size_t i = 0; i < runs.size(); ++i)
      (i % parts == part ? judged : fitted).push_back(runs[i]);
    const std::vector<Prediction> predictions = Predictor(fitted).predict(judged);
    for (std::size_t i = part, k = 0; i < runs.size(); i += parts, ++k)
      all[i] = predictions[k];
  }
  return all;
}

int run(const std::vector<std::string>& words) {
  if (words.size() == 3 && words[0] == "--folds") {
    const std::vector<PlaybookRun> runs = read_runs(words[2]);
    const int parts = std::atoi(words[1].c_str());
    require(parts >= 2 && static_cast<std::size_t>(parts) <= runs.size() / 2,
            Status::command_line, "--folds {} must be from 2 to half of {} runs",
            words[1], runs.size());
    const auto predictions = cross_validated(runs, static_cast<std::size_t>(parts));
    std::cout << table(runs, predictions) << summary(runs, predictions);
    return 0;
  }
  require(words.size() == 2, Status::command_line, "{}", usage);
  const std::vector<PlaybookRun> fitted = read_runs(words[0]);
  const std::vector<PlaybookRun> judged = read_runs(words[1]);
  const Predictor predictor(fitted);
  const std::vector<Prediction> predictions = predictor.predict(judged);
  std::cout << table(judged, predictions) << predictor.describe()
            << summary(judged, predictions);
  return 0;
}

}  // namespace
}  // namespace trireme::bench

int main(int argc, char** argv) {
  try {
    return trireme::bench::run({argv + 1, argv + argc});
  } catch (const trireme::Error& error) {
    std::cerr << "playbook_check: " << error.what() << "\n";
    return static_cast<int>(error.status());
  }
}
