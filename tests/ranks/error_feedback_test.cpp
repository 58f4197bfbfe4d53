// Error feedback: over steps nothing of the gradients is lost on the wire.
// SPDX-License-Identifier: Apache-2.0
// Without it the same rounding is made each time. It is resumed to the bit.
#include <unistd.h>

#include <cmath>
#include <filesystem>

#include "engine/checkpoint_boxes.hpp"
#include "ranks/equality.hpp"
#include "support/loaded_checkpoint.hpp"
#include "support/written_checkpoint.hpp"
#include "train/missing_state.hpp"

namespace trireme::test {
namespace {

using optim::ParameterStore;
using optim::Sharding;

// Reduces the gradients of one weight of a module, the same ones each time.
struct Reducing {
  static constexpr std::int64_t elements = 1000;
  comm::Mesh mesh;
  Param param;
  std::optional<ParameterStore> store;

  Reducing(Sharding sharding, DType wire, bool feedback)
      : mesh(world(), {1, world().size(), 1, 1}, folding(sharding)) {
    param.name = "w";
    param.shape = {elements};
    param.boxes = {{"w", param.shape, {0}, {0}, param.shape}};
    optim::StoreConfig config;
    config.recipe = recipe_named("bf16");
    const bool fp8 = is_fp8(wire);
    config.recipe[TensorClass::gradient_traffic] = {
        wire, fp8 ? Scaling::current : Scaling::none};
    config.sharding = sharding;
    config.error_feedback = feedback;
    store.emplace(std::vector<ParamModule>{{"m", {&param}}}, config, mesh,
                  Device::host());
    store->initialize(1);
  }
  static comm::Folding folding(Sharding sharding) {
    comm::Folding folding;
    folding.shard = sharding == Sharding::none ? 1 : world().size();
    return folding;
  }
  // Not a number of the wire's type on any rank.
  static float gradient(int rank, std::int64_t i) {
    return 1e-3f * std::sin(0.7f * static_cast<float>(i) + static_cast<float>(rank)) *
           std::exp2(-static_cast<float>(i % 5));
  }
  // What this rank has of the sum, at its elements of w.
  std::vector<std::pair<std::int64_t, double>> reduce() {
    store->begin_step(1);
    store->fetch(0, Direction::forward);
    store->open_gradients(0);
    const auto x = param.gradient.span<float>();
    for (std::int64_t i = 0; i < elements; ++i)
      x[static_cast<std::size_t>(i)] += gradient(world().rank(), i);
    store->ready(param);
    store->close_gradients(0);
    store->release(0);
    store->finish_gradients();
    std::vector<std::pair<std::int64_t, double>> out;
    for (const optim::StateBox& box : store->gradient_boxes())
      for (std::int64_t i = 0; i < box.data.elements(); ++i)
        out.emplace_back(box.global_begin[0] + i, double{box.data.data<float>()[i]});
    return out;
  }
};

// |sum over k steps - k x the exact sum| is what the last rounding left: at most half a
// unit of each rank's largest number, and of the sum's, whatever k is. Without feedback
// it grows with k.
TEST(ErrorFeedback, LosesNothingOverSteps) {
  constexpr int steps = 40;
  for (const DType wire : {DType::bf16, DType::e4m3}) {
    for (const Sharding sharding :
         {Sharding::none, Sharding::optimizer, Sharding::weights}) {
      SCOPED_TRACE(format("{} {}", name_of(wire), static_cast<int>(sharding)));
      double most[2] = {0, 0};
      for (const bool feedback : {false, true}) {
        Reducing reducing(sharding, wire, feedback);
        std::map<std::int64_t, double> sums;
        for (int step = 0; step < steps; ++step)
          for (const auto& [i, value] : reducing.reduce()) sums[i] += value;
        ASSERT_FALSE(sums.empty());
        for (const auto& [i, sum] : sums) {
          double exact = 0;
          for (int rank = 0; rank < world().size(); ++rank)
            exact += double{Reducing::gradient(rank, i)};
          most[feedback] = std::max(most[feedback], std::abs(sum - steps * exact));
        }
      }
      const double unit = wire == DType::bf16 ? 0x1p-8 : 0x1p-4;  // half, of 1
      const double P = world().size();
      // Numbers with what was carried over are at most 1 + unit times the largest. Twice
      // the sum: its scale has room for a power of two.
      EXPECT_LE(most[true], 1e-3 * (1 + 2 * unit) * unit * (P + 2 * P) + 1e-8);
      const double without = world().max(most[false]), with = world().max(most[true]);
      EXPECT_GT(without, 4 * with);
    }
  }
}

// A gradient that is not finite leaves what is carried over as it was.
TEST(ErrorFeedback, IsNotSpoiled) {
  Reducing one(Sharding::none, DType::e4m3, true);
  Reducing other(Sharding::none, DType::e4m3, true);
  one.reduce();
  other.reduce();
  one.store->begin_step(1);
  one.store->fetch(0, Direction::forward);
  one.store->open_gradients(0);
  one.param.gradient.span<float>()[3] = std::nanf("");
  one.store->ready(one.param);
  one.store->close_gradients(0);
  one.store->release(0);
  one.store->finish_gradients();
  EXPECT_FALSE(std::isfinite(world().sum(one.store->gradient_squares())));
  EXPECT_EQ(one.reduce(), other.reduce());
}

config::RunConfig feedback_config(const Words& words) {
  config::RunConfig config =
      equality_config("llama-tied", "bf16",
                      Words{"model.layers=2", "precision.gradient_reduce=fp8",
                            "precision.error_feedback=true",
                            "batch.micro=" + std::to_string(12 / world().size() / 2)} +
                          words);
  return config;
}

TEST(ErrorFeedback, GoesOnFromACheckpoint) {
  const std::string directory =
      world().broadcast(std::filesystem::temp_directory_path().string() +
                        format("/trireme-feedback-{}", ::getpid()));
  for (const char* name : {"NO_SHARD", "ZERO1", "FULL_SHARD"}) {
    SCOPED_TRACE(name);
    const std::string strategy = format("parallel.sharding_strategy={}", name);
    const auto config = feedback_config({strategy});
    comm::Mesh mesh = test_mesh(config);
    const auto save = [&](engine::Engine& engine) {
      io::CheckpointInfo info;
      info.step = 2;
      write_checkpoint(world(), directory, info, engine::checkpoint_boxes(engine, mesh),
                       0);
    };
    train_steps(config, mesh, 2, true, save);
    const Outcome through = train_steps(config, mesh, 3);
    bool carried = false;
    const auto load = [&](engine::Engine& engine) {
      const auto all = engine::checkpoint_boxes(engine, mesh);
      const auto boxes = train::boxes_to_load(
          world(), io::CheckpointReader(directory, io::no_digests), all, "adamw");
      carried = boxes.size() == all.size();
      test::load_by_all(world(), directory, boxes);
      engine.store().refresh_weights();
    };
    const Outcome resumed = train_steps(config, mesh, 1, true, {}, {load, 3});
    EXPECT_TRUE(carried);
    expect_same_bits(resumed.state, through.state);
    const bool whole = std::string_view(name) == "NO_SHARD";
    const auto other = feedback_config({whole ? "parallel.sharding_strategy=FULL_SHARD"
                                              : "parallel.sharding_strategy=NO_SHARD"});
    comm::Mesh elsewhere = test_mesh(other);
    const auto move = [&](engine::Engine& engine) {
      const auto all = engine::checkpoint_boxes(engine, elsewhere);
      const auto boxes = train::boxes_to_load(
          world(), io::CheckpointReader(directory, io::no_digests), all, "adamw");
      EXPECT_LT(boxes.size(), all.size());
      test::load_by_all(world(), directory, boxes);
      engine.store().refresh_weights();
    };
    train_steps(other, elsewhere, 1, true, {}, {move, 3});
    world().agree([&] {
      if (world().rank() == 0) std::filesystem::remove_all(directory);
    });
  }
}

}  // namespace
}  // namespace trireme::test
