// How large a chunk of logits is on GPUs: a share of their memory.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "config/deck_table.hpp"
#include "engine/rank_model.hpp"
#include "plan/plan.hpp"

namespace trireme::plan {
namespace {

constexpr std::int64_t mebi = std::int64_t{1} << 20;

config::RunConfig deck(const std::vector<std::string>& overrides = {}) {
  const std::string text = R"(
[run]
steps = 1
[model]
architecture = "llama"
layers = 1
hidden = 64
heads = 2
feed_forward = 64
vocabulary = 131072
sequence = 4096
[data]
source = "synthetic"
[batch]
global = 8
micro = 8
[precision]
compute = "bf16"
[optimizer]
name = "adamw"
learning_rate = 1e-3
)";
  return config::make_run_config(
      io::Deck::parse(text, "deck", overrides, config::deck_table()), 1);
}

std::int64_t chunk_of(double bytes) {
  config::RunConfig config = deck();
  config.run.gpu_bytes = static_cast<std::int64_t>(bytes);
  return engine::head_chunks(config, true).bytes / mebi;
}

// What a data sheet says, what a driver has said of the same GPU, and whole GiB.
TEST(LogitsBytes, DataSheetAndDriverAgree) {
  struct Case {
    const char* gpu;
    double sheet_gb, driver_mib, gib;
    std::int64_t mebi;
  };
  for (const Case& c : {Case{"A100 40 GB", 40, 40326, 40, 512},
                        {"A100 80 GB", 80, 81050, 80, 1024},
                        {"H100 80 GB", 80, 81079, 80, 1024},
                        {"H100 80 GB, 3g.40gb", 40, 40448, 40, 512},
                        {"H200 141 GB", 141, 143156, 141, 2048},
                        {"L40S 48 GB", 48, 45589, 48, 512},
                        {"B200 180 GB", 180, 182642, 192, 2048},
                        {"MI300X 192 GB", 192, 196592, 192, 2048},
                        {"V100 16 GB", 16, 16151, 16, 256},
                        {"RTX 4090 24 GB", 24, 24217, 24, 256}}) {
    EXPECT_EQ(chunk_of(c.sheet_gb * 1e9), c.mebi) << c.gpu;
    EXPECT_EQ(chunk_of(c.driver_mib * static_cast<double>(mebi)), c.mebi) << c.gpu;
    EXPECT_EQ(chunk_of(c.gib * 1024 * static_cast<double>(mebi)), c.mebi) << c.gpu;
  }
  EXPECT_EQ(chunk_of(0), 1024) << "not known";
  EXPECT_EQ(chunk_of(1e9), 64) << "the least";
  EXPECT_EQ(chunk_of(1e12), 4096) << "the most";
}

TEST(LogitsBytes, TheDeckGoesFirstAndHostsKeepTheirs) {
  config::RunConfig config = deck({"run.logits_bytes=50MiB"});
  config.run.gpu_bytes = 80'000'000'000;
  EXPECT_EQ(engine::head_chunks(config, true).bytes, 50 * mebi);
  config = deck();
  config.run.gpu_bytes = 80'000'000'000;
  EXPECT_EQ(engine::head_chunks(config, false).bytes, 128 * mebi);
}

// The plan knows the GPU from where it is planned for, whatever the deck was read for.
TEST(LogitsBytes, PlansCountWhatTheRunTakes) {
  const auto memory = [](const config::RunConfig& config, std::int64_t gpu_bytes) {
    PlannedDevice on;
    on.device = Device::cuda(0);
    on.transport = comm::Transport::nccl;
    on.gpu_bytes = gpu_bytes;
    return make_plan(config, 0, on).memory;
  };
  const auto small = memory(deck(), 40'000'000'000),
             large = memory(deck(), 80'000'000'000);
  EXPECT_NE(small, large);
  EXPECT_EQ(small, memory(deck({"run.logits_bytes=512MiB"}), 0));
  EXPECT_EQ(large, memory(deck({"run.logits_bytes=1GiB"}), 141'000'000'000));
}

}  // namespace
}  // namespace trireme::plan
