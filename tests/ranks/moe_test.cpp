// A mixture of experts on every data, expert, context and tensor split equals one rank.
// SPDX-License-Identifier: Apache-2.0
// Output, input gradient, every weight gradient, losses and load are compared; also with
// all tokens on one expert, or unused experts; memory never exceeds what was measured.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "comm/mesh.hpp"
#include "support/world.hpp"
#include "unit/nn/moe_case.hpp"

namespace trireme::test {
namespace {

using kernels::RouterScore;

constexpr std::int64_t B = 12, S = 4;  // of the global batch, in one microbatch
constexpr std::int64_t E = 12;         // divisible by 1, 2, 3 and 4

struct Outcome {
  Values y, dx, load;  // of all rows of the global batch
  Tensors gradients;
  double balance = 0, z = 0;
  double rows = 0;  // that all experts got
};

void sum_over(comm::Group& group, Values& values) {
  Stream stream;
  const auto n = static_cast<std::int64_t>(values.size());
  group.all_reduce(stream, TensorView(values.data(), DType::f64, {n})).wait();
}

// What is done to the case before it runs.
using Change = void (*)(MoeCase&);
void nothing(MoeCase&) {}
// Scores are equal, so that expert 0 (and 1, ... with larger top_k) gets every token.
void one_expert(MoeCase& c) {
  Stream stream;
  kernels::fill(stream, c.params.front()->value, 0.0);
}
void last_expert(MoeCase& c) {
  std::vector<StateTensor*> states;
  c.moe.collect(states);
  states.at(0)->value.data<double>()[E - 1] = 9;
}
// Even experts only.
void half_of_the_experts(MoeCase& c) {
  std::vector<StateTensor*> states;
  c.moe.collect(states);
  for (std::int64_t e = 0; e < E; ++e) states.at(0)->value.data<double>()[e] = e % 2 * -9;
}

// How the ranks of a mesh are used. Experts lie on data or context; what is left of data
// x context holds copies.
struct Split {
  comm::MeshShape shape;
  comm::Axis expert = comm::Axis::data;
  bool context_parts = false;  // context cuts sequences (else it is more of data)
  bool sequence = false;       // sequence parallelism on the tensor axis
};

Outcome run(const nn::MoeConfig& config, comm::Mesh& mesh, const Split& split,
            Change change, int microbatches = 2) {
  const parallel::TensorRegion region(mesh.group(comm::Axis::tensor), split.sequence);
  parallel::ExpertAxes axes{parallel::ExpertDispatch(mesh.group(split.expert)), {}};
  Piece piece{0, B, 0, 1};
  const int data = mesh.coordinate(comm::Axis::data);
  const int context = mesh.coordinate(comm::Axis::context);
  piece.batch = B / mesh.shape().data;
  if (split.context_parts) {
    axes.sequence_sum = parallel::SequenceSum(mesh.group(comm::Axis::context));
    piece.part = context;
    piece.parts = mesh.shape().context;
    piece.first = data * piece.batch;
  } else {
    piece.batch /= mesh.shape().context;
    piece.first = (data * mesh.shape().context + context) * piece.batch;
  }
  MoeCase c(config, region, axes, DType::f64, S, piece, B);
  change(c);
  for (int m = 0; m < microbatches; ++m) {  // the same one: gradients double
    c.forward();
    c.backward();
  }
  Outcome out;
  const auto D = static_cast<std::size_t>(config.hidden);
  const auto spread = [&](const TensorView& view) {
    Values all(static_cast<std::size_t>(B * S) * D);
    const Values mine = MoeCase::values(view);
    for (std::size_t i = 0; i < mine.size(); ++i) {
      const auto row = c.global_row(static_cast<std::int64_t>(i / D));
      all[static_cast<std::size_t>(row) * D + i % D] = mine[i];
    }
    sum_over(mesh.everyone(), all);
    // Without sequence parallelism every rank of the tensor axis has all rows.
    if (!split.sequence)
      for (double& v : all) v /= mesh.shape().tensor;
    return all;
  };
  out.y = spread(c.y);
  out.dx = spread(c.dx);
  out.load = MoeCase::values(c.moe.load());
  Values sums = MoeCase::values(c.moe.losses());
  sums.push_back(static_cast<double>(c.views.route.rows));
  sum_over(mesh.replicas(), out.load);
  sum_over(mesh.replicas(), sums);
  out.balance = sums[0];
  out.z = sums[1];
  out.rows = sums[2];
  // A tensor that this rank has no box of is zeros: those of all experts are listed.
  const auto resize = [&](const std::string& name, std::int64_t outputs) {
    out.gradients[name + ".weight"].resize(
        static_cast<std::size_t>(config.hidden * config.feed_forward));
    if (config.expert_names.biases)
      out.gradients[name + ".bias"].resize(static_cast<std::size_t>(outputs));
  };
  for (std::int64_t e = 0; e < config.experts; ++e)
    for (const std::string name : {"w1", "w3", "w2"})
      if (name != "w1" || kernels::row_of(config.activation).gated)
        resize(format("moe.experts.{}.{}", e, name),
               name == "w2" ? config.hidden : config.feed_forward);
  for (auto& [name, gradient] : c.gradients()) out.gradients[name] = gradient;
  for (auto& [name, gradient] : out.gradients) sum_over(mesh.everyone(), gradient);
  return out;
}

double relative(const Values& a, const Values& b) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    size += b[i] * b[i];
  }
  return std::sqrt(difference) / std::sqrt(std::max(size, 1e-300));
}

// EQ64 of the design, but for the load, which is counted.
void expect_equal(const Outcome& many, const Outcome& one) {
  EXPECT_LE(relative(many.y, one.y), 1e-10);
  EXPECT_LE(relative(many.dx, one.dx), 1e-10);
  ASSERT_EQ(many.gradients.size(), one.gradients.size());
  for (const auto& [name, gradient] : one.gradients)
    EXPECT_LE(relative(many.gradients.at(name), gradient), 1e-10) << name;
  EXPECT_EQ(many.load, one.load);
  EXPECT_EQ(many.rows, one.rows);
  EXPECT_NEAR(many.balance, one.balance, 1e-12);
  EXPECT_NEAR(many.z, one.z, 1e-12);
}

std::vector<Split> splits(int ranks) {
  using comm::Axis;
  std::vector<Split> all;
  for (int tensor = 1; tensor <= ranks; ++tensor) {
    if (ranks % tensor != 0) continue;
    const int rest = ranks / tensor;
    for (int data = 1; data <= rest; ++data) {
      if (rest % data != 0) continue;
      const comm::MeshShape shape{.data = data, .context = rest / data, .tensor = tensor};
      for (const auto expert : {Axis::data, Axis::context})
        for (const bool parts : {false, true})
          for (const bool sequence : {false, true})
            if (S % shape.context == 0 || !parts)
              all.push_back({shape, expert, parts, sequence});
    }
  }
  return all;
}

void compare(const nn::MoeConfig& config, Change change) {
  comm::World& world = test::world();
  comm::Mesh alone = comm::Mesh::meta({}, 0);
  const Outcome one = run(config, alone, {}, change);
  for (const Split& split : splits(world.size())) {
    if (config.capacity_factor > 0 && split.context_parts && split.shape.context > 1)
      continue;
    SCOPED_TRACE(format("data {} context {} tensor {}, experts on {}, {} {}",
                        split.shape.data, split.shape.context, split.shape.tensor,
                        comm::name_of(split.expert),
                        split.context_parts ? "context parts" : "whole sequences",
                        split.sequence ? "sequence parallel" : ""));
    comm::Mesh mesh(world, split.shape);
    expect_equal(run(config, mesh, split, change), one);
  }
}

nn::MoeConfig full_config() {
  auto config = moe_config(E, 3);
  config.router = RouterScore::sigmoid;
  config.shared_feed_forward = 5;
  config.choice_bias = true;
  config.aux_loss = 0.3;
  config.z_loss = 0.2;
  return config;
}

TEST(MoeRanks, Mixtral) {
  auto config = moe_config(E, 2);
  config.aux_loss = 0.5;
  compare(config, nothing);
}
TEST(MoeRanks, EveryActivation) {
  for (std::size_t i = 0; i < kernels::activations.size(); ++i) {
    SCOPED_TRACE(kernels::activations[i].name);
    auto config = moe_config(E, 2);
    config.activation = static_cast<kernels::Activation>(i);
    config.shared_feed_forward = 5;
    compare(config, nothing);
  }
}
TEST(MoeRanks, Biases) {
  auto config = moe_config(E, 2);
  config.activation = kernels::Activation::clamped_swiglu;
  config.expert_names.biases = true;
  config.z_loss = 0.2;
  compare(config, nothing);
}
TEST(MoeRanks, SigmoidWithSharedExpertAndAllLosses) { compare(full_config(), nothing); }
TEST(MoeRanks, AllTokensToOneExpert) {
  auto config = moe_config(E, 1);
  config.normalise = false;  // else the one weight is 1, and the router has no gradient
  compare(config, one_expert);
  config.choice_bias = true;
  compare(config, last_expert);
}
TEST(MoeRanks, ExpertsThatNobodyChooses) { compare(full_config(), half_of_the_experts); }
TEST(MoeRanks, Capacity) {
  auto config = moe_config(E, 2);
  config.capacity_factor = 0.8;
  config.aux_loss = 0.5;
  compare(config, nothing);
}

// What the store needs to know: it sums the router's gradient over the tensor axis, and
// keeps an expert's apart from those of other ranks of the expert axis.
TEST(MoeRanks, ParamsSayHowTheyLie) {
  comm::World& world = test::world();
  comm::Mesh mesh(world, {.tensor = world.size()});
  for (const bool sequence : {false, true}) {
    const parallel::TensorRegion region(mesh.group(comm::Axis::tensor), sequence);
    nn::Moe moe(full_config(), region, {}, DType::f64, Device::meta());
    std::vector<Param*> params;
    moe.collect(params);
    ASSERT_EQ(params.size(), 5u);
    for (const Param* param : params)
      for (const NamedBox& named : param->boxes) {
        const bool router = named.tensor == "moe.gate.weight";
        EXPECT_EQ(param->expert, named.tensor.starts_with("moe.experts"));
        EXPECT_EQ(named.place,
                  router && world.size() > 1 ? Place::replicate : Place::varying);
        EXPECT_EQ(named.owned, !router || world.rank() == 0);
      }
  }
}

// With two experts on a rank and all tokens choosing them, rank 0 gets exactly what the
// meta device measured, and the arena (of that size) holds it.
TEST(MoeRanks, TheWorstCaseIsWhatIsMeasured) {
  comm::World& world = test::world();
  const int P = world.size();
  const comm::MeshShape shape{.data = P};
  comm::Mesh mesh(world, shape);
  const parallel::TensorRegion region(mesh.group(comm::Axis::tensor), false);
  const parallel::ExpertDispatch dispatch(mesh.group(comm::Axis::data));
  Stream meta(Device::meta()), host;
  Arena planned(Device::meta(), 0, MemoryClass::activations, "planned");
  const std::int64_t T = 8, K = 2;
  const TensorView choice(nullptr, DType::i32, {T, K}, Device::meta());
  const auto route = dispatch.route(meta, planned, choice, 2 * P, T);
  EXPECT_EQ(route.rows, T * P * K);  // two experts here, two choices of each token
  EXPECT_EQ(route.leaving, T * K);
  std::vector<std::int32_t> all(static_cast<std::size_t>(T * K));
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::int32_t>(i % 2);
  Arena arena(Device::host(), planned.peak_bytes(), MemoryClass::activations, "real");
  const auto real =
      dispatch.route(host, arena, TensorView(all.data(), DType::i32, {T, K}), 2 * P, T);
  EXPECT_EQ(real.rows, world.rank() == 0 ? T * P * K : 0);
  // With a capacity of 3 rows from a rank for an expert.
  planned.reset();
  EXPECT_EQ(dispatch.route(meta, planned, choice, 2 * P, 3).rows, P * 2 * 3);
}

// A planner reads traffic off a meta mesh: of an even load, (P - 1) / P of T K rows each
// way, for dispatch, combine and their backwards, and a count for each expert.
TEST(MoeRanks, TrafficIsPlannedForAnEvenLoad) {
  comm::Mesh mesh = comm::Mesh::meta({.data = 4}, 1);
  comm::Group& group = mesh.group(comm::Axis::data);
  const parallel::TensorRegion region(mesh.group(comm::Axis::tensor), false);
  const parallel::ExpertAxes axes{parallel::ExpertDispatch(group), {}};
  const auto config = moe_config(E, 2);
  nn::Moe moe(config, region, axes, DType::f32, Device::meta());
  std::vector<Param*> params;
  moe.collect(params);
  for (Param* param : params)
    param->value = param->gradient =
        TensorView(nullptr, DType::f32, param->shape, Device::meta());
  Stream stream(Device::meta());
  Arena arena(Device::meta(), 0, MemoryClass::activations, "saved");
  Arena scratch(Device::meta(), 0, MemoryClass::workspace, "scratch");
  WeightAccess in_place;
  nn::WeightGradients gradients(in_place);
  parallel::LocalAttention attention;
  nn::Pass pass{stream, arena, scratch, gradients, attention, {B / 4, S}};
  const std::int64_t T = pass.tokens();
  const TensorView x = arena.take(DType::f32, {T, config.hidden}, "x");
  nn::Moe::Saved saved;
  moe.forward(pass, x, {x, x}, saved);
  const std::int64_t one_way = T * 2 / 4 * 3 * config.hidden * 4, counts = E / 4 * 3 * 4;
  EXPECT_EQ(group.bytes_sent(), 2 * one_way + counts);
  moe.backward(pass, x, saved);
  EXPECT_EQ(group.bytes_sent(), 4 * one_way + counts);
}

// Rows arrive by expert, then source rank, then token; and come home as they left.
TEST(MoeRanks, RowsArriveInOrder) {
  comm::World& world = test::world();
  const int P = world.size();
  comm::Mesh mesh(world, {.data = P});
  const parallel::ExpertDispatch dispatch(mesh.group(comm::Axis::data));
  Stream stream;
  Arena arena(Device::host(), 1 << 20, MemoryClass::workspace, "test");
  const std::int64_t T = 5, experts = 2 * P;
  // Token t of rank p chooses expert (t + p) % experts, but for token 3, which is
  // dropped.
  std::vector<std::int32_t> choice;
  std::vector<double> x;
  for (int t = 0; t < T; ++t) {
    choice.push_back(t == 3 ? -1
                            : static_cast<std::int32_t>((t + world.rank()) % experts));
    x.push_back(100 * world.rank() + t);
  }
  const auto route = dispatch.route(
      stream, arena, TensorView(choice.data(), DType::i32, {T, 1}), experts, T);
  const TensorView rows = dispatch.dispatch(stream, arena, arena, route,
                                            TensorView(x.data(), DType::f64, {T, 1}));
  Values expected;
  for (int e = 2 * world.rank(); e < 2 * world.rank() + 2; ++e)
    for (int p = 0; p < P; ++p)
      for (int t = 0; t < T; ++t)
        if (t != 3 && (t + p) % experts == e) expected.push_back(100 * p + t);
  EXPECT_EQ(MoeCase::values(rows), expected);
  Values ones(T, 1.0), y(T);
  dispatch.combine(stream, arena, arena, route, rows,
                   TensorView(ones.data(), DType::f64, {T, 1}), false,
                   TensorView(y.data(), DType::f64, {T, 1}));
  x[3] = 0;
  EXPECT_EQ(y, x);
}

}  // namespace
}  // namespace trireme::test
