// State in few bits: scales, and one update against double precision.
// SPDX-License-Identifier: Apache-2.0
// Numbers that are not ordinary are among the cases.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <string>

#include "kernels/fp8.hpp"
#include "optim/parameter_store.hpp"

namespace trireme::optim {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();

TEST(PowerScale, IsTheLeastThatHoldsAmax) {
  EXPECT_EQ(power_scale(448, DType::e4m3, 7), 1);
  EXPECT_EQ(power_scale(449, DType::e4m3, 7), 2);
  EXPECT_EQ(power_scale(224, DType::e4m3, 7), 0.5f);
  EXPECT_EQ(power_scale(57344, DType::e5m2, 7), 1);
  EXPECT_EQ(power_scale(65504, DType::f16, 7), 1);
  EXPECT_EQ(power_scale(65505, DType::f16, 7), 2);
  EXPECT_EQ(power_scale(1e-45f, DType::e4m3, 7), 0x1p-100f);
  EXPECT_EQ(power_scale(3e38f, DType::e4m3, 7), 0x1p100f);
  for (const float amax : {0.0f, infinity, nan})
    EXPECT_EQ(power_scale(amax, DType::e4m3, 7), 7);
  EXPECT_EQ(scale_or_nan(0, DType::e4m3), 1);
  EXPECT_TRUE(std::isnan(scale_or_nan(infinity, DType::e4m3)));
  EXPECT_TRUE(std::isnan(scale_or_nan(nan, DType::f16)));
}

// One weight of one module on this process alone.
struct OneWeight {
  static constexpr std::int64_t rows = 7, columns = 33, elements = rows * columns;
  comm::Mesh mesh = comm::Mesh::meta({}, 0);
  Param param;
  std::optional<ParameterStore> store;
  OptimizerConfig optimizer;

  explicit OneWeight(const char* recipe) : OneWeight(recipe_named(recipe)) {}
  explicit OneWeight(const Recipe& recipe) {
    param.name = "w";
    param.shape = {rows, columns};
    param.boxes = {{"w", param.shape, {0, 0}, {0, 0}, param.shape}};
    param.initializer = {Initializer::Kind::normal, 0.02};
    StoreConfig config;
    config.recipe = recipe;
    config.reports = true;
    store.emplace(std::vector<ParamModule>{{"m", {&param}}}, config, mesh,
                  Device::host());
    store->initialize(1);
    optimizer.weight_decay = 0.1;
  }

  // One microbatch's gradient, up to its norm.
  double add(const std::vector<float>& gradient) {
    store->begin_step(1);
    store->open_gradients(0);
    const auto x = param.gradient.span<float>();
    for (std::size_t i = 0; i < gradient.size(); ++i) x[i] += gradient[i];
    store->ready(param);
    store->close_gradients(0);
    store->finish_gradients();
    return std::sqrt(store->gradient_squares());
  }

  // A section of the state in double, scales applied.
  std::vector<double> state(const std::string& section) {
    double scale = 1;
    std::vector<double> out;
    for (const StateBox& box : store->state_boxes()) {
      if (box.section == section + "_scale") scale = box.data.data<float>()[0];
      if (box.section != section) continue;
      for (std::int64_t i = 0; i < box.data.elements(); ++i) {
        if (is_fp8(box.data.dtype())) {
          out.push_back(double{
              kernels::fp8_decode(static_cast<const std::uint8_t*>(box.data.raw())[i],
                                  kernels::Fp8Format::e4m3)});
        } else {
          visit_floating(box.data.dtype(), [&](auto zero) {
            using T = decltype(zero);
            if constexpr (std::is_floating_point_v<T>) {
              out.push_back(static_cast<double>(box.data.data<T>()[i]));
            } else {
              out.push_back(
                  static_cast<double>(static_cast<float>(box.data.data<T>()[i])));
            }
          });
        }
      }
    }
    for (double& x : out) x *= scale;
    return out;
  }
};

// The scale of a tensor of zeros says nothing of numbers, and is not reported.
TEST(StoredReport, ScalesAreOfNumbers) {
  Stream stream;
  OneWeight one("ms_amp_o3");
  const auto scale_of = [&](float value) {
    one.store->report().begin(stream, true);
    one.add(std::vector<float>(static_cast<std::size_t>(OneWeight::elements), value));
    const auto losses = one.store->report().end(stream);
    return losses[static_cast<std::size_t>(TensorClass::gradient_sum)].scale;
  };
  EXPECT_EQ(scale_of(0.0f), 0.0);
  EXPECT_EQ(scale_of(0x1p-20f), double{power_scale(0x1p-20f, DType::e4m3, 1)});
}

// Half a unit in the last place of x in `type`, at the least scale that holds `amax`.
double half_unit(double x, DType type, double amax) {
  const double scale =
      has_scale(type) ? power_scale(static_cast<float>(amax), type, 1) : 1;
  switch (type) {
    case DType::e4m3: return std::max(std::abs(x) * 0x1p-4, scale * 0x1p-10);
    case DType::f16: return std::max(std::abs(x) * 0x1p-11, scale * 0x1p-25);
    case DType::bf16: return std::abs(x) * 0x1p-8;
    default: return std::abs(x) * 0x1p-24;
  }
}

double largest(const std::vector<double>& x) {
  double most = 0;
  for (const double value : x) most = std::max(most, std::abs(value));
  return most;
}

std::vector<float> some_gradient(int step) {
  std::vector<float> gradient(OneWeight::elements);
  for (std::size_t i = 0; i < gradient.size(); ++i)
    gradient[i] =
        static_cast<float>(1e-4 * std::sin(0.7 * static_cast<double>(i) + step) *
                           std::exp2(-static_cast<double>(i % 12)));
  return gradient;
}

// Second moments of FP8 are roots, a unit or less from the exact one, and never 0 where
// that is not. The squares of the roots.
std::vector<double> roots_against_double(const std::vector<double>& roots,
                                         const std::vector<double>& want) {
  std::vector<double> exact, squares;
  for (const double x : want) exact.push_back(std::sqrt(x));
  const double most = largest(exact);
  for (std::size_t i = 0; i < roots.size(); ++i) {
    EXPECT_LE(std::abs(roots[i] - exact[i]),
              2.001 * half_unit(exact[i], DType::e4m3, most))
        << i;
    EXPECT_EQ(roots[i] == 0, exact[i] == 0) << i;
    squares.push_back(roots[i] * roots[i]);
  }
  return squares;
}

// Each number is the double-precision update of the numbers before it, rounded once to
// its type; f32's own roundings are some 2^-20 of the terms.
TEST(NarrowStore, UpdateAgainstDouble) {
  for (const char* name :
       {"bf16_pure", "ms_amp_o2", "ms_amp_o3", "fp8_lm", "deepseek_v3", "nanotron_fp8"}) {
    OneWeight one(name);
    const Recipe& recipe = recipe_named(name);
    const auto type = [&](TensorClass what) { return recipe[what].type; };
    std::vector<double> w = one.state("model");
    std::vector<double> m(w.size()), v(w.size());
    for (int step = 1; step <= 3; ++step) {
      SCOPED_TRACE(format("{} step {}", name, step));
      one.add(some_gradient(step));
      std::vector<double> g;
      for (const StateBox& box : one.store->gradient_boxes())
        for (const float x : box.data.span<float>()) g.push_back(double{x});
      const auto exact = some_gradient(step);
      const double amax = largest({exact.begin(), exact.end()});
      ASSERT_EQ(g.size(), exact.size());
      for (std::size_t i = 0; i < g.size(); ++i) {
        const double first = half_unit(exact[i], type(TensorClass::gradient), amax);
        const double then = half_unit(exact[i], type(TensorClass::gradient_sum), amax);
        EXPECT_LE(std::abs(g[i] - double{exact[i]}), 1.1 * (first + then)) << i;
      }
      const double rate = 1e-2, scale = 0.5;
      one.store->update(one.optimizer,
                        {.learning_rate = rate, .gradient_scale = scale, .update = step});
      std::vector<double> want_w(w), want_m(m), want_v(v);
      for (std::size_t i = 0; i < w.size(); ++i) {
        const OptimizerConfig& o = one.optimizer;
        want_m[i] = o.beta1 * m[i] + (1 - o.beta1) * scale * g[i];
        want_v[i] = o.beta2 * v[i] + (1 - o.beta2) * scale * g[i] * scale * g[i];
        want_w[i] = w[i] * (1 - rate * o.weight_decay) -
                    rate / (1 - std::pow(o.beta1, step)) * want_m[i] /
                        (std::sqrt(want_v[i] / (1 - std::pow(o.beta2, step))) + o.eps);
      }
      w = one.state("model");
      m = one.state("optimizer/moment1");
      v = one.state("optimizer/moment2");
      const auto check = [&](const std::vector<double>& x,
                             const std::vector<double>& want, DType kept, double slack) {
        const double most = largest(want);
        ASSERT_EQ(x.size(), want.size());
        for (std::size_t i = 0; i < x.size(); ++i)
          EXPECT_LE(std::abs(x[i] - want[i]),
                    half_unit(want[i], kept, most) + 0x1p-20 * std::abs(want[i]) + slack)
              << i << " " << x[i] << " " << want[i];
      };
      check(m, want_m, type(TensorClass::moment1), 1e-12);
      if (is_fp8(type(TensorClass::moment2))) {
        v = roots_against_double(v, want_v);
      } else {
        check(v, want_v, type(TensorClass::moment2), 1e-18);
      }
      // Master weights of fp16 have no scale: as if the largest were fp16's.
      for (std::size_t i = 0; i < w.size(); ++i)
        EXPECT_LE(std::abs(w[i] - want_w[i]),
                  half_unit(want_w[i], type(TensorClass::master), 65504) *
                          (recipe.stochastic ? 2 : 1) +
                      1e-6)
            << i;
    }
  }
}

// Roots in E4M3 decay by less than half a unit a step: in expectation alone. A gradient
// far below the tensor's largest leaves a root above 0.
TEST(NarrowStore, RootsDecayAndStayAboveZero) {
  Recipe recipe = recipe_named("bf16");
  recipe[TensorClass::moment2] = {DType::e4m3, Scaling::current};
  OneWeight one(recipe);
  constexpr int steps = 40;
  for (int step = 1; step <= steps; ++step) {
    std::vector<float> gradient(OneWeight::elements, step == 1 ? 1e-3f : 0.0f);
    gradient[3] *= 0x1p-25f;
    one.add(gradient);
    one.store->update(one.optimizer, {.learning_rate = 1e-3, .update = step});
    const std::vector<double> roots = one.state("optimizer/moment2");
    for (const double root : roots) ASSERT_GT(root, 0) << step;
  }
  const double beta2 = one.optimizer.beta2;
  const double exact = 1e-3 * std::sqrt((1 - beta2) * std::pow(beta2, steps - 1));
  const std::vector<double> roots = one.state("optimizer/moment2");
  double sum = -roots[3];
  for (const double root : roots) sum += root;
  // A rounding has a variance of a quarter of a unit, 2^-3 of the number, at most.
  const double n = static_cast<double>(roots.size() - 1);
  EXPECT_NEAR(sum / n / exact, 1, 5 * 0x1p-4 * std::sqrt(steps / n));
}

// Of a gradient with one large element, what E4M3 at the scale of that element cannot
// hold.
TEST(NarrowStore, ReportsWhatRoundingTakes) {
  OneWeight one("fp8_lm");
  Stream host;
  one.store->report().begin(host, true);
  std::vector<float> gradient(OneWeight::elements, 3.0f);
  gradient[0] = 448.0f * 1024;  // scale 1024: the least number is 2, and 1 ties to 0
  gradient[1] = gradient[2] = 1.0f;
  gradient[3] = 0.0f;
  one.add(gradient);
  one.store->update(one.optimizer, {.learning_rate = 1e-3, .update = 1});
  const auto losses = one.store->report().end(host);
  const auto& of_gradient = losses[static_cast<std::size_t>(TensorClass::gradient)];
  EXPECT_EQ(of_gradient.elements, OneWeight::elements);
  EXPECT_EQ(of_gradient.flushed, 2);
  EXPECT_EQ(of_gradient.saturated, 0);
  EXPECT_EQ(of_gradient.scale, 1024);
  for (const TensorClass what : {TensorClass::moment1, TensorClass::moment2,
                                 TensorClass::weight, TensorClass::gradient_sum})
    EXPECT_EQ(losses[static_cast<std::size_t>(what)].elements, OneWeight::elements)
        << name_of(what);
  // Nothing is counted in a step without a report.
  one.store->report().begin(host, false);
  one.add(gradient);
  one.store->update(one.optimizer, {.learning_rate = 1e-3, .update = 2});
  EXPECT_FALSE(one.store->report().counting());
}

// What comes after a gradient that is not finite, and is not applied, is as if it had
// never come.
TEST(NarrowStore, UnusualGradients) {
  for (const char* name : {"bf16_fp32_sum", "bf16_no_sum", "ms_amp_o1", "ms_amp_o3",
                           "fp8_lm", "deepseek_v3", "nanotron_fp8"}) {
    SCOPED_TRACE(name);
    OneWeight one(name), other(name);
    const std::vector<float> ordinary = some_gradient(1);
    for (const float bad : {infinity, -infinity, nan}) {
      std::vector<float> gradient = ordinary;
      gradient[5] = bad;
      EXPECT_FALSE(std::isfinite(one.add(gradient))) << bad;
    }
    for (const float odd : {0.0f, 1e-42f, 1e30f}) {
      for (OneWeight* which : {&one, &other}) {
        EXPECT_TRUE(
            std::isfinite(which->add(std::vector<float>(OneWeight::elements, odd))))
            << odd;
        which->store->update(
            which->optimizer,
            {.learning_rate = 1e-3, .gradient_scale = odd > 1 ? 1e-30 : 1, .update = 1});
      }
    }
    EXPECT_EQ(one.add(ordinary), other.add(ordinary));
    one.store->update(one.optimizer, {.learning_rate = 1e-3, .update = 2});
    other.store->update(other.optimizer, {.learning_rate = 1e-3, .update = 2});
    for (const char* section : {"model", "optimizer/moment1", "optimizer/moment2"}) {
      const auto state = one.state(section);
      EXPECT_EQ(state, other.state(section));
      for (const double x : state) EXPECT_TRUE(std::isfinite(x)) << section;
    }
  }
}

// With stochastic rounding weights of bf16 go where those of fp32 would, up to what
// moments in bf16 take; to nearest most stand.
TEST(NarrowStore, SmallStepsAreNotLost) {
  // A step of a 2^-12 of the weights is far below half a unit of bf16.
  for (const bool stochastic : {false, true}) {
    Recipe recipe = recipe_named("bf16_pure");
    recipe.stochastic = stochastic;
    OneWeight one(recipe);
    const std::vector<double> before = one.state("model");
    one.optimizer.weight_decay = 0;
    constexpr int steps = 64;
    double moved = 0, wanted = 0, deviation = 0;
    for (int step = 1; step <= steps; ++step) {
      one.add(std::vector<float>(OneWeight::elements, 1e-3f));
      one.store->update(one.optimizer, {.learning_rate = 0x1p-16, .update = step});
    }
    const std::vector<double> after = one.state("model");
    for (std::size_t i = 0; i < before.size(); ++i) {
      moved += before[i] - after[i];
      wanted += steps * 0x1p-16;
      const double unit = 2 * half_unit(before[i], DType::bf16, 0);
      deviation += steps * unit * 0x1p-16;  // variance: at most step * unit
    }
    if (stochastic) {
      EXPECT_NEAR(moved, wanted, 5 * std::sqrt(deviation) + 0.1 * wanted);
    } else {
      EXPECT_LT(moved, 0.5 * wanted);
    }
  }
}

// What the modules read is the code times the scale, exactly.
TEST(NarrowStore, ModulesReadWeightsOfFp8) {
  OneWeight one("fp8_lm");
  const std::vector<double> master = one.state("model");
  one.store->fetch(0, Direction::forward);
  const double amax = largest(master);
  ASSERT_EQ(one.param.value.dtype(), DType::bf16);
  const auto used = one.param.value.span<BFloat16>();
  const double scale = power_scale(static_cast<float>(amax), DType::e4m3, 1);
  for (std::size_t i = 0; i < master.size(); ++i) {
    const double value = static_cast<float>(used[i]);
    EXPECT_LE(std::abs(value - master[i]), half_unit(master[i], DType::e4m3, amax));
    const auto code =
        kernels::fp8_encode(static_cast<float>(value / scale), kernels::Fp8Format::e4m3);
    EXPECT_EQ(kernels::fp8_decode(code, kernels::Fp8Format::e4m3) * scale, value);
  }
  one.store->release(0);
}

// Codes that no update makes anew keep the scales that they were made with.
TEST(NarrowStore, FrozenWeightsOfFp8StayAsTheyAre) {
  for (const char* recipe : {"ms_amp_o3", "fp8_lm", "deepseek_v3", "nanotron_fp8"}) {
    SCOPED_TRACE(recipe);
    comm::Mesh mesh = comm::Mesh::meta({}, 0);
    Param trained, frozen;
    for (Param* param : {&trained, &frozen}) {
      param->name = param == &frozen ? "frozen" : "trained";
      param->shape = {130, 33};
      param->boxes = {{param->name, param->shape, {0, 0}, {0, 0}, param->shape}};
      param->initializer = {Initializer::Kind::normal, 0.02};
    }
    frozen.frozen = true;
    StoreConfig config;
    config.recipe = recipe_named(recipe);
    ParameterStore store({{"m", {&trained, &frozen}}}, config, mesh, Device::host());
    store.initialize(1);
    const auto fetched = [&] {
      store.fetch(0, Direction::forward);
      std::vector<float> values;
      visit_floating(frozen.value.dtype(), [&](auto zero) {
        for (const auto x : frozen.value.span<decltype(zero)>())
          values.push_back(static_cast<float>(x));
      });
      store.release(0);
      return values;
    };
    const std::vector<float> before = fetched();
    for (int step = 1; step <= 3; ++step) {
      store.begin_step(1);
      store.open_gradients(0);
      for (float& x : trained.gradient.span<float>()) x += 1;
      store.ready(trained);
      store.close_gradients(0);
      store.finish_gradients();
      store.gradient_squares();
      store.update({}, {.learning_rate = 1e-2, .update = step});
      EXPECT_EQ(fetched(), before) << "step " << step;
    }
  }
}

}  // namespace
}  // namespace trireme::optim
