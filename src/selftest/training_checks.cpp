// One training step of each recipe on the rank's device, against the host.
// SPDX-License-Identifier: Apache-2.0
// Every rank trains the same tiny model by itself, so that a wrong device is named alone.
#include <cmath>
#include <map>

#include "base/philox.hpp"
#include "base/recipe.hpp"
#include "comm/mesh.hpp"
#include "config/deck_table.hpp"
#include "config/precision.hpp"
#include "config/run_config.hpp"
#include "engine/engine.hpp"
#include "engine/gpu_misfit.hpp"
#include "engine/whole_tensors.hpp"
#include "selftest/check.hpp"

namespace trireme::selftest {
namespace {

// Every extent is one that FP8 and blocks of 32 take; heads are 32 wide, which tensor
// cores take, with two query heads for a key/value head.
constexpr std::int64_t layers = 2, vocabulary = 61, sequence = 32, sequences = 2,
                       width = 64;
constexpr auto deck_text = R"(
run.steps = 1
model.layers = 2
model.hidden = 64
model.heads = 2
model.kv_heads = 1
model.feed_forward = 64
model.vocabulary = 61
model.sequence = 32
model.initializer_range = 0.1
data.source = "synthetic"
batch.global = 2
batch.micro = 1
)";

config::RunConfig config_of(const Recipe& recipe) {
  const std::vector<std::string> overrides = {
      format("precision.compute=\"{}\"", config::compute_of(recipe)),
      format("precision.recipe=\"{}\"", recipe.name)};
  const auto deck =
      io::Deck::parse(deck_text, "the self-test's deck", overrides, config::deck_table());
  config::RunConfig config = config::make_run_config(deck, 1);
  config.precision.loss_scale.initial_scale = 1024;  // far from what overflows fp16 here
  return config;
}

// Token ids of one step: a pure function of the place; every fifth target is ignored.
struct OwnBatch {
  std::vector<std::int32_t> inputs, targets;
  engine::Batch batch{.step = 1};

  OwnBatch() {
    const Random random(11, hash_name("self-test tokens"));
    for (std::uint64_t i = 0; i < sequence * sequences; ++i) {
      const auto id = [&](std::uint64_t at) {
        return static_cast<std::int32_t>(random.below(at, vocabulary));
      };
      inputs.push_back(id(i));
      targets.push_back(i % 5 == 3 ? -100 : id(i + 1));
      batch.valid_tokens += i % 5 == 3 ? 0 : 1;
    }
    for (std::int64_t s = 0; s < sequences; ++s) {
      const auto rows = [&](std::vector<std::int32_t>& ids) {
        return TensorView(ids.data() + s * sequence, DType::i32, {sequence});
      };
      batch.inputs.push_back(rows(inputs));
      batch.targets.push_back(rows(targets));
    }
  }
};

// What a step gave: gradients by tensor, whole and unclipped, and the loss.
struct Step {
  std::map<std::string, Vector> gradients;
  double loss = 0;
};

// Takes the gradients when they are there.
class Gradients : public engine::StepObserver {
 public:
  explicit Gradients(engine::Engine& engine) : engine_(engine) {}
  std::optional<kernels::StepLimits> limits(std::int64_t) override {
    return std::nullopt;  // they are there before the update
  }
  void gradients_ready(double loss_scale) override {
    for (const optim::StateBox& box : engine_.store().gradient_boxes()) {
      Vector values = values_of(box.data);
      for (double& x : values) x /= loss_scale;
      gradients[engine::name_of(box)] = std::move(values);
    }
  }
  std::map<std::string, Vector> gradients;

 private:
  engine::Engine& engine_;
};

Step train(const Recipe& recipe, Device device) {
  const config::RunConfig config = config_of(recipe);
  comm::Mesh alone = comm::Mesh::meta({}, 0, {}, device);
  engine::Engine engine(config, alone, device);
  engine.store().initialize(42);
  OwnBatch own;
  Gradients observer(engine);
  const engine::StepResult result = engine.train_step(own.batch, observer);
  return {std::move(observer.gradients), result.loss};
}

double difference(const Vector& a, const Vector& b) {
  Vector d = a;
  for (std::size_t i = 0; i < d.size(); ++i) d[i] -= b[i];
  return norm(d) / std::max(norm(b), 1e-300);
}

// Compares each gradient, and the loss, with `right`; `bound` of a tensor's name.
template <class Bound>
void compare(Probe& probe, const Step& step, const Step& right, const Bound& bound) {
  double most = 0;
  for (const auto& [name, gradient] : right.gradients) {
    const auto found = step.gradients.find(name);
    const double of_tensor = bound(name);
    most = std::max(most, of_tensor);
    probe.relative(found == step.gradients.end() ? Vector() : found->second, gradient,
                   of_tensor);
  }
  probe.within({step.loss}, {right.loss}, {most * right.loss});
}

// How often a number is rounded to the type of each class on the longest way of a
// gradient through the model. In a block: a dozen activations on the way forward and as
// many back; both operands of four products forward, weights and gradients of those back.
struct Roundings {
  TensorClass what;
  double times;
};
constexpr Roundings on_the_way[] = {
    {TensorClass::activation, 24.0 * layers},
    {TensorClass::weight, 8.0 * layers},
    {TensorClass::forward_operand, 12.0 * layers},
    {TensorClass::backward_operand, 4.0 * layers},
    {TensorClass::gradient, sequences},
    {TensorClass::gradient_sum, sequences},
};

// Independent roundings add up like a random walk. Products of 16 bits add in fp32; where
// activations are fp32 each of a product's additions, at most as many as the model is
// wide, rounds as they do.
double bound_on_host(const Recipe& recipe) {
  double squares = 0;
  for (const auto& [what, times] : on_the_way)
    squares += times * std::pow(roundoff(recipe[what].type), 2);
  const DType type = recipe[TensorClass::activation].type;
  if (type == accumulator_of(type)) squares *= width;
  return std::sqrt(squares);
}

// On a host the truth is fp64's step, and that of fp64 itself is fp32's. On a GPU fp64
// and fp32 are the host's but for the order of sums; in fewer bits host and GPU round the
// same values, so that each is about as far from the truth as the other.
void check_step(Probe& probe, const Recipe& recipe) {
  const Recipe& fp64 = recipe_named("fp64");
  const bool exact = recipe.name == "fp64", single = recipe.name == "fp32";
  const bool on_gpu = probe.device().is_cuda();
  const std::string misfit = on_gpu ? engine::gpu_misfit(config_of(recipe)) : "";
  if (!misfit.empty()) return probe.leave_out(misfit);
  const Step step = train(recipe, probe.device());
  if (on_gpu && (exact || single)) {
    const double limit = exact ? 1e-10 : 1e-5;  // the project's EQ64 and EQ32
    return compare(probe, step, train(recipe, Device::host()),
                   [&](const std::string&) { return limit; });
  }
  if (!on_gpu) {
    const Recipe& other = exact ? recipe_named("fp32") : fp64;
    const double bound = bound_on_host(exact ? other : recipe);
    return compare(probe, step, train(other, Device::host()),
                   [&](const std::string&) { return bound; });
  }
  const Step right = train(fp64, Device::host());
  const Step host = train(recipe, Device::host());
  compare(probe, step, right, [&](const std::string& name) {
    return 2 * difference(host.gradients.at(name), right.gradients.at(name));
  });
}

}  // namespace

std::vector<Check> training_checks() {
  std::vector<Check> checks;
  for (const Recipe& recipe : recipes())
    checks.push_back({format("training step {}", recipe.name),
                      [&recipe](Probe& probe) { check_step(probe, recipe); }});
  return checks;
}

}  // namespace trireme::selftest
