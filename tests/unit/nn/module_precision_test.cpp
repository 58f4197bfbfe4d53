// Every module in every recipe against itself in fp64, forward and backward.
// SPDX-License-Identifier: Apache-2.0
// It is wrong by no more than the roundings on the way make it.
#include <gtest/gtest.h>

#include <map>
#include <optional>

#include "comm/mesh.hpp"
#include "nn/attention.hpp"
#include "nn/embedding.hpp"
#include "nn/fp8_state.hpp"
#include "nn/head.hpp"
#include "nn/mlp.hpp"
#include "nn/moe.hpp"
#include "parallel/expert_dispatch.hpp"
#include "unit/kernels/elementwise_tensors.hpp"

namespace trireme::nn {
namespace {

using test::Tensor;
using test::Vector;

constexpr std::int64_t T = 64, D = 64, F = 96, V = 80;

// What a recipe means to a module: weights come to it in the type of activations, however
// they are kept.
struct Types {
  std::string_view name;
  DType activation;
  LinearPrecision products;
};
constexpr Types fp64{"fp64", DType::f64, {}};

Types types_of(std::string_view name) {
  const Recipe& recipe = recipe_named(name);
  Types types{name, recipe[TensorClass::activation].type, {}};
  if (recipe.fp8())
    types.products = {recipe[TensorClass::forward_operand],
                      recipe[TensorClass::backward_operand], false};
  return types;
}

// Half the spacing of a type's numbers, relative to them.
double half_spacing(DType type) {
  switch (type) {
    case DType::bf16: return 0x1p-8;
    case DType::f16: return 0x1p-11;
    case DType::e4m3: return 0x1p-4;
    case DType::e5m2: return 0x1p-3;
    default: return 0x1p-24;
  }
}

// How many roundings lie on the longest way to a result: of operands of FP8 products as
// forward and as backward makes them, and of activations.
struct Roundings {
  int forward = 0, backward = 0, activation = 0;
};

// A rounding to nearest has a relative root mean square of at most u / sqrt(3), as the
// error of a product has of each of its operands: for matrices of independent numbers
// |dA B| / |A B| = |dA| / |A|, as L2 norms go. Independent errors add up as squares. What
// lies between products (SwiGLU, GELU, softmax, norms) passes a relative error on with a
// factor of at most 2 on numbers of the size of 1, as here.
double limit(const Types& types, const Roundings& n) {
  const auto square = [](double u) { return u * u / 3; };
  double sum = n.activation * square(half_spacing(types.activation));
  if (types.products.fp8())
    sum += n.forward * square(half_spacing(types.products.forward.type)) +
           n.backward * square(half_spacing(types.products.backward.type));
  return 2 * std::sqrt(sum) + 1e-6;
}

// Numbers that bf16 has, and fp16 but for a few next to 0.
Tensor numbers(DType type, const Shape& shape, std::uint64_t seed, double size) {
  Tensor narrow = Tensor::normal(DType::bf16, shape, seed);
  Vector values = narrow.values();
  for (double& value : values) value *= size;
  narrow.set(values);
  return Tensor(type, shape, narrow.values());
}

using Results = std::map<std::string, Vector>;  // y, dx and gradients by name

// What a module needs to run alone, and its results.
struct Bench {
  explicit Bench(const Types& of)
      : types(of),
        saved(test::test_device(), 8 << 20, MemoryClass::activations, "saved"),
        scratch(test::test_device(), 8 << 20, MemoryClass::workspace, "scratch"),
        region(alone.group(comm::Axis::tensor), false) {}

  // Weights of size 1 / sqrt(width), so that activations stay of the size of 1; gains and
  // biases of size 1.
  void bind_weights(const std::vector<Param*>& all) {
    const DType sums = accumulator_of(types.activation);
    for (Param* param : all) {
      const bool matrix = param->shape.rank() == 2;
      const double size =
          matrix ? 1 / std::sqrt(static_cast<double>(param->shape[1])) : 1.0;
      weights.push_back(
          numbers(types.activation, param->shape, 100 + weights.size(), size));
      gradients.emplace_back(sums, param->shape);
      param->value = weights.back();
      param->gradient = gradients.back();
    }
    params = all;
  }
  template <class Module>
  void bind(Module& module) {
    std::vector<Param*> all;
    module.collect(all);
    bind_weights(all);
    std::vector<Fp8Operands*> layers;
    if constexpr (requires { module.collect(layers); }) module.collect(layers);
    if (layers.empty() || !layers.front()->precision().one_scale()) return;
    scales.emplace(layers, DelayedScaling{4, 0}, region, test::test_device());
    scales->begin_step(stream);
  }
  // Delayed scaling has a history from a first pass.
  template <class Once>
  Results run(const Once& once) {
    Results results = once();
    if (scales && scales->amaxes() > 0) {
      std::vector<float> amax(static_cast<std::size_t>(scales->amaxes()));
      const TensorView all(amax.data(), DType::f32, {scales->amaxes()});
      scales->bring(stream, all);
      stream.synchronize();
      scales->finish_step(stream, all);
      scales->begin_step(stream);
      for (const Tensor& gradient : gradients) kernels::fill(stream, gradient, 0.0);
      results = once();
    }
    for (std::size_t i = 0; i < params.size(); ++i)
      results["gradient of " + params[i]->name + " " + std::to_string(i)] =
          gradients[i].values();
    return results;
  }
  Pass pass() {
    saved.reset();
    return {stream, saved, scratch, deliver, attention, {1, T}};
  }
  Tensor tensor(std::int64_t width) { return Tensor(types.activation, {T, width}); }
  Tensor input(std::uint64_t seed) { return numbers(types.activation, {T, D}, seed, 1); }

  Types types;
  Stream stream{test::test_device()};
  comm::Mesh alone = comm::Mesh::meta({}, 0);
  Arena saved, scratch;
  parallel::TensorRegion region;
  parallel::LocalAttention attention;
  WeightAccess access;
  WeightGradients deliver{access};
  std::vector<Tensor> weights, gradients;
  std::vector<Param*> params;
  std::optional<Fp8State> scales;
};

// y and dx of a module that joins the residual stream.
template <class Module>
Results branch(Bench& bench, Module& module) {
  const Tensor x = bench.input(1), dy = bench.input(2), zeros = bench.tensor(D);
  const Tensor y = bench.tensor(D);
  Results results;
  Pass pass = bench.pass();
  typename Module::Saved saved;
  module.forward(pass, x, {zeros, y}, saved);
  results["y"] = y.values();
  const ArenaScope scope(bench.scratch);
  const Tensor dx = bench.tensor(D);
  kernels::copy(bench.stream, module.backward(pass, dy, saved), dx);
  results["dx"] = dx.values();
  return results;
}

Results mlp(const Types& types, Activation activation) {
  Bench bench(types);
  MlpConfig config;
  config.hidden = D;
  config.feed_forward = F;
  config.activation = activation;
  config.bias = activation == Activation::gelu;
  config.gate = "gate";
  config.up = "up";
  config.down = "down";
  config.products = types.products;
  Mlp module(config, bench.region);
  bench.bind(module);
  return bench.run([&] { return branch(bench, module); });
}

Results llama_mlp(const Types& types) { return mlp(types, Activation::swiglu); }
Results gpt2_mlp(const Types& types) { return mlp(types, Activation::gelu); }
Results primer_mlp(const Types& types) { return mlp(types, Activation::relu2); }

Results attention(const Types& types) {
  Bench bench(types);
  AttentionConfig config;
  config.hidden = D;
  config.heads = 4;
  config.kv_heads = 2;
  config.head_width = D / 4;
  config.q = "q";
  config.k = "k";
  config.v = "v";
  config.output = "o";
  config.products = types.products;
  Attention module(config, bench.region, {});
  bench.bind(module);
  return bench.run([&] { return branch(bench, module); });
}

Results experts(const Types& types, Activation activation) {
  Bench bench(types);
  MoeConfig config;
  config.hidden = D;
  config.feed_forward = F;
  config.experts = 4;
  config.top_k = 2;
  config.shared_feed_forward = F;
  config.activation = activation;
  config.router_name = "router";
  config.expert_name = "experts";
  config.shared_name = "shared";
  config.expert_names = config.shared_names = {"gate", "up", "down"};
  config.products = types.products;
  Moe module(config, bench.region, {}, types.activation, test::test_device());
  bench.bind(module);
  return bench.run([&] { return branch(bench, module); });
}

Results mixtral(const Types& types) { return experts(types, Activation::swiglu); }
Results relu2_experts(const Types& types) { return experts(types, Activation::relu2); }
Results gelu_experts(const Types& types) { return experts(types, Activation::gelu); }

Results norm(const Types& types) {
  Bench bench(types);
  Norm module({.kind = NormKind::layer, .hidden = D, .eps = 1e-5, .name = "norm"},
              bench.region);
  bench.bind(module);
  const Tensor x = bench.input(1), dy = bench.input(2), y = bench.tensor(D),
               dx = bench.tensor(D);
  return bench.run([&] {
    Pass pass = bench.pass();
    Norm::Saved saved;
    module.forward(pass, x, y, saved);
    module.backward(pass, dy, saved, {}, dx);
    return Results{{"y", y.values()}, {"dx", dx.values()}};
  });
}

std::int64_t token(std::uint64_t seed, std::int64_t place) {
  return static_cast<std::int64_t>(
      Random(seed, 1).below(static_cast<std::uint64_t>(place), V));
}

Tensor ids(std::uint64_t seed) {
  Tensor ids(DType::i32, {T});
  std::vector<std::int32_t> values(static_cast<std::size_t>(T));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<std::int32_t>(token(seed, static_cast<std::int64_t>(i)));
  Stream stream(test::test_device());
  copy_bytes(stream, TensorView(values.data(), DType::i32, {T}), ids);
  return ids;
}

Results embedding_with(const Types& types, std::int64_t pad_token) {
  Bench bench(types);
  EmbeddingConfig config;
  config.pad_token = pad_token;
  config.vocabulary = V;
  config.hidden = D;
  config.tokens = "table";
  Embedding module(config, bench.region);
  bench.bind(module);
  const Tensor tokens = ids(3), dy = bench.input(2), y = bench.tensor(D);
  return bench.run([&] {
    Pass pass = bench.pass();
    Embedding::Saved saved;
    module.forward(pass, tokens, y, saved);
    module.backward(pass, dy, saved);
    return Results{{"y", y.values()}};
  });
}

Results embedding(const Types& types) { return embedding_with(types, -1); }

Results head_with(const Types& types, bool in_compute_type) {
  Bench bench(types);
  HeadConfig config;
  config.chunks.in_compute_type = in_compute_type;
  config.norm = {.kind = NormKind::rms, .hidden = D, .eps = 1e-5, .name = "norm"};
  config.vocabulary = V;
  config.hidden = D;
  config.name = "head";
  Head module(config, bench.region, nullptr);
  bench.bind(module);
  const Tensor x = bench.input(1), targets = ids(4), loss(DType::f64, {1});
  return bench.run([&] {
    kernels::fill(bench.stream, loss, 0.0);
    Pass pass = bench.pass();
    pass.losses.loss_1 = loss;
    Head::Saved saved;
    module.forward(pass, x, targets, 1.0, saved);
    const Tensor dx = bench.tensor(D);
    kernels::copy(bench.stream, saved.dx_TD, dx);
    return Results{{"y", loss.values()}, {"dx", dx.values()}};
  });
}

Results head(const Types& types) { return head_with(types, false); }
Results narrow_head(const Types& types) { return head_with(types, true); }

// Roundings on the longest way: to y, and to dx and the gradients of weights.
struct Row {
  const char* module;
  Results (*run)(const Types&);
  Roundings forward, backward;
};

const Row rows[] = {
    // y: x, W up (the gate and its factor both err: twice), a, W down; u, u, a, y, sum.
    // dx: dy, W down; u as above, twice in the derivative; du, W up; da, du, dx.
    {"MLP, SwiGLU", llama_mlp, {6, 0, 5}, {10, 2, 8}},
    // The same without a factor.
    {"MLP, GELU", gpt2_mlp, {4, 0, 5}, {6, 2, 6}},
    // A square errs twice as its root does.
    {"MLP, relu squared", primer_mlp, {6, 0, 5}, {10, 2, 8}},
    // y: x, W, which q, k and v are made of (three ways); o, W; q, k, v, o, y, sum.
    // dx: dy, W; the derivative of the core by each of q, k, v and o, all as above;
    // dqkv, W; do, dqkv, dx.
    {"attention", attention, {8, 0, 6}, {12, 2, 10}},
    // As the MLP; the router's choice is the same.
    {"experts", mixtral, {6, 0, 7}, {10, 2, 12}},
    {"experts, relu squared", relu2_experts, {6, 0, 7}, {10, 2, 12}},
    {"experts, GELU", gelu_experts, {4, 0, 7}, {6, 2, 10}},
    {"norm", norm, {0, 0, 1}, {0, 0, 1}},
    {"embedding", embedding, {0, 0, 1}, {0, 0, 0}},
    // The loss: the norm's output. dx: that, logits' gradients, dh, dx.
    {"head", head, {0, 0, 1}, {0, 0, 4}},
    // The same, and the logits, in the loss and in the softmax of the gradient.
    {"head, logits in the compute type", narrow_head, {0, 0, 2}, {0, 0, 5}},
};

double relative(const Vector& a, const Vector& b) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    size += b[i] * b[i];
  }
  return std::sqrt(difference / size);
}

TEST(ModulePrecision, RoundingsBoundTheError) {
  for (const Row& row : rows) {
    const Results exact = row.run(fp64);
    for (const char* recipe : {"fp32", "bf16", "bf16_autocast", "fp16", "te_delayed",
                               "te_current", "te_blocks", "mxfp8"}) {
      SCOPED_TRACE(std::string(row.module) + " in " + recipe);
      const Types types = types_of(recipe);
      const Results got = row.run(types);
      ASSERT_EQ(got.size(), exact.size());
      for (const auto& [name, values] : exact) {
        const double error = relative(got.at(name), values);
        const double most = limit(types, name == "y" ? row.forward : row.backward);
        EXPECT_LE(error, most) << name;
        // Nor do operands of FP8 stay wide.
        const bool fp8 = types.products.fp8() && row.forward.forward > 0 &&
                         (name == "y" || name == "dx");
        EXPECT_TRUE(!fp8 || error > most / 10) << name << ": " << error;
      }
    }
  }
}

// Logits in the type of activations are other numbers, and another loss; where that type
// is its own accumulator they are the same.
TEST(ModulePrecision, SeesTheTypeOfLogits) {
  for (const char* recipe : {"bf16", "fp16"})
    EXPECT_NE(head(types_of(recipe)), narrow_head(types_of(recipe))) << recipe;
  EXPECT_EQ(head(types_of("fp32")), narrow_head(types_of("fp32")));
}

// The row of the padding token alone; what is looked up stays the same.
TEST(EmbeddingModule, APaddingTokenHasNoGradient) {
  const Results all = embedding_with(fp64, -1);
  const std::string table = "gradient of table.weight 0";
  for (const std::int64_t pad : {token(3, 0), token(3, 1), token(3, T - 1)}) {
    const Results some = embedding_with(fp64, pad);
    EXPECT_EQ(some.at("y"), all.at("y"));
    Vector expected = all.at(table);
    const auto row = expected.begin() + pad * D;
    EXPECT_TRUE(std::any_of(row, row + D, [](double x) { return x != 0; })) << pad;
    std::fill(row, row + D, 0.0);
    EXPECT_EQ(some.at(table), expected) << pad;
  }
}

// Gradients in E5M2, with one bit less, are worse than in E4M3: what is compared depends
// on the types.
TEST(ModulePrecision, SeesTheTypeOfGradients) {
  for (const Row& row : rows) {
    if (row.backward.backward == 0) continue;
    const Types coarse = types_of("te_current");
    Types fine = coarse;
    fine.products.backward.type = DType::e4m3;
    const Vector exact = row.run(fp64).at("dx");
    EXPECT_GT(relative(row.run(coarse).at("dx"), exact),
              1.1 * relative(row.run(fine).at("dx"), exact))
        << row.module;
  }
}

}  // namespace
}  // namespace trireme::nn
