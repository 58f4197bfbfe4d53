// A mixture of experts on every data, expert, context and tensor split equals one rank.
// SPDX-License-Identifier: Apache-2.0
// Output, input gradient, every weight gradient, losses and load are compared; also with
// all tokens on one expert, or unused experts; memory never exceeds what was measured.
#include "ranks/moe_mesh.hpp"

namespace trireme::test {
namespace {

void compare(const nn::MoeConfig& config, Change change) {
  comm::Mesh alone = comm::Mesh::meta({}, 0);
  const Outcome one = run(config, alone, {}, change);
  for_each_split(config, [&](const Split& split, comm::Mesh& mesh) {
    expect_equal(run(config, mesh, split, change), one);
  });
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
                   TensorView(ones.data(), DType::f64, {T, 1}), kernels::Accumulate::no,
                   TensorView(y.data(), DType::f64, {T, 1}));
  x[3] = 0;
  EXPECT_EQ(y, x);
}

}  // namespace
}  // namespace trireme::test
