// FP8 codes of weights that are made once a step give the bits of codes made anew.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/runtime/profile.hpp"
#include "plan/plan.hpp"
#include "ranks/equality.hpp"
#include "support/ledger.hpp"
#include "support/step.hpp"

namespace trireme::test {
namespace {

std::string ranks() { return std::to_string(world().size()); }

// Four microbatches a step on each data rank. Widths suit blocks of every scaling, on
// each tensor rank.
config::RunConfig config_of(const std::string& recipe, const Words& words, bool keep) {
  const Words history =
      recipe == "te_delayed" ? Words{"precision.amax_history=8"} : Words{};
  return equality_config(
      "llama", "fp8",
      Words{"model.hidden=64", "model.feed_forward=64", "model.heads=2",
            "model.kv_heads=2", "model.sequence=64", "model.layers=2",
            "precision.compute=fp8", "precision.recipe=" + recipe,
            "precision.report_every=2",
            "batch.global=" + std::to_string(4 * world().size()), "batch.micro=1",
            std::string("precision.keep_weight_codes=") + (keep ? "true" : "false")} +
          history + words);
}

std::int64_t quantized() {
  for (const auto& entry : kernels::profile())
    if (entry.name == "quantize") return entry.calls;
  return 0;
}

// Three steps with an evaluation after each, whose losses come with those of the steps.
struct Trained {
  Outcome outcome;
  std::vector<double> losses;
  std::int64_t quantized = 0;  // calls of kernels
};

Trained trained(const config::RunConfig& config) {
  Trained result;
  comm::Mesh mesh = test_mesh(config);
  result.outcome = train_steps(config, mesh, 2);
  engine::Engine engine(config, mesh, mesh.device());
  engine.store().initialize(7);
  engine::StepObserver nobody;
  const auto positions = static_cast<std::int64_t>(engine.positions().size());
  const Buffer ids(Device::host(), DType::i32, {config.batch.micro * positions},
                   MemoryClass::data, "ids");
  for (std::size_t i = 0; i < ids.view().span<std::int32_t>().size(); ++i)
    ids.view().span<std::int32_t>()[i] = static_cast<std::int32_t>(i % 7);
  kernels::reset_profile();
  for (int step = 1; step <= 3; ++step) {
    result.losses.push_back(engine.evaluate(ids.view(), ids.view()));
    result.losses.push_back(step_of(engine, config, mesh, nobody, step).loss);
    result.losses.push_back(engine.evaluate(ids.view(), ids.view()));
  }
  result.quantized = quantized();
  return result;
}

class WeightCodes : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Recipes, WeightCodes,
                         testing::Values("te_delayed", "te_current", "te_blocks",
                                         "mxfp8"));

TEST_P(WeightCodes, GiveTheSameBits) {
  for (const Words& mesh : {Words{"parallel.sharding_strategy=ZERO1"},
                            Words{"parallel.tensor=" + ranks(), "parallel.sequence=true"},
                            Words{"parallel.pipeline=" + ranks(),
                                  "parallel.schedule=zb_h1", "recompute.policy=full"}}) {
    SCOPED_TRACE(mesh.front());
    const Trained kept = trained(config_of(GetParam(), mesh, true));
    const Trained anew = trained(config_of(GetParam(), mesh, false));
    expect_same_bits(kept.outcome, anew.outcome);
    EXPECT_TRUE(same_bits(kept.losses, anew.losses));
    EXPECT_LT(kept.quantized, anew.quantized);
  }
}

TEST_P(WeightCodes, TakeTheMemoryThatIsPlanned) {
  const auto config = config_of(GetParam(), {"parallel.sharding_strategy=ZERO1"}, true);
  const Bytes before = ledger();
  {
    comm::Mesh mesh = test_mesh(config);
    const engine::Engine engine(config, mesh, mesh.device());
    const Bytes held = minus(ledger(), before);
    comm::Mesh planned =
        comm::Mesh::meta(mesh.shape(), mesh.rank(), mesh.folding(), mesh.device());
    engine::Engine meta(config, planned, Device::meta());
    EXPECT_EQ(engine.workspace_bytes(), meta.workspace_bytes());
    const auto workspace = static_cast<std::size_t>(MemoryClass::workspace);
    EXPECT_GE(held[workspace], static_cast<std::int64_t>(meta.workspace_bytes()));
    const auto without =
        config_of(GetParam(), {"parallel.sharding_strategy=ZERO1"}, false);
    engine::Engine less(without, planned, Device::meta());
    // Four matrices a block: q, k and v, the output, gate and up, down.
    const std::size_t elements = 2 * 64 * (3 * 64 + 64 + 2 * 64 + 64);
    EXPECT_GE(meta.stage().table_bytes() - less.stage().table_bytes(), 2 * elements);
  }
}

}  // namespace
}  // namespace trireme::test
