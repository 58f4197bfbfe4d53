// What a tensor rank computes while its collectives are under way.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "base/philox.hpp"
#include "comm/trace.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/runtime/profile.hpp"
#include "support/tiny_model.hpp"

namespace trireme {
namespace {

using comm::Collective;

constexpr std::int64_t S = 8;

std::int64_t calls_of(const std::string& family) {
  for (const auto& entry : kernels::profile())
    if (entry.name == family) return entry.calls;
  return 0;
}

// What ran between the start of a collective and the wait for it.
struct Flight {
  Collective kind;
  std::int64_t weight_gradients = 0, attention = 0, activation = 0, products = 0;
};

// The first of two tensor ranks; the other one is taken to have the same numbers.
class Twin final : public comm::Group {
 public:
  Twin() : Group("tensor", 0, 2) {}
  void progress() override {}
  void bound_staging(std::int64_t) override {}
  std::size_t staging_bytes() const override { return 0; }

  std::vector<Flight> flights;  // by their ends

 private:
  static Flight now(Collective kind) {
    return {kind, calls_of("gemm, weight gradient"), calls_of("attention"),
            calls_of("activation"), calls_of("gemm, forward")};
  }

  class Operation final : public comm::Handle::Operation {
   public:
    Operation(Twin& group, Collective kind) : group_(group), begin_(now(kind)) {}
    bool progress() override { return true; }
    void wait() override {
      Flight flight = now(begin_.kind);
      flight.weight_gradients -= begin_.weight_gradients;
      flight.attention -= begin_.attention;
      flight.activation -= begin_.activation;
      flight.products -= begin_.products;
      group_.flights.push_back(flight);
    }
    void abandon() noexcept override {}

   private:
    Twin& group_;
    Flight begin_;
  };

  comm::Handle start(const Call& call, Stream& stream, const TensorView& from,
                     const TensorView& to) override {
    comm::trace().end(call.trace);
    if (call.kind == Collective::all_gather) {
      for (std::int64_t part = 0; part < 2; ++part)
        kernels::copy(stream, from, to.rows(part * from.dim(0), from.dim(0)));
    } else if (call.kind == Collective::reduce_scatter) {
      kernels::copy(stream, from.rows(0, to.dim(0)), to);
    }
    operations_.push_back(std::make_unique<Operation>(*this, call.kind));
    return comm::Handle(operations_.back().get());
  }

  std::vector<std::unique_ptr<Operation>> operations_;
};

model::ModelConfig tiny_llama() {
  return test::tiny_model(model::Architecture::llama, S);
}

// Layers of DeepSeek: projections down to small vectors and up again, no experts.
model::ModelConfig tiny_latent() {
  model::ModelConfig config = test::tiny_mixture(model::Architecture::deepseek_v2, S);
  config.moe.dense_layers = config.layers;
  config.kv_heads = config.heads;
  config.own_head_width = 10;
  config.rope_width = 4;
  config.attention.latent = {.width = 9, .query_width = 7, .value_width = 6};
  return config;
}

// Layers of experts, of which all tokens use one.
model::ModelConfig tiny_shared_expert() {
  model::ModelConfig config = test::tiny_mixture(model::Architecture::deepseek_moe, S);
  config.moe.dense_layers = 0;
  config.moe.shared_experts = 1;
  return config;
}

// The collectives of two blocks with their head. Each of the three modules that a rank
// holds columns of (attention, feed-forward, head) ends backward with a sum over the
// ranks.
struct Flights {
  std::vector<Flight> forward, backward;
};
Flights flights_of(const model::ModelConfig& model, bool sequence,
                   const nn::Recompute& recompute = {}, int chunks = 1) {
  Twin twin;
  const parallel::TensorRegion region(twin, sequence, chunks);
  model::StageConfig config{
      .model = model, .blocks = {0, 2}, .recompute = recompute, .recompute_layers = 2};
  config.model.feed_forward = 24;
  model::Stage stage(config, region, Device::host());
  std::vector<Buffer> memory;
  Stream stream;
  const auto take = [&](DType type, const Shape& shape, double value) {
    memory.emplace_back(Device::host(), type, shape, MemoryClass::workspace, "test");
    kernels::fill(stream, memory.back().view(), value);
    return memory.back().view();
  };
  for (Param* param : stage.parameters()) {
    param->value = take(DType::f32, param->shape, 0.01);
    param->gradient = take(DType::f32, param->shape, 0);
  }
  const auto take_ids = [&](std::int32_t value) {
    memory.emplace_back(Device::host(), DType::i32, Shape{S}, MemoryClass::data, "ids");
    for (std::int32_t& id : memory.back().view().span<std::int32_t>()) id = value;
    return memory.back().view();
  };
  const TensorView ids_T = take_ids(1), positions_T = take_ids(0);
  Arena saved(Device::host(), 1 << 20, MemoryClass::activations, "saved");
  Arena scratch(Device::host(), 1 << 20, MemoryClass::activations, "scratch");
  WeightAccess in_place;
  nn::WeightGradients gradients(in_place);
  parallel::LocalAttention attention;
  nn::Pass pass{stream,
                saved,
                scratch,
                gradients,
                attention,
                {1, S, positions_T},
                {take(DType::f64, {1}, 0)}};
  pass.recompute = recompute;
  auto views = stage.make_saved();
  const TensorView y_TD = stage.forward(pass, ids_T, views);
  Flights all;
  all.forward.swap(twin.flights);
  stage.loss(pass, ids_T, 1.0, views);
  stage.backward(pass, y_TD, {}, views);
  all.backward.swap(twin.flights);
  return all;
}

// Beside the sums of input gradients run the products of weight gradients, in attention,
// feed-forward and head: so in five of a model of two blocks. Without sequence
// parallelism these are the only collectives of backward.
TEST(Overlap, WeightGradientsRunBesideTheSumsOfInputGradients) {
  for (const bool sequence : {false, true}) {
    const Collective sum = sequence ? Collective::reduce_scatter : Collective::all_reduce;
    int sums = 0;
    for (const Flight& flight : flights_of(tiny_llama(), sequence).backward) {
      if (flight.kind != sum) continue;
      EXPECT_EQ(flight.weight_gradients, 1);
      ++sums;
    }
    EXPECT_EQ(sums, 2 * 2 + 1) << sequence;
  }
}

// Latent attention has four of them: of the queries and of the latent vector, down and
// up.
TEST(Overlap, WeightGradientsOfLatentAttentionRunBesideTheirSum) {
  for (const bool sequence : {false, true}) {
    const Collective sum = sequence ? Collective::reduce_scatter : Collective::all_reduce;
    int with_four = 0;
    for (const Flight& flight : flights_of(tiny_latent(), sequence).backward)
      with_four += flight.kind == sum && flight.weight_gradients == 4 ? 1 : 0;
    EXPECT_EQ(with_four, 2) << sequence;
  }
}

// With sequence parallelism backward gathers the inputs of attention and feed-forward
// once more, for weight gradients: beside the products before those.
TEST(Overlap, ProductsRunBesideTheGatherOfInputs) {
  int with_products = 0;
  for (const Flight& flight : flights_of(tiny_llama(), true).backward) {
    if (flight.kind != Collective::all_gather) continue;
    with_products += flight.weight_gradients > 0 ? 1 : 0;
  }
  EXPECT_EQ(with_products, 2 * 2);
}

// Forward multiplies a rank's own rows while those of others come, where products are
// cut: for the first product of attention and feed-forward, the two projections down of
// latent attention, and the shared expert's first product. The head's gather has nothing
// beside it: all ranks work at the logits of the same tokens.
TEST(Overlap, ProductsOfOwnRowsRunBesideTheGatherOfOthers) {
  const auto beside_gathers = [](const model::ModelConfig& model, int chunks) {
    std::int64_t products = 0;
    for (const Flight& flight : flights_of(model, true, {}, chunks).forward)
      if (flight.kind == Collective::all_gather) products += flight.products;
    return products;
  };
  constexpr int blocks = 2;
  for (const int chunks : {1, 2}) {
    const int cut = chunks == 1 ? 0 : 1;
    EXPECT_EQ(beside_gathers(tiny_llama(), chunks), cut * blocks * 2);
    EXPECT_EQ(beside_gathers(tiny_latent(), chunks), cut * blocks * (2 + 1));
    EXPECT_EQ(beside_gathers(tiny_shared_expert(), chunks), cut * blocks * (1 + 1));
  }
}

// What backward computes again does not need the gradient of the output, whose gather
// goes on beside it. The gathers of inputs have attention's backward beside them, and the
// activation.
TEST(Overlap, RecomputationRunsBesideTheGatherOfGradients) {
  int attention = 0, activation = 0;
  for (const Flight& flight :
       flights_of(tiny_llama(), true, {.attention = true, .activation = true}).backward) {
    if (flight.kind != Collective::all_gather) continue;
    attention += flight.attention > 0 ? 1 : 0;
    activation += flight.activation > 0 ? 1 : 0;
  }
  EXPECT_EQ(attention, 2 + 2);
  EXPECT_EQ(activation, 2 + 2);
}

}  // namespace
}  // namespace trireme
