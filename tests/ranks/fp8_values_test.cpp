// Infinities, NaNs, zeros, denormals and huge numbers in each class of tensor.
// SPDX-License-Identifier: Apache-2.0
// They lie on one rank of a mesh: every rank judges the step alike, and the next one is
// as if nothing had been.
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "config/precision.hpp"
#include "ranks/equality.hpp"
#include "support/step.hpp"

namespace trireme::test {
namespace {

constexpr double inf = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

// What a step with the value must be like. `sound`: loss and norm are finite; `spoilt`:
// one of them is not, so that the step is skipped; `either`: the rules promise no more
// than that all ranks see the same.
enum class Verdict : std::uint8_t { sound, spoilt, either };

struct Case {
  const char* where;  // the tensor that gets the value in its first element, or "dy"
  double value;
  Verdict want;
};

const std::string x = "model.embed_tokens.weight";
const std::string w = "model.layers.1.self_attn.q_proj.weight";

// x: a row of the residual stream. w: as an operand an infinity has a scale of 1 and
// saturates; with blocks too. dy, and with it gradients, moments and what travels: the
// factor of the loss.
const std::vector<Case> cases = {
    {x.c_str(), nan, Verdict::spoilt},  {x.c_str(), inf, Verdict::spoilt},
    {x.c_str(), 0.0, Verdict::sound},   {x.c_str(), 1e-40, Verdict::sound},
    {x.c_str(), 1e30, Verdict::either}, {w.c_str(), nan, Verdict::spoilt},
    {w.c_str(), inf, Verdict::sound},   {w.c_str(), 0.0, Verdict::sound},
    {w.c_str(), 1e-40, Verdict::sound}, {w.c_str(), 1e30, Verdict::either},
    {"dy", nan, Verdict::spoilt},       {"dy", inf, Verdict::spoilt},
    {"dy", 0.0, Verdict::sound},        {"dy", 1e-40, Verdict::sound},
    {"dy", 1e30, Verdict::either},
};

// Weights that are kept in FP8, or multiplied in fp16, show an infinity before it is an
// operand; MS-AMP makes its codes from fp16 weights without a scale, as others from fp32.
Verdict verdict_of(const Case& c, const Recipe& recipe) {
  const DType weight = recipe[TensorClass::weight].type;
  const bool coded = recipe.fp8() && weight == DType::f16;
  const bool infinite = std::isinf(c.value) && c.where == w;
  return infinite && optim::has_scale(weight) && !coded ? Verdict::spoilt : c.want;
}

config::RunConfig config_of(const std::string& recipe, const Words& mesh) {
  return equality_config(
      "llama", std::string(config::compute_of(recipe_named(recipe))),
      Words{"model.hidden=64", "model.feed_forward=64", "model.sequence=32",
            "model.heads=4", "model.kv_heads=2", "model.vocabulary=29", "model.layers=2",
            "batch.global=2", "batch.micro=1", "model.initializer_range=0.05",
            "precision.recipe=" + recipe} +
          mesh);
}

struct Seen {
  double loss = 0, norm = 0;
  bool finite() const { return std::isfinite(loss) && std::isfinite(norm); }
};

class Run {
 public:
  Run(const config::RunConfig& config)
      : mesh_(test_mesh(config)), engine_(config, mesh_, mesh_.device()) {
    engine_.store().initialize(42);
    const auto tokens =
        config.batch.micro * static_cast<std::int64_t>(engine_.positions().size());
    for (std::int64_t i = 0; i < 2 * config.microbatches(); ++i) {
      ids_.emplace_back(Device::host(), DType::i32, Shape{tokens}, MemoryClass::data,
                        "ids");
      auto values = ids_.back().view().span<std::int32_t>();
      // Every row of the table is used.
      for (std::size_t t = 0; t < values.size(); ++t)
        values[t] =
            static_cast<std::int32_t>((7 * t + 3 * static_cast<std::size_t>(i)) % 29);
      (i % 2 == 0 ? inputs_ : targets_).push_back(ids_.back().view());
    }
  }

  // `factor`: of the gradients of this rank's loss.
  Seen step(double factor = 1.0) {
    AtGradients observer;
    observer.factor = factor;
    if (auto& scaler = engine_.scaler()) *scaler->state().data<float>() = 1;
    engine::Batch batch{.step = 1, .inputs = inputs_, .targets = targets_};
    batch.valid_tokens = 64 / mesh_.replicas().size();
    const engine::StepResult result = engine_.train_step(batch, observer);
    return {result.loss, result.gradient_norm};
  }
  // A step with `value` on the last rank that has the tensor; its weights stay as they
  // were.
  Seen spoilt(const Case& c) {
    if (std::string_view(c.where) == "dy") {
      return step(is_last(true) ? c.value : 1.0);
    }
    const auto element = first_of(c.where);
    const bool mine = is_last(element.has_value());
    float before = 0;
    const auto exchange = [&](float value) {
      if (mine)
        visit_floating(element->dtype(), [&]<class T>(T) {
          before = static_cast<float>(std::exchange(*element->data<T>(), T(value)));
        });
      engine_.store().refresh_weights();
    };
    exchange(static_cast<float>(c.value));
    const float kept = before;
    const Seen seen = step();
    exchange(kept);
    return seen;
  }
  // Whether all ranks have the same number, NaNs and all.
  bool is_everyones(double value) {
    const double mine = std::isfinite(value) ? value : -1;
    double most = mine, least = -mine;
    Stream stream;
    for (double* of : {&most, &least})
      mesh_.everyone()
          .all_reduce(stream, TensorView(of, DType::f64, {1}), comm::Reduce::max)
          .wait();
    return most == mine && -least == mine;
  }

 private:
  // The last rank for which it is true.
  bool is_last(bool candidate) {
    const double rank = mesh_.everyone().rank();
    double last = candidate ? rank : -1;
    Stream stream;
    mesh_.everyone()
        .all_reduce(stream, TensorView(&last, DType::f64, {1}), comm::Reduce::max)
        .wait();
    EXPECT_GE(last, 0) << "no rank has the tensor";
    return last == rank;
  }
  std::optional<TensorView> first_of(std::string_view tensor) {
    for (const auto& box : engine_.store().state_boxes())
      if (box.section == "model" && box.named->tensor == tensor &&
          box.data.elements() > 0)
        return box.data;
    return {};
  }

  comm::Mesh mesh_;
  engine::Engine engine_;
  std::vector<Buffer> ids_;
  std::vector<TensorView> inputs_, targets_;
};

// Without a history, or where the bad step adds nothing to those of x and W that a sound
// one would not have added, the next step has the same loss to the bit; without one also
// the same gradients.
bool same_loss(const std::string& recipe, const Case& c) {
  return recipe != "te_delayed" ||
         (std::string_view(c.where) == "dy" && c.want == Verdict::spoilt);
}

void expect_rules(const std::string& recipe, const Words& mesh) {
  config::RunConfig config = config_of(recipe, mesh);
  config.precision.loss_scale.floor = 0x1p-20;  // each step begins with a scale of 1
  std::optional<Run> clean(std::in_place, config);
  clean->step();
  clean->step();
  const Seen want = clean->step();
  clean.reset();
  for (const Case& c : cases) {
    SCOPED_TRACE(recipe + " " + mesh.front() + ": " + c.where + " = " +
                 std::to_string(c.value));
    Run run(config);
    EXPECT_TRUE(run.step().finite());
    const Seen seen = run.spoilt(c);
    EXPECT_TRUE(run.is_everyones(seen.loss)) << seen.loss;
    EXPECT_TRUE(run.is_everyones(seen.norm)) << seen.norm;
    const Verdict verdict = verdict_of(c, config.precision.recipe);
    if (verdict == Verdict::sound) {
      EXPECT_TRUE(seen.finite()) << seen.loss << " " << seen.norm;
    } else if (verdict == Verdict::spoilt) {
      EXPECT_FALSE(seen.finite()) << seen.loss << " " << seen.norm;
    }
    const Seen after = run.step();
    EXPECT_TRUE(after.finite()) << after.loss << " " << after.norm;
    if (same_loss(recipe, c)) {
      EXPECT_EQ(after.loss, want.loss);
    }
    if (recipe != "te_delayed") {
      EXPECT_EQ(after.norm, want.norm);
    }
  }
}

// Gradients and their traffic in fp32, and in FP8 with moments in FP8 and fp16, and
// weights in FP8; and fp16 without a loss scale.
TEST(Fp8Values, OnEveryRankAlike) {
  const Words tensor = {"parallel.tensor=2"}, pipeline = {"parallel.pipeline=2"},
              shards = {"parallel.sharding_strategy=FULL_SHARD"};
  for (const Words& mesh : {tensor, shards, pipeline}) expect_rules("te_current", mesh);
  expect_rules("te_delayed", tensor);
  expect_rules("te_blocks", shards);
  expect_rules("ms_amp_o2", shards);
  expect_rules("ms_amp_o3", shards);
  expect_rules("fp16", tensor);
}

}  // namespace
}  // namespace trireme::test
