// ZERO1: updated weights come together while the next step begins, unit by unit.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <optional>

#include "optim/parameter_store.hpp"
#include "support/world.hpp"

namespace trireme {
namespace {

using optim::ParameterStore;
using optim::Sharding;

// Three modules, of which the last uses the table of the first, too.
class ThreeModules {
 public:
  static constexpr std::size_t modules = 3;

  ThreeModules(Sharding sharding, const char* recipe)
      : mesh_(test::world(), {.data = test::world().size()},
              {.shard = sharding == Sharding::none ? 1 : test::world().size()}) {
    std::vector<ParamModule> all;
    for (std::size_t m = 0; m < modules; ++m) {
      Param& param = params_[m];
      param.name = "w" + std::to_string(m);
      param.shape = {12, 32};
      param.boxes = {{param.name, param.shape, {0, 0}, {0, 0}, param.shape}};
      param.initializer = {Initializer::Kind::normal, 0.02};
      all.push_back({"module " + std::to_string(m), {&param}});
    }
    params_[0].contributions = 2;
    all.back().params.push_back(&params_[0]);
    optim::StoreConfig config;
    config.recipe = recipe_named(recipe);
    config.sharding = sharding;
    store_.emplace(all, config, mesh_, Device::host());
    store_->initialize(1);
  }

  ParameterStore& store() { return *store_; }

  void step(int number) {
    store_->begin_step(1);
    for (int m = 0; m < static_cast<int>(modules); ++m) {
      const auto i = static_cast<std::size_t>(m);
      store_->fetch(m, Direction::forward);
      store_->open_gradients(m);
      add(params_[i], number);
      if (i + 1 == modules) store_->ready(params_[0]);
      store_->close_gradients(m);
      store_->release(m);
    }
    store_->finish_gradients();
    store_->update(optimizer_, {.learning_rate = 1e-3, .update = number});
  }

  // What a module computes with.
  std::vector<double> used(int module) {
    store_->fetch(module, Direction::forward);
    std::vector<double> out;
    const TensorView& x = params_[static_cast<std::size_t>(module)].value;
    visit_floating(x.dtype(), [&]<class T>(T) {
      for (std::int64_t i = 0; i < x.elements(); ++i)
        out.push_back(static_cast<double>(static_cast<Accumulator<T>>(x.data<T>()[i])));
    });
    store_->release(module);
    return out;
  }

 private:
  void add(Param& param, int number) {
    visit_floating(param.gradient.dtype(), [&]<class T>(T) {
      T* const x = param.gradient.data<T>();
      for (std::int64_t i = 0; i < param.gradient.elements(); ++i) {
        const double g =
            std::sin(0.7 * static_cast<double>(i) + number + test::world().rank());
        x[i] = T(static_cast<Accumulator<T>>(x[i]) + static_cast<Accumulator<T>>(g));
      }
    });
    store_->ready(param);
  }

  comm::Mesh mesh_;
  std::array<Param, modules> params_;
  optim::OptimizerConfig optimizer_;
  std::optional<ParameterStore> store_;
};

class LateWeights : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Recipes, LateWeights, testing::Values("fp32", "bf16"));

TEST_P(LateWeights, AModuleWaitsForItsOwn) {
  ThreeModules late(Sharding::optimizer, GetParam());
  ThreeModules whole(Sharding::none, GetParam());
  EXPECT_EQ(late.store().weights_under_way(), 0);
  for (int step = 1; step <= 3; ++step) {
    late.step(step);
    whole.step(step);
    // The table of two modules is a flat parameter of its own.
    EXPECT_EQ(late.store().weights_under_way(), 3);
    EXPECT_EQ(whole.store().weights_under_way(), 0);
    EXPECT_EQ(late.used(1), whole.used(1));
    EXPECT_EQ(late.store().weights_under_way(), 2);
    EXPECT_EQ(late.used(2), whole.used(2));  // and the table
    EXPECT_EQ(late.store().weights_under_way(), 0);
    EXPECT_EQ(late.used(0), whole.used(0));
  }
}

// Whoever gets weights without a fetch gets them whole.
TEST_P(LateWeights, OthersWaitForAll) {
  ThreeModules late(Sharding::optimizer, GetParam());
  const std::array<std::function<void()>, 4> readers = {
      [&] { late.store().state_boxes(); }, [&] { late.store().params(); },
      [&] { late.store().wait_for_weights(); }, [&] { late.store().refresh_weights(); }};
  for (std::size_t i = 0; i < readers.size(); ++i) {
    late.step(static_cast<int>(i) + 1);
    EXPECT_EQ(late.store().weights_under_way(), 3);
    readers[i]();
    EXPECT_EQ(late.store().weights_under_way(), 0);
  }
}

// Gathered for each module in any case, or in no other place.
TEST(LateWeightsOf, OtherStrategiesHaveNone) {
  for (const Sharding sharding : {Sharding::none, Sharding::weights}) {
    ThreeModules modules(sharding, "fp32");
    modules.step(1);
    EXPECT_EQ(modules.store().weights_under_way(), 0);
  }
}

}  // namespace
}  // namespace trireme
