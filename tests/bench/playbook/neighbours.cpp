// A Gaussian process on what is left over, and a vote on the state.
// SPDX-License-Identifier: Apache-2.0
#include "bench/playbook/neighbours.hpp"

#include <cmath>
#include <utility>

#include "bench/playbook/dense.hpp"

namespace trireme::bench {
namespace {

constexpr double amplitude = 0.08;  // of what is left over, a logarithm
constexpr double odd_from = 0.3;    // what is left over of runs that teach nothing
constexpr double most_nodes = 32;   // beyond, each run is its own

// Over which distance, in powers of two, a run resembles another.
constexpr std::array<double, 7> lengths = {0.7, 0.7, 2, 2, 2, 1.5, 1.5};
// Runs of the other ZeRO stage were measured at other times and say next to nothing of
// the state, those of another microbatch much.
constexpr std::array<double, 7> state_lengths = {0.7, 0.7, 0.7, 2, 0.7, 0.7, 0.2};

// The state before anything is known: as likely as among all runs, by the weight of half
// a run.
constexpr double prior_slow = 0.25, prior_weight = 0.5;

bool has_states(const PlaybookRun& run) { return may_be_slow(run) && run.nodes > 1; }

}  // namespace

Neighbours::Point Neighbours::point_of(const PlaybookRun& run) {
  const PlaybookModel& model = *run.model;
  return {
      std::log2(run.tensor), std::log2(run.pipeline),
      std::log2(run.data),   std::log2(run.micro),
      std::log2(run.nodes),  0.5 * std::log2(model.layers * model.hidden * model.hidden),
      run.zero1 ? 1.0 : 0.0};
}

double Neighbours::nearness(const Point& a, const Point& b, const Point& over) {
  double sum = 0;
  for (std::size_t k = 0; k < a.size(); ++k) {
    const double distance = (a[k] - b[k]) / over[k];
    sum += distance * distance;
  }
  return std::exp(-0.5 * sum);
}

Neighbours::Neighbours(std::span<const FittedRun> runs,
                       std::span<const double> constants) {
  std::vector<double> left_over;
  for (const FittedRun& fitted : runs) {
    const Residual residual =
        residual_of(fitted.run, step_time(fitted.run, fitted.cut, constants));
    if (has_states(fitted.run)) {
      states_.push_back(point_of(fitted.run));
      slow_.push_back(residual.slow);
    }
    if (std::abs(residual.value) >= odd_from || fitted.run.nodes > most_nodes) continue;
    corrected_.push_back(point_of(fitted.run));
    left_over.push_back(-residual.value);
  }
  SquareMatrix covariance(corrected_.size());
  for (std::size_t i = 0; i < corrected_.size(); ++i)
    for (std::size_t j = 0; j <= i; ++j)
      covariance(i, j) =
          amplitude * amplitude * nearness(corrected_[i], corrected_[j], lengths) +
          (i == j ? repeat_spread * repeat_spread : 0);
  weights_ = solve_positive(std::move(covariance), left_over);
}

double Neighbours::correction(const PlaybookRun& run) const {
  const Point point = point_of(run);
  double sum = 0;
  for (std::size_t i = 0; i < corrected_.size(); ++i)
    sum += amplitude * amplitude * nearness(point, corrected_[i], lengths) * weights_[i];
  return std::exp(sum);
}

double Neighbours::slow_probability(const PlaybookRun& run) const {
  if (!has_states(run)) return 0;
  const Point point = point_of(run);
  double slow = prior_slow * prior_weight, all = prior_weight;
  for (std::size_t i = 0; i < states_.size(); ++i) {
    const double weight = nearness(point, states_[i], state_lengths);
    all += weight;
    if (slow_[i]) slow += weight;
  }
  return slow / all;
}

}  // namespace trireme::bench
