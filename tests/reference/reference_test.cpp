// The models against PyTorch and transformers, by files that README.md describes.
// SPDX-License-Identifier: Apache-2.0
// Logits, loss, every gradient, one SGD step and ten AdamW steps are compared.
// Shapes: T = B * S tokens, C of them in a chunk, V vocabulary entries.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "comm/mesh.hpp"
#include "config/precision.hpp"
#include "convert/folder_config.hpp"
#include "engine/engine.hpp"
#include "infer/generator.hpp"
#include "io/hdf5_file.hpp"
#include "support/step.hpp"
#include "support/world.hpp"

namespace trireme::engine {
namespace {

// Relative errors. One sum of n products has k eps sqrt(n), n <= 101 here; a gradient is
// some 20 such sums deep, each with its own rounding: 4 * 20 * sqrt(101) eps = 800 eps.
// Ten AdamW steps divide by sqrt(v), which doubles an error, and add up: 10 * 2 * 800
// eps.
struct Tolerance {
  explicit Tolerance(DType dtype)
      : eps(dtype == DType::f64 ? std::numeric_limits<double>::epsilon()
                                : std::numeric_limits<float>::epsilon()) {}
  double eps;
  double once = 800 * eps;
  double ten_steps = 20 * once;
  // Of a tensor with elements whose gradient is zero (the key's bias): what is there is
  // about eps, and a step is learning_rate / adam_eps = 1e5 times that.
  double zero_gradient = ten_steps + 10 * 1e5 * eps;
};

// In CTest's environment; see tests/CMakeLists.txt.
std::string path_of(const std::string& name) {
  const char* source = std::getenv("TRIREME_SOURCE");
  return format("{}/tests/reference/{}.h5", source ? source : ".", name);
}

std::vector<double> read_reals(const io::Hdf5File& file, const std::string& name) {
  const Shape shape = file.describe(name).second;
  std::vector<double> values(static_cast<std::size_t>(shape.elements()));
  file.read_all(name, TensorView(values.data(), DType::f64, shape));
  return values;
}

TensorView read_tokens(const io::Hdf5File& file, const std::string& name,
                       std::vector<std::int32_t>& tokens) {
  const Shape shape = file.describe(name).second;
  tokens.resize(static_cast<std::size_t>(shape.elements()));
  const TensorView view(tokens.data(), DType::i32, shape);
  file.read_all(name, view);
  return view.reshape({shape.elements()});
}

double value_at(const TensorView& matrix, std::int64_t row, std::int64_t column) {
  const std::int64_t at = row * matrix.stride(0) + column;
  return matrix.dtype() == DType::f64 ? matrix.data<double>()[at]
                                      : static_cast<double>(matrix.data<float>()[at]);
}

// A model of one file on a mesh, all ranks on one axis.
class Model {
 public:
  // Trained by the optimizer that the file says, or by `rule`.
  Model(const std::string& name, DType dtype, comm::Axis axis,
        const std::optional<optim::OptimizerConfig>& rule = {})
      : file(path_of(name), io::Hdf5File::Mode::read),
        config(config_of(file, dtype, axis, rule)),
        mesh(test::world(), config.parallel.mesh),
        engine(config, mesh, Device::host()) {
    inputs = read_tokens(file, "input_ids", input_tokens_);
    targets = read_tokens(file, "targets", target_tokens_);
    for (const auto& box : engine.store().state_boxes())
      if (std::string(box.section) == "model")
        file.read("weights/" + box.named->tensor, box.global_begin, box.data);
    engine.store().refresh_weights();
  }

  // One step, which updates the weights if the observer accepts it.
  StepResult step(StepObserver& observer, std::int64_t number = 1) {
    const auto first = mesh.coordinate(comm::Axis::data) * rows();
    const TensorView mine = targets.rows(first, rows());
    return engine.train_step({.step = number,
                              .inputs = {inputs.rows(first, rows())},
                              .targets = {mine},
                              .valid_tokens = valid(mine)},
                             observer);
  }
  // Tokens of this rank.
  std::int64_t rows() const { return config.batch.micro * config.model.sequence; }
  // Targets that count.
  static std::int64_t valid(const TensorView& targets) {
    const auto all = targets.span<std::int32_t>();
    return std::count_if(all.begin(), all.end(), [](std::int32_t t) { return t >= 0; });
  }

  // Each box of each tensor against the file, relative to the norm of the whole tensor;
  // the tensors that were there.
  std::set<std::string> compare(const std::vector<optim::StateBox>& boxes,
                                const std::string& section, const std::string& group,
                                double tolerance, double zero_gradient = 0) {
    std::set<std::string> seen;
    for (const auto& box : boxes) {
      if (box.section != section) continue;
      const std::string& tensor = box.named->tensor;
      // Of keys, in what does not turn.
      const bool zeros =
          group == "final_weights" &&
          (tensor.ends_with("c_attn.bias") || tensor.ends_with("query_key_value.bias"));
      EXPECT_EQ(file.describe(group + "/" + tensor).second, box.named->whole) << tensor;
      EXPECT_LE(relative_error(box, group), zeros ? zero_gradient : tolerance)
          << group << " " << tensor;
      seen.insert(tensor);
    }
    return seen;
  }

  io::Hdf5File file;
  config::RunConfig config;
  comm::Mesh mesh;
  Engine engine;
  TensorView inputs, targets;  // [T], of the whole batch

 private:
  static config::RunConfig config_of(const io::Hdf5File& file, DType dtype,
                                     comm::Axis axis,
                                     const std::optional<optim::OptimizerConfig>& rule) {
    const auto integer = [&](const char* key) {
      return file.integer_attribute("/", key);
    };
    const auto real = [&](const char* key) {
      return read_reals(file, std::string("config/") + key)[0];
    };
    config::RunConfig c;
    c.model = model_of(file);
    const int ranks = test::world().size();
    (axis == comm::Axis::data ? c.parallel.mesh.data : c.parallel.mesh.tensor) = ranks;
    c.parallel.bucket_bytes = 4096;
    c.batch.global = integer("batch");
    c.batch.micro = c.batch.global / c.parallel.mesh.data;
    c.precision = config::precision_of(recipe_named(name_of(dtype)));
    c.optimizer.learning_rate = real("learning_rate");
    c.optimizer.beta1 = real("beta1");
    c.optimizer.beta2 = real("beta2");
    c.optimizer.eps = real("eps");
    c.optimizer.weight_decay = real("weight_decay");
    c.optimizer.clip = real("clip");
    c.optimizer.steps = integer("steps");
    if (rule) c.optimizer = *rule;
    return c;
  }

  // Newer files hold the class's config.json, older ones a number for each setting.
  static model::ModelConfig model_of(const io::Hdf5File& file) {
    constexpr auto config_json = "config.json";
    const auto datasets = file.datasets();
    if (std::find(datasets.begin(), datasets.end(), config_json) != datasets.end()) {
      const Shape shape = file.describe(config_json).second;
      std::string text(static_cast<std::size_t>(shape.elements()), ' ');
      file.read_all(config_json, TensorView(text.data(), DType::u8, shape));
      model::ModelConfig m = convert::parse_folder_config(text, config_json).model;
      m.sequence = file.integer_attribute("/", "sequence");
      return m;
    }
    const auto integer = [&](const char* key) {
      return file.integer_attribute("/", key);
    };
    model::ModelConfig m;
    m.architecture = model::architecture_named(file.text_attribute("/", "architecture"));
    if (m.has_experts()) {
      m.moe.experts = integer("experts");
      m.moe.top_k = integer("top_k");
    }
    m.layers = integer("layers");
    m.hidden = integer("hidden");
    m.heads = integer("heads");
    m.kv_heads = integer("kv_heads");
    if (m.row().qk_norm != nn::QkNorm::none) m.own_head_width = integer("head_width");
    m.feed_forward = integer("feed_forward");
    m.vocabulary = integer("vocabulary");
    m.sequence = integer("sequence");
    if (m.row().positions == model::Positions::rotary)
      m.rope_theta = read_reals(file, "config/rope_theta")[0];
    m.norm_eps = read_reals(file, "config/norm_eps")[0];
    m.tie_embeddings = integer("tie_embeddings") != 0;
    return m;
  }

  // |box - reference| / |whole reference|, L2.
  double relative_error(const optim::StateBox& box, const std::string& group) const {
    const std::string name = group + "/" + box.named->tensor;
    const Shape& extent = box.data.shape();
    std::vector<double> expected(static_cast<std::size_t>(extent.elements()));
    file.read(name, box.global_begin, TensorView(expected.data(), DType::f64, extent));
    // A vector is a matrix of one row.
    const bool vector = extent.rank() == 1;
    const TensorView actual = vector ? box.data.reshape({1, extent[0]}) : box.data;
    double difference = 0, norm = 0;
    for (std::int64_t i = 0; i < actual.dim(0); ++i)
      for (std::int64_t j = 0; j < actual.dim(1); ++j) {
        const auto at = static_cast<std::size_t>(i * actual.dim(1) + j);
        difference += std::pow(value_at(actual, i, j) - expected[at], 2);
      }
    for (const double x : read_reals(file, name)) norm += x * x;
    if (difference == 0) return 0;  // of an expert that no token chose there is nothing
    return std::sqrt(difference / norm);
  }

  std::vector<std::int32_t> input_tokens_, target_tokens_;
};

struct Case {
  std::string name;
  DType dtype;
  comm::Axis axis;
};
void PrintTo(const Case& c, std::ostream* out) {
  *out << c.name << " " << name_of(c.dtype) << " " << comm::name_of(c.axis);
}

class Reference : public testing::TestWithParam<Case> {
 protected:
  Reference()
      : tolerance(GetParam().dtype),
        model(GetParam().name, GetParam().dtype, GetParam().axis) {}

  std::set<std::string> all_tensors() const {
    std::set<std::string> names;
    const std::string folder = "weights/";
    for (const auto& name : model.file.datasets())
      if (name.starts_with(folder)) names.insert(name.substr(folder.size()));
    return names;
  }

  Tolerance tolerance;
  Model model;
};

TEST_P(Reference, LogitsAndLoss) {
  const auto expected = read_reals(model.file, "logits");
  double norm = 0;
  for (const double x : expected) norm += x * x;
  const std::int64_t V = model.config.model.vocabulary, T = model.rows();
  const Range columns = model.engine.stage().vocabulary_range();
  const std::int64_t begin = model.mesh.coordinate(comm::Axis::data) * T;
  std::int64_t rows = 0;
  double difference = 0;
  const auto each = [&](std::int64_t first, const TensorView& logits_CV) {
    ASSERT_GE(logits_CV.dim(1), columns.count());
    for (std::int64_t i = 0; i < logits_CV.dim(0); ++i, ++rows)
      for (std::int64_t v = 0; v < columns.count(); ++v) {
        const auto at = (begin + first + i) * V + columns.begin + v;
        difference += std::pow(
            value_at(logits_CV, i, v) - expected[static_cast<std::size_t>(at)], 2);
      }
  };
  const double sum = model.engine.evaluate(model.inputs.rows(begin, T),
                                           model.targets.rows(begin, T), each);
  EXPECT_EQ(rows, T);
  EXPECT_LE(std::sqrt(difference / norm), tolerance.once);
  const double loss = test::world().sum(sum) / model.config.parallel.mesh.tensor;
  const double reference = read_reals(model.file, "loss")[0];
  EXPECT_NEAR(loss / static_cast<double>(model.valid(model.targets)), reference,
              reference * tolerance.once);
}

TEST_P(Reference, EveryGradient) {
  std::set<std::string> seen;
  test::AtGradients observer([&](double) {
    const auto boxes = model.engine.store().gradient_boxes();
    seen = model.compare(boxes, "gradient", "gradients", tolerance.once);
  });
  const StepResult result = model.step(observer);
  const double reference = read_reals(model.file, "loss")[0];
  EXPECT_NEAR(result.loss, reference, reference * tolerance.once);
  if (model.config.parallel.mesh.tensor == 1) {
    EXPECT_EQ(seen, all_tensors());
  }
  const double norm = read_reals(model.file, "norms")[0];
  EXPECT_NEAR(result.gradient_norm, norm, norm * tolerance.once);
}

TEST_P(Reference, OneSgdStep) {
  auto rule = model.config.optimizer;
  rule.name = "sgd";
  rule.learning_rate = read_reals(model.file, "config/sgd_learning_rate")[0];
  rule.beta1 = 0;
  rule.weight_decay = 0;
  rule.clip = 0;
  Model by_sgd(GetParam().name, GetParam().dtype, GetParam().axis, rule);
  StepObserver nobody;
  by_sgd.step(nobody);
  by_sgd.compare(by_sgd.engine.store().state_boxes(), "model", "sgd_weights",
                 tolerance.once);
}

TEST_P(Reference, TenAdamWSteps) {
  const auto losses = read_reals(model.file, "losses");
  const auto norms = read_reals(model.file, "norms");
  StepObserver nobody;
  for (std::size_t step = 0; step < losses.size(); ++step) {
    const StepResult result = model.step(nobody, static_cast<std::int64_t>(step) + 1);
    EXPECT_NEAR(result.loss, losses[step], losses[step] * tolerance.ten_steps) << step;
    EXPECT_NEAR(result.gradient_norm, norms[step], norms[step] * tolerance.ten_steps)
        << step;
  }
  // In fp32 AdamW makes full steps of the rounding errors of gradients that are zero.
  if (GetParam().dtype != DType::f64) return;
  const auto seen =
      model.compare(model.engine.store().state_boxes(), "model", "final_weights",
                    tolerance.ten_steps, tolerance.zero_gradient);
  if (model.config.parallel.mesh.tensor == 1) {
    EXPECT_EQ(seen, all_tensors());
  }
}

// The weights of a file, as generation reads them.
class FileWeights final : public io::TensorSource {
 public:
  explicit FileWeights(const io::Hdf5File& file) : file_(file) {}
  void read(const std::string& path, const Shape& /*whole*/, const Shape& begin,
            const TensorView& out) const override {
    file_.read("weights" + path.substr(path.find('/')), begin, out);
  }

 private:
  const io::Hdf5File& file_;
};

// Text of a model whose layers keep a state, token by token from a prompt.
void expect_greedy_tokens(const std::string& name) {
  const Model model(name, DType::f64, comm::Axis::tensor);
  std::vector<std::int32_t> expected;
  read_tokens(model.file, "greedy", expected);
  const FileWeights weights(model.file);
  const auto positions = static_cast<std::int64_t>(expected.size());
  comm::Mesh mesh(test::world(), model.config.parallel.mesh);
  const infer::LoadedModel loaded(model.config.model, DType::f64,
                                  mesh.group(comm::Axis::tensor), positions, weights);
  infer::Generator generator(loaded, mesh.group(comm::Axis::pipeline), positions);
  std::vector<std::int32_t> text(expected.begin(), expected.begin() + 5);
  const std::vector<std::int32_t> prompt = text;
  generator.generate(prompt, 50, infer::Sampler({.temperature = 0}),
                     [&](std::int32_t token) {
                       text.push_back(token);
                       return true;
                     });
  EXPECT_EQ(text, expected);
}

TEST(ReferenceText, GreedyTokensAreThose) {
  for (const char* name : {"qwen3_5", "qwen3_5_moe"}) {
    SCOPED_TRACE(name);
    expect_greedy_tokens(name);
  }
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const char* name : {"llama_tied",    "llama_untied",
                           "gpt2_tied",     "gpt2_untied",
                           "mixtral",       "qwen2",
                           "qwen3",         "qwen3_window",
                           "qwen3_moe",     "qwen2_moe",
                           "qwen3_5",       "qwen3_5_moe",
                           "gemma",         "llama_bias",
                           "phi3",          "smollm3",
                           "deepseek_v2",   "deepseek_v2_bias",
                           "deepseek_v3",   "deepseek_v3_bias",
                           "glm4_moe",      "gemma2",
                           "gemma3",        "mistral",
                           "llama_dynamic", "olmo2",
                           "olmo3",         "gpt_neox",
                           "gpt_oss",       "gpt_neox_sequential"})
    for (const auto dtype : {DType::f64, DType::f32})
      for (const auto axis : {comm::Axis::data, comm::Axis::tensor})
        cases.push_back({name, dtype, axis});
  return cases;
}
INSTANTIATE_TEST_SUITE_P(AllModels, Reference, testing::ValuesIn(all_cases()));

}  // namespace
}  // namespace trireme::engine
