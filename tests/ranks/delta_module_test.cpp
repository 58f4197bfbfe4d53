// Gated DeltaNet on tensor ranks equals one rank; its gradients are differences.
// SPDX-License-Identifier: Apache-2.0
#include "comm/mesh.hpp"
#include "nn/gated_delta_net.hpp"
#include "ranks/module_case.hpp"

namespace trireme::test {
namespace {

using DeltaCase = ModuleCase<nn::GatedDeltaNet>;

// Twelve key heads divide among 1, 2, 3 and 4 ranks.
nn::GatedDeltaNetConfig config_of(std::int64_t sharing, std::int64_t taps = 4) {
  return {.hidden = DeltaCase::D,
          .key_heads = 12,
          .value_heads = 12 * sharing,
          .key_width = 4,
          .value_width = 3,
          .taps = taps,
          .qkv = "qkv",
          .z = "z",
          .b = "b",
          .a = "a",
          .conv = "conv",
          .decay = "decay",
          .bias = "bias",
          .norm = "norm",
          .output = "o"};
}

double element(const std::string& tensor, std::int64_t index, std::int64_t /*columns*/) {
  const Random random(11, hash_name(tensor));
  const double x = random.normal(static_cast<std::uint64_t>(index));
  return tensor == "norm.weight" ? 1 + 0.3 * x : 0.5 * x;
}

// Two sequences of one document, and of three and two.
std::vector<std::int32_t> documents() { return {0, 0, 2, 3, 3, 0, 0, 0, 0, 4}; }

struct Named {
  const char* name;
  nn::GatedDeltaNetConfig config;
  bool packed = false;
  nn::Recompute recompute{};
};

std::vector<Named> cases() {
  return {{"plain", config_of(1)},
          {"shared key heads", config_of(2)},
          {"one tap", config_of(1, 1)},
          {"documents", config_of(2), true},
          {"made again", config_of(2), true, {.attention = true}}};
}

template <class F>
void for_cases(const F& f) {
  std::vector<std::int32_t> starts = documents();
  const TensorView starts_T(starts.data(), DType::i32, {DeltaCase::T});
  for (const Named& each : cases()) {
    SCOPED_TRACE(each.name);
    const auto set = [&](DeltaCase& c) {
      if (each.packed) c.starts_T = starts_T;
      c.recompute = each.recompute;
    };
    f(each, set);
  }
}

TEST(DeltaModule, TensorRanksEqualOneRank) {
  comm::World& world = test::world();
  comm::Mesh mesh(world, {.tensor = world.size()});
  comm::Group& group = mesh.group(comm::Axis::tensor);
  for_cases([&](const Named& each, const auto& set) {
    DeltaCase one(element, each.config, parallel::TensorRegion::whole());
    const parallel::TensorRegion region(group, false);
    DeltaCase many(element, each.config, region);
    set(one);
    set(many);
    expect_ranks_equal_one(one, many, group);
  });
}

TEST(DeltaModule, GradientsAreDifferences) {
  if (test::world().rank() != 0) return;
  for_cases([](const Named& each, const auto& set) {
    DeltaCase c(element, each.config, parallel::TensorRegion::whole());
    set(c);
    expect_differences(c);
  });
}

// What a document gives is what it gives alone, at the beginning of a sequence.
TEST(DeltaModule, DocumentsDoNotMeet) {
  std::vector<std::int32_t> starts = documents();
  DeltaCase packed(element, config_of(2), parallel::TensorRegion::whole());
  packed.starts_T = TensorView(starts.data(), DType::i32, {DeltaCase::T});
  packed.run(false);
  const Values before = packed.y;
  constexpr auto D = static_cast<std::size_t>(DeltaCase::D);
  for (std::size_t i = 0; i < 3 * D; ++i) packed.x[i] += 1;  // the first two documents
  packed.run(false);
  for (std::size_t i = 0; i < before.size(); ++i)
    EXPECT_EQ(packed.y[i] == before[i], i >= 3 * D) << i;
}

}  // namespace
}  // namespace trireme::test
