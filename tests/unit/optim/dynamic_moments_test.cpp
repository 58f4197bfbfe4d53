// Moments of 8 bits as bitsandbytes keeps them: updates against double precision.
// SPDX-License-Identifier: Apache-2.0
#include "optim/dynamic_moments.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "optim/parameter_store.hpp"

namespace trireme::optim {
namespace {

constexpr std::int64_t block = kernels::dynamic_block;
constexpr double epsilon = 0x1p-24;  // half a unit of f32

// A matrix of 4,743 elements and a vector of 100 on this process alone.
struct TwoWeights {
  static constexpr std::int64_t rows = 51, columns = 93;
  comm::Mesh mesh = comm::Mesh::meta({}, 0);
  Param matrix, vector;
  std::optional<ParameterStore> store;
  OptimizerConfig optimizer;

  explicit TwoWeights(const std::string& rule, DType moments = DType::u8) {
    matrix.name = "w";
    matrix.shape = {rows, columns};
    vector.name = "b";
    vector.shape = {100};
    for (Param* param : {&matrix, &vector}) {
      const Shape zero = param == &matrix ? Shape{0, 0} : Shape{0};
      param->boxes = {{param->name, param->shape, zero, zero, param->shape}};
      param->initializer = {Initializer::Kind::normal, 0.02};
    }
    StoreConfig config;
    optimizer.name = rule;
    optimizer.weight_decay = 0.1;
    config.rule = &optimizer.rule();
    for (const TensorClass what : {TensorClass::moment1, TensorClass::moment2})
      config.recipe[what] = {moments,
                             moments == DType::u8 ? Scaling::dynamic : Scaling::none};
    store.emplace(std::vector<ParamModule>{{"m", {&matrix, &vector}}}, config, mesh,
                  Device::host());
    store->initialize(1);
  }

  // Magnitudes differ from element to element by up to 2^12.
  void step(int step, float spoiled = 0) {
    store->begin_step(1);
    store->open_gradients(0);
    for (Param* param : {&matrix, &vector}) {
      const auto g = param->gradient.span<float>();
      for (std::size_t i = 0; i < g.size(); ++i)
        g[i] = static_cast<float>(std::sin(0.7 * static_cast<double>(i) + step) *
                                  std::exp2(-static_cast<double>(i % 13)));
      if (spoiled != 0) g[3] = spoiled;
      store->ready(*param);
    }
    store->close_gradients(0);
    gradient.assign(matrix.gradient.span<float>().begin(),
                    matrix.gradient.span<float>().end());
    store->finish_gradients();
    store->update(optimizer,
                  {.learning_rate = 1e-2, .gradient_scale = 0.5, .update = step});
  }

  template <class T = float>
  std::vector<T> state(const std::string& section, const std::string& tensor = "w") {
    std::vector<T> out;
    for (const StateBox& box : store->state_boxes()) {
      if (box.section != section || box.named->tensor != tensor) continue;
      const auto* const from = static_cast<const T*>(box.data.raw());
      out.insert(out.end(), from, from + box.data.elements());
    }
    return out;
  }

  // Numbers that codes stand for.
  std::vector<double> moment(std::size_t s) {
    const auto codes = state<std::uint8_t>(std::string(state_sections.at(s)));
    const auto absmax = state(std::string(scale_sections.at(s)));
    std::vector<double> out;
    for (std::size_t i = 0; i < codes.size(); ++i)
      out.push_back(double{map(s).numbers[codes[i]]} *
                    double{absmax.at(i / static_cast<std::size_t>(block))});
    return out;
  }
  static const DynamicMap& map(std::size_t s) {
    return dynamic_map(s == 0 ? DynamicType::signed_numbers
                              : DynamicType::unsigned_numbers);
  }
  std::vector<float> gradient;
};

// What is kept of x: the largest magnitude of each block, and the nearest number, up to
// some roundings of x (`slack`, relative to the terms that it is the sum of) and three
// more: of 1 / absmax, of the product with it and of the bound.
void expect_kept(TwoWeights& two, std::size_t s, const std::vector<double>& x,
                 const std::vector<double>& terms) {
  const auto codes = two.state<std::uint8_t>(std::string(state_sections.at(s)));
  const auto absmax = two.state(std::string(scale_sections.at(s)));
  const DynamicMap& map = TwoWeights::map(s);
  ASSERT_EQ(codes.size(), x.size());
  ASSERT_EQ(absmax.size(), divide_up(static_cast<std::int64_t>(x.size()), block));
  for (std::size_t b = 0; b < absmax.size(); ++b) {
    double most = 0, off = 0;
    const std::size_t begin = b * 256, end = std::min(x.size(), begin + 256);
    for (std::size_t i = begin; i < end; ++i) {
      most = std::max(most, std::abs(x[i]));
      off = std::max(off, 4 * epsilon * terms[i]);
    }
    EXPECT_NEAR(absmax[b], most, off) << b;
    for (std::size_t i = begin; i < end; ++i) {
      const double y = x[i] / most;
      const double slack =
          (4 * epsilon * terms[i] + off) / most + 4 * epsilon * std::abs(y);
      const unsigned code = codes[i];
      if (code > 0) {
        EXPECT_GE(y, (double{map.numbers[code - 1]} + map.numbers[code]) / 2 - slack)
            << i;
      }
      if (code < 255) {
        EXPECT_LE(y, (double{map.numbers[code]} + map.numbers[code + 1]) / 2 + slack)
            << i;
      }
    }
  }
}

// Each of ten steps: dequantize, update in fp32, requantize. The formulas are written
// here once more, in double, on the numbers before the step.
TEST(DynamicMoments, TenStepsAgainstDouble) {
  for (const std::string name : {"adamw", "lion", "sgd"}) {
    TwoWeights two(name);
    const OptimizerConfig& o = two.optimizer;
    std::vector<double> m(TwoWeights::rows * TwoWeights::columns), v(m.size());
    for (int step = 1; step <= 10; ++step) {
      SCOPED_TRACE(format("{} step {}", name, step));
      const auto before = two.state("model");
      two.step(step);
      const auto after = two.state("model");
      std::vector<double> want_m(m), want_v(v), terms_m(m), terms_v(v);
      for (std::size_t i = 0; i < m.size(); ++i) {
        const double g = 0.5 * two.gradient[i], w = before[i], rate = 1e-2;
        const double keep = 1 - rate * o.weight_decay;
        double move = 0, slack = 0;
        if (name == "sgd") {
          want_m[i] = o.beta1 * m[i] + g;
          terms_m[i] = std::abs(o.beta1 * m[i]) + std::abs(g);
          move = rate * want_m[i];
          slack = 8 * epsilon * rate * terms_m[i];
        } else {
          const double decay = name == "lion" ? o.beta2 : o.beta1;
          want_m[i] = decay * m[i] + (1 - decay) * g;
          terms_m[i] = std::abs(decay * m[i]) + std::abs((1 - decay) * g);
          want_v[i] = o.beta2 * v[i] + (1 - o.beta2) * g * g;
          terms_v[i] = want_v[i];
          const double c = o.beta1 * m[i] + (1 - o.beta1) * g;
          // The sign of a sum that is nothing but its roundings is not known.
          if (name == "lion" && std::abs(c) < 4 * epsilon * terms_m[i]) continue;
          const double size =
              rate / (1 - std::pow(o.beta1, step)) /
              (std::sqrt(want_v[i] / (1 - std::pow(o.beta2, step))) + o.eps);
          move = name == "lion" ? (c > 0 ? rate : c < 0 ? -rate : 0) : size * want_m[i];
          slack = 16 * epsilon * (name == "lion" ? rate : size * terms_m[i]);
        }
        EXPECT_NEAR(after[i], keep * w - move, slack + 4 * epsilon * std::abs(w)) << i;
      }
      expect_kept(two, 0, want_m, terms_m);
      if (name == "adamw") expect_kept(two, 1, want_v, terms_v);
      m = two.moment(0);
      if (name == "adamw") v = two.moment(1);
    }
  }
}

// A tensor of fewer than 4,096 elements: the bits of fp32 moments.
TEST(DynamicMoments, SmallTensorsStayInFp32) {
  TwoWeights two("adamw"), plain("adamw", DType::f32);
  for (int step = 1; step <= 3; ++step) {
    two.step(step);
    plain.step(step);
  }
  for (const char* section : {"model", "optimizer/moment1", "optimizer/moment2"}) {
    ASSERT_EQ(two.state(section, "b").size(), 100u) << section;
    EXPECT_EQ(two.state(section, "b"), plain.state(section, "b")) << section;
  }
  EXPECT_NE(two.state("model"), plain.state("model"));
  EXPECT_TRUE(two.state("optimizer/moment1_scale", "b").empty());
}

// A byte an element, padding included, 4 for 256 of what has codes, 4 an element of what
// stays in fp32: for each moment. Master weights are the weights.
TEST(DynamicMoments, Bytes) {
  TwoWeights two("adamw");
  const std::int64_t elements = two.store->flats().front().elements;
  const std::int64_t blocks = divide_up(TwoWeights::rows * TwoWeights::columns, block);
  EXPECT_EQ(two.store->optimizer_bytes(),
            static_cast<std::size_t>(2 * (elements + 4 * blocks + 4 * 100)));
}

// What is not finite spoils its block and the weights of it, and nothing else.
TEST(DynamicMoments, NotFiniteNeverBecomesANumber) {
  for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
    TwoWeights two("sgd"), sound("sgd");
    two.step(1, bad);
    sound.step(1);
    for (TwoWeights* each : {&two, &sound}) each->step(2);
    const auto w = two.state("model"), want = sound.state("model");
    for (std::size_t i = 0; i < w.size(); ++i) {
      if (i < static_cast<std::size_t>(block)) {
        EXPECT_FALSE(std::isfinite(w[i])) << i;
      } else {
        EXPECT_EQ(w[i], want[i]) << i;
      }
    }
  }
}

TEST(DynamicMoments, NeedFp32Sums) {
  Recipe recipe = recipe_named("fp64");
  recipe[TensorClass::moment1] = {DType::u8, Scaling::dynamic};
  StoreConfig config;
  config.recipe = recipe;
  EXPECT_THROW(check_recipe(config), Error);
}

}  // namespace
}  // namespace trireme::optim
