// Losses of pairs of answers and their gradients against PyTorch (dpo.h5).
// SPDX-License-Identifier: Apache-2.0
// From samples with marks, as a source gives them, through rows, engine and step. The
// model is that of llama_tied.h5.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "comm/mesh.hpp"
#include "config/precision.hpp"
#include "engine/engine.hpp"
#include "io/hdf5_file.hpp"
#include "support/step.hpp"
#include "support/world.hpp"
#include "train/answer_pass.hpp"
#include "train/batch_loader.hpp"

namespace trireme::train {
namespace {

// As in reference_test.cpp: 20 sums deep, at most 101 terms each. Losses of pairs are
// differences of log-probabilities of some -20, with errors of their size.
constexpr double tolerance = 800 * std::numeric_limits<double>::epsilon();
constexpr std::int64_t S = 16;

io::Hdf5File open(const std::string& name) {
  const char* source = std::getenv("TRIREME_SOURCE");
  return io::Hdf5File(
      format("{}/tests/reference/{}.h5", source != nullptr ? source : ".", name),
      io::Hdf5File::Mode::read);
}

template <class T>
std::vector<T> read(const io::Hdf5File& file, const std::string& name, DType type) {
  const Shape shape = file.describe(name).second;
  std::vector<T> values(static_cast<std::size_t>(shape.elements()));
  file.read_all(name, TensorView(values.data(), type, shape));
  return values;
}
std::vector<double> reals(const io::Hdf5File& file, const std::string& name) {
  return read<double>(file, name, DType::f64);
}

// The two pairs of dpo.h5, a sample each.
class Pairs final : public io::SampleSource {
 public:
  explicit Pairs(const io::Hdf5File& file) {
    prompts_ = read<std::int32_t>(file, "prompts", DType::i32);
    for (std::size_t p = 0; p < prompts_.size(); ++p)
      for (const char* answer : {"chosen", "rejected"})
        answers_.push_back(read<std::int32_t>(
            file, "pairs/" + std::to_string(p) + "/" + answer, DType::i32));
  }
  std::int64_t samples() const override { return std::ssize(prompts_); }
  std::int64_t tokens() const override { return 0; }
  std::int64_t answers() const override { return std::ssize(answers_); }
  void sample(std::int64_t index, std::span<std::int32_t> tokens) const override {
    auto to = tokens.begin();
    for (const std::size_t a : {2 * index, 2 * index + 1})
      to = std::copy(answers_[a].begin(), answers_[a].end(), to);
    std::fill(to, tokens.end(), io::ignore_index);
  }
  io::SampleMarks marks(std::int64_t index) const override {
    io::SampleMarks marks;
    for (const std::int64_t a : {2 * index, 2 * index + 1}) {
      const std::int64_t start = std::ssize(marks.starts);
      const auto prompt = prompts_[static_cast<std::size_t>(index)];
      for (std::int64_t i = 0; i < std::ssize(answers_[static_cast<std::size_t>(a)]);
           ++i) {
        marks.starts.push_back(start);
        marks.no_target.push_back(i < prompt);
        marks.answers.push_back(i < prompt ? -1 : a);
      }
    }
    marks.starts.resize(S + 1, std::ssize(marks.starts));
    marks.no_target.resize(S + 1, 1);
    marks.answers.resize(S + 1, -1);
    return marks;
  }
  std::string describe() const override { return "pairs"; }

 private:
  std::vector<std::int32_t> prompts_;
  std::vector<std::vector<std::int32_t>> answers_;
};

config::RunConfig config_of(const io::Hdf5File& model, comm::Axis axis,
                            nn::PreferenceLoss::Kind kind) {
  const auto integer = [&](const char* key) { return model.integer_attribute("/", key); };
  config::RunConfig c;
  c.model.architecture = model::architecture_named("llama");
  c.model.layers = integer("layers");
  c.model.hidden = integer("hidden");
  c.model.heads = integer("heads");
  c.model.kv_heads = integer("kv_heads");
  c.model.feed_forward = integer("feed_forward");
  c.model.vocabulary = integer("vocabulary");
  c.model.sequence = S;
  c.model.rope_theta = reals(model, "config/rope_theta")[0];
  c.model.norm_eps = reals(model, "config/norm_eps")[0];
  c.model.tie_embeddings = true;
  comm::MeshShape& mesh = c.parallel.mesh;
  (axis == comm::Axis::data      ? mesh.data
   : axis == comm::Axis::context ? mesh.context
                                 : mesh.tensor) = test::world().size();
  if (mesh.context > 1) c.parallel.order = parallel::ContextOrder::zigzag;
  c.batch.global = 2;
  c.batch.micro = 2 / mesh.data;
  c.precision = config::precision_of(recipe_named("fp64"));
  c.optimizer.steps = 1;
  c.train = {config::Objective::dpo, {kind, 0.3, 0.1}};
  return c;
}

class DpoTest : public testing::TestWithParam<comm::Axis> {
 protected:
  // |gradients - reference| / |reference| of each tensor's part here.
  static void compare_gradients(engine::Engine& engine, const io::Hdf5File& file,
                                const std::string& group) {
    for (const optim::StateBox& box : engine.store().gradient_boxes()) {
      const std::string name = group + "/gradients/" + box.named->tensor;
      const auto whole = reals(file, name);
      std::vector<double> part(static_cast<std::size_t>(box.data.shape().elements()));
      file.read(name, box.global_begin,
                TensorView(part.data(), DType::f64, box.data.shape()));
      double difference = 0, size = 0;
      const auto mine = box.data.span<double>();
      for (std::size_t i = 0; i < part.size(); ++i)
        difference += (mine[i] - part[i]) * (mine[i] - part[i]);
      for (const double x : whole) size += x * x;
      EXPECT_LE(std::sqrt(difference / size), tolerance) << name;
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Axes, DpoTest,
                         testing::Values(comm::Axis::data, comm::Axis::tensor,
                                         comm::Axis::context));

TEST_P(DpoTest, LossesAndGradientsAreThoseOfPyTorch) {
  const io::Hdf5File file = open("dpo"), weights = open("llama_tied");
  const Pairs pairs(file);
  const std::vector<double> references = reals(file, "references");
  const std::vector<double> wanted = reals(file, "log_probabilities");
  using Kind = nn::PreferenceLoss::Kind;
  const std::vector<std::pair<Kind, std::string>> kinds = {{Kind::sigmoid, "sigmoid"},
                                                           {Kind::robust, "robust"},
                                                           {Kind::hinge, "hinge"},
                                                           {Kind::ipo, "ipo"}};
  for (const auto& kind : kinds) {
    SCOPED_TRACE(kind.second);
    const config::RunConfig config = config_of(weights, GetParam(), kind.first);
    comm::Mesh mesh(test::world(), config.parallel.mesh);
    engine::Engine engine(config, mesh, Device::host());
    for (const auto& box : engine.store().state_boxes())
      if (std::string(box.section) == "model")
        weights.read("weights/" + box.named->tensor, box.global_begin, box.data);
    engine.store().refresh_weights();
    // 1. log-probabilities, without gradients
    const AnswerTable table = AnswerPass(config, pairs)
                                  .run(
                                      engine, mesh, 0, [] {}, [] { return false; });
    for (std::size_t i = 0; i < wanted.size(); ++i)
      EXPECT_NEAR(table.log_probabilities[i], wanted[i], tolerance * std::abs(wanted[i]));
    EXPECT_EQ(table.tokens, (std::vector<double>{5, 4, 5, 6}));
    // 2. a step
    BatchLoader loader(pairs, {.global = 2,
                               .micro = config.batch.micro,
                               .microbatches = 1,
                               .data_rank = mesh.coordinate(comm::Axis::data),
                               .data_ranks = config.parallel.mesh.data,
                               .sequence = S,
                               .positions = engine.positions(),
                               .documents = engine::DocumentRule{},
                               .references = &references});
    test::AtGradients observer(
        [&](double) { compare_gradients(engine, file, kind.second); }, false);
    const engine::StepResult result = engine.train_step(loader.next(), observer);
    const double loss = reals(file, kind.second + "/loss")[0];
    EXPECT_NEAR(result.loss, loss, tolerance * 20) << "of pairs";
    EXPECT_EQ(result.tokens, 20);
    // 3. what is told of them
    const double rewards = 0.3 * (wanted[0] - references[0] + wanted[2] - references[2]);
    EXPECT_NEAR(result.pairs.values[nn::PreferenceSums::preferred], rewards / 2,
                tolerance * 20);
    EXPECT_NEAR(result.pairs.values[nn::PreferenceSums::other_log],
                (wanted[1] + wanted[3]) / 2, tolerance * 20);
  }
}

}  // namespace
}  // namespace trireme::train
