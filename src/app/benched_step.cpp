// BenchedStep: its batch, and its clock.
// SPDX-License-Identifier: Apache-2.0
#include "app/benched_step.hpp"

#include <chrono>

#include "base/philox.hpp"
#include "base/stopwatch.hpp"
#include "engine/group_use.hpp"

namespace trireme::app {
namespace {

using Clock = std::chrono::steady_clock;

// Synthetic token ids for the step: the values do not matter to its speed.
engine::Batch make_batch(const Buffer& ids, const config::RunConfig& config) {
  const std::int64_t tokens =
      config.batch.micro * config.model.sequence / config.parallel.mesh.context;
  const Random random(1, hash_name("bench"));
  auto all = ids.view().span<std::int32_t>();
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i] = static_cast<std::int32_t>(
        random.below(i, static_cast<std::uint64_t>(config.model.vocabulary)));
  }
  engine::Batch batch{.valid_tokens = ids.view().elements()};
  for (std::int64_t m = 0; m < config.microbatches(); ++m) {
    batch.inputs.push_back(ids.view().rows(m * tokens, tokens));
  }
  batch.targets = batch.inputs;
  return batch;
}

// Random ids have no documents: a packed deck is timed as if each row were one text.
config::RunConfig benched(config::RunConfig config, const launch::ComputeDevice& on) {
  config.run.gpu_bytes = on.gpu_bytes;
  config.data.packing = io::Packing::none;
  config.train = {};
  config.batch.ramp.clear();
  config.batch.sequence_ramp.clear();
  return config;
}

}  // namespace

BenchedStep::BenchedStep(comm::World& world, const config::RunConfig& config,
                         const launch::ComputeDevice& on)
    : world_(world),
      config_(benched(config, on)),
      mesh_(world, config.parallel.mesh, config.parallel.folding, on.device, on.transport,
            engine::group_use(config)),
      engine_(config_, mesh_, on.device),
      ids_(Device::host(), DType::i32,
           {config.microbatches() * config.batch.micro * config.model.sequence /
            config.parallel.mesh.context},
           MemoryClass::data, "ids"),
      batch_(make_batch(ids_, config)) {
  engine_.store().initialize(config.run.seed);
  world.agree([&] { engine_.load_base(); });
}

double BenchedStep::run() {
  world_.barrier();
  const auto start = Clock::now();
  ++batch_.step;
  engine_.train_step(batch_, nobody_);
  return world_.max(seconds_since(start));
}

double BenchedStep::tokens() const {
  return static_cast<double>(config_.batch.global * config_.model.sequence);
}

std::string timed_without(const config::RunConfig& config) {
  std::string out;
  const auto add = [&](bool there, const char* what) {
    if (there) out += (out.empty() ? "" : ", ") + std::string(what);
  };
  add(config.data.packing != io::Packing::none, "documents within rows");
  add(config.learns_pairs(), "the reference of dpo, whose pairs are taken as plain text");
  add(!config.batch.ramp.empty() || !config.batch.sequence_ramp.empty(),
      "ramps, of which it is the end");
  return out;
}

}  // namespace trireme::app
