// Muon against PyTorch: weights after ten steps (muon.txt, made by make_muon.py).
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "optim/parameter_store.hpp"

namespace trireme::optim {
namespace {

struct Line {
  std::string name, adjust, products;
  int nesterov = 0;
  std::int64_t rows = 0, columns = 0;
  std::vector<double> weights;
};

std::vector<Line> read_lines() {
  std::vector<Line> lines;
  std::ifstream file(MUON_REFERENCE);
  std::string text;
  while (std::getline(file, text)) {
    std::istringstream words(text);
    Line line;
    words >> line.name >> line.adjust >> line.nesterov >> line.products >> line.rows >>
        line.columns;
    for (double x = 0; words >> x;) line.weights.push_back(x);
    lines.push_back(line);
  }
  return lines;
}

// As in the script.
double value(const Line& line, int step, std::int64_t i) {
  const double salt = (line.name == "wide"   ? 0
                       : line.name == "tall" ? 100
                                             : 200) +
                      7.0 * step;
  return std::sin(1.0 + 0.37 * static_cast<double>(i) * (1 + step) + salt);
}

std::vector<double> ten_steps(const Line& line) {
  comm::Mesh mesh = comm::Mesh::meta({}, 0);
  Param param;
  param.name = line.name;
  param.shape = {line.rows, line.columns};
  param.boxes = {{line.name, param.shape, {0, 0}, {0, 0}, param.shape}};
  OptimizerConfig config;
  config.name = "muon";
  config.weight_decay = 0.1;
  config.muon.nesterov = line.nesterov == 1;
  config.muon.match_adamw = line.adjust == "match_rms_adamw";
  StoreConfig of_store;
  of_store.recipe = recipe_named(line.products == "bf16" ? "bf16_autocast" : "fp64");
  of_store.rule = &config.rule();
  ParameterStore store({{"m", {&param}}}, of_store, mesh, Device::host());
  std::vector<double> weights;
  visit_floating(of_store.accumulator(), [&]<class T>(T) {
    const auto put = [&](const TensorView& x, int step) {
      for (std::int64_t i = 0; i < x.elements(); ++i)
        x.data<T>()[i] = static_cast<T>(value(line, step, i));
    };
    const TensorView master = store.state_boxes().front().data;
    put(master, 0);
    store.refresh_weights();
    for (int step = 1; step <= 10; ++step) {
      store.begin_step(1);
      store.open_gradients(0);
      put(param.gradient, step);
      store.ready(param);
      store.close_gradients(0);
      store.finish_gradients();
      store.update(config, {.learning_rate = 0.02, .update = step});
    }
    for (std::int64_t i = 0; i < master.elements(); ++i)
      weights.push_back(
          static_cast<double>(static_cast<Accumulator<T>>(master.data<T>()[i])));
  });
  return weights;
}

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double squares = 0;
  for (std::size_t i = 0; i < a.size(); ++i) squares += std::pow(a.at(i) - b.at(i), 2);
  return std::sqrt(squares);
}

std::string name_of(const Line& line) {
  return line.name + " " + line.adjust + " " + std::to_string(line.nesterov);
}

// In fp64 the formulas alone could differ. Newton and Schulz's steps raise what rounding
// adds to small singular values by up to 3.4445^5, so that of bf16 only this can be
// asked: to be no farther from the exact weights than twice what PyTorch's bf16 is.
TEST(Muon, TenStepsLikePyTorch) {
  std::map<std::string, std::vector<double>> exact;
  const auto lines = read_lines();
  EXPECT_EQ(lines.size(), 24u);
  for (const Line& line : lines)
    if (line.products == "fp64") exact[name_of(line)] = line.weights;
  for (const Line& line : lines) {
    SCOPED_TRACE(name_of(line) + " " + line.products);
    const auto weights = ten_steps(line);
    ASSERT_EQ(weights.size(), line.weights.size());
    const std::vector<double>& truth = exact.at(name_of(line));
    if (line.products == "fp64") {
      EXPECT_LE(distance(weights, truth), 1e-11);
    } else {
      EXPECT_LE(distance(weights, truth), 2 * distance(line.weights, truth));
    }
  }
}

}  // namespace
}  // namespace trireme::optim
