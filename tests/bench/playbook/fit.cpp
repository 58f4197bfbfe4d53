// Levenberg-Marquardt with soft L1 weights (Marquardt, 1963; weights as in Huber, 1981).
// SPDX-License-Identifier: Apache-2.0
#include "bench/playbook/fit.hpp"

#include <algorithm>
#include <cmath>

#include "bench/playbook/dense.hpp"

namespace trireme::bench {
namespace {

using Values = std::vector<double>;

constexpr int most_iterations = 150;
constexpr double change = 1e-5;  // of a logarithm, for differences

Values exp_of(const Values& logs) {
  Values values(logs);
  for (double& value : values) value = std::exp(value);
  return values;
}

double weight_of(const PlaybookRun& run) { return run.nodes >= 64 ? 0.5 : 1.0; }

Values residuals(std::span<const FittedRun> runs, const Values& logs) {
  const Values constants = exp_of(logs);
  Values result(runs.size());
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const StepTime time = step_time(runs[i].run, runs[i].cut, constants);
    result[i] = residual_of(runs[i].run, time).value * weight_of(runs[i].run);
  }
  return result;
}

double soft_l1(double residual) {
  return std::sqrt(1 + residual * residual / (repeat_spread * repeat_spread));
}

double cost_of(const Values& residuals) {
  double sum = 0;
  for (const double residual : residuals) sum += soft_l1(residual) - 1;
  return sum;
}

// The normal equations at a point: J^T W J and J^T W r.
struct Normal {
  SquareMatrix matrix;
  Values gradient;
};

Normal normal_equations(std::span<const FittedRun> runs, const Values& logs,
                        const Values& at) {
  const std::size_t n = logs.size();
  std::vector<Values> columns;
  for (std::size_t k = 0; k < n; ++k) {
    Values moved = logs;
    moved[k] += change;
    columns.push_back(residuals(runs, moved));
    for (std::size_t i = 0; i < at.size(); ++i)
      columns[k][i] = (columns[k][i] - at[i]) / change;
  }
  Normal normal{SquareMatrix(n), Values(n)};
  for (std::size_t i = 0; i < at.size(); ++i) {
    const double weight = 1 / soft_l1(at[i]);
    for (std::size_t a = 0; a < n; ++a) {
      const double left = weight * columns[a][i];
      normal.gradient[a] += left * at[i];
      for (std::size_t b = 0; b <= a; ++b) normal.matrix(a, b) += left * columns[b][i];
    }
  }
  return normal;
}

struct Point {
  Values logs;
  Values residuals;
  double cost = 0;
};

// The step from `point`, damped by `damping`, cut at the ranges of the constants.
Point moved(std::span<const FittedRun> runs, const Point& point, const Normal& normal,
            double damping) {
  SquareMatrix matrix = normal.matrix;
  for (std::size_t k = 0; k < point.logs.size(); ++k)
    matrix(k, k) += damping * (matrix(k, k) + 1e-6);
  const Values step = solve_positive(std::move(matrix), normal.gradient);
  Point next = point;
  const auto constants = playbook_constants();
  for (std::size_t k = 0; k < step.size(); ++k)
    next.logs[k] = std::clamp(point.logs[k] - step[k], std::log(constants[k].low),
                              std::log(constants[k].high));
  next.residuals = residuals(runs, next.logs);
  next.cost = cost_of(next.residuals);
  return next;
}

}  // namespace

std::vector<FittedRun> with_cuts(std::span<const PlaybookRun> runs) {
  std::vector<FittedRun> result;
  for (const PlaybookRun& run : runs)
    result.push_back({run, cut_playbook(*run.model, run.pipeline)});
  return result;
}

std::vector<double> fit_constants(std::span<const FittedRun> runs) {
  Point point;
  for (const PlaybookConstant& constant : playbook_constants())
    point.logs.push_back(std::log(constant.start));
  point.residuals = residuals(runs, point.logs);
  point.cost = cost_of(point.residuals);
  double damping = 1e-2;
  for (int i = 0; i < most_iterations; ++i) {
    const Normal normal = normal_equations(runs, point.logs, point.residuals);
    Point next = moved(runs, point, normal, damping);
    while (next.cost >= point.cost && damping < 1e8) {
      damping *= 4;
      next = moved(runs, point, normal, damping);
    }
    if (next.cost >= point.cost) break;
    const double gain = (point.cost - next.cost) / point.cost;
    point = std::move(next);
    damping = std::max(damping / 5, 1e-9);
    if (gain < 1e-7) break;
  }
  return exp_of(point.logs);
}

}  // namespace trireme::bench
