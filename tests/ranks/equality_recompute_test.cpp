// Recomputing and offloading activations: the same bits, exactly the predicted bytes.
// SPDX-License-Identifier: Apache-2.0
// The shapes of what is not kept, or kept elsewhere, predict them.
// Legend: T tokens of a rank, D width, E rows of the fused projection, F units of the
// feed-forward here, H heads here.
#include "base/split.hpp"
#include "plan/plan.hpp"
#include "ranks/equality.hpp"
#include "support/device.hpp"

namespace trireme::test {
namespace {

using Bytes = std::int64_t;

// What a Llama block keeps of a microbatch, by piece, each tensor on its own multiple of
// 64 bytes.
struct BlockBytes {
  Bytes input = 0, part = 0;  // [T, D] outside the tensor region, and this rank's part
  Bytes gathered = 0;         // [T, D] of all tokens
  Bytes norm = 0, attention = 0, activation = 0, up = 0, rest = 0;

  Bytes all() const { return norm + attention + activation + up + rest; }
};

BlockBytes block_bytes(const config::RunConfig& config, int tensor_rank) {
  const auto& m = config.model;
  const auto& shape = config.parallel.mesh;
  const auto w = static_cast<Bytes>(size_of(config.precision.compute));
  const Bytes wide = config.precision.compute == DType::f64 ? 8 : 4;
  const auto aligned = [](Bytes bytes) { return divide_up(bytes, Bytes{64}) * 64; };
  const std::int64_t T = config.batch.micro * m.sequence / shape.context, D = m.hidden;
  const std::int64_t outside = config.parallel.sequence ? T / shape.tensor : T;
  const std::int64_t F = split_range(m.feed_forward, shape.tensor, tensor_rank).count();
  const Range heads = split_range(m.heads, shape.tensor, tensor_rank);
  const std::int64_t H = heads.count(), queries = m.heads / m.kv_heads;
  // The key/value heads of these heads, some of them on other ranks too.
  const std::int64_t kv = (heads.end - 1) / queries - heads.begin / queries + 1;
  const std::int64_t E = (H + 2 * kv) * m.head_width();
  BlockBytes b;
  b.input = aligned(outside * D * w);
  b.part = aligned(divide_up(T, shape.tensor) * D * w);
  b.gathered = aligned(T * D * w);
  // Outputs of norms are kept as they lie outside the region: with sequence parallelism
  // this rank's rows, which backward gathers once more.
  b.norm = 2 * b.input;
  b.attention = aligned(T * H * m.head_width() * w) + aligned(T * H * wide);
  b.activation = aligned(T * F * w);
  b.up = aligned(T * 2 * F * w);
  b.rest = b.input + 2 * aligned(outside * wide) + aligned(T * E * w);
  return b;
}

struct Measured {
  Outcome outcome;
  config::RunConfig config;
  engine::ActivationDemand demand;
  Bytes activations = 0, saved = 0, ledger = 0;
  Bytes on_host = 0;  // of the ledger
  engine::ActivationTraffic traffic;
  std::int64_t slots = 0;
  int tensor_rank = 0;
};

Measured measure(const std::string& compute, const Words& words) {
  Measured m;
  m.config = equality_config("llama", compute, words);
  comm::Mesh mesh = test_mesh(m.config);
  const Bytes before = memory_use(MemoryClass::activations).bytes;
  const Bytes host_before = memory_use(MemoryClass::offloaded).bytes;
  m.outcome = train_steps(m.config, mesh, 2, true, [&](engine::Engine& engine) {
    m.demand = engine.executor().demand();
    m.activations = static_cast<Bytes>(engine.activation_bytes());
    m.ledger = memory_use(MemoryClass::activations).bytes - before;
    m.on_host = memory_use(MemoryClass::offloaded).bytes - host_before;
    EXPECT_EQ(m.on_host, static_cast<Bytes>(engine.offloaded_activation_bytes()));
    m.traffic = engine.activation_traffic();
    m.slots = schedule::live_slots(engine.schedule(), 0);
    m.saved = static_cast<Bytes>(m.demand.saved.front());
  });
  m.tensor_rank = mesh.coordinate(comm::Axis::tensor);
  EXPECT_EQ(m.activations, m.ledger);
  return m;
}

std::vector<Words> meshes() {
  const int n = world().size();
  std::vector<Words> all = {{format("parallel.tensor={}", n), "batch.micro=2"}};
  if (is_watched()) return all;
  all.push_back({format("parallel.context={}", n), "batch.micro=3"});
  all.push_back({"batch.micro=1"});
  if (n != 3)
    all.push_back({"parallel.tensor=2", "parallel.sequence=true", "batch.micro=2"});
  return all;
}

Words selective(const std::string& pieces) {
  return {"recompute.policy=selective", "recompute.pieces=[" + pieces + "]"};
}

// The bytes of `layers` blocks' pieces are not there.
void compare(const Words& mesh, const std::string& compute, const Measured& none) {
  const BlockBytes b = block_bytes(none.config, none.tensor_rank);
  const Bytes L = none.config.model.layers;
  const auto check = [&](const Words& words, Bytes saved, Bytes recomputed) {
    SCOPED_TRACE(mesh.front() + " " + compute + " " + words.front() + " " + words.back());
    const Measured m = measure(compute, mesh + words);
    expect_same_bits(m.outcome, none.outcome);
    EXPECT_EQ(none.saved - m.saved, saved);
    EXPECT_EQ(static_cast<Bytes>(m.demand.recomputed), recomputed);
    EXPECT_EQ(none.activations - m.activations, none.slots * saved - recomputed);
    EXPECT_EQ(m.slots, none.slots);
  };
  check(selective("\"norm\""), L * b.norm, 0);
  check(selective("\"attention\""), L * b.attention, 0);
  check(selective("\"activation\""), L * b.activation, 0);
  check(selective("\"up\""), L * b.up, 0);
  check(selective("\"norm\", \"attention\", \"activation\", \"up\""),
        L * (b.all() - b.rest), 0);
  check(selective("\"norm\", \"up\"") + Words{"recompute.layers=3"}, 3 * (b.norm + b.up),
        0);
  check({"recompute.policy=full"}, L * b.all(), b.all());
  check({"recompute.policy=full", "recompute.layers=2"}, 2 * b.all(), b.all());
  const auto& shape = none.config.parallel;
  if (shape.mesh.tensor == 1 || shape.sequence) return;
  // Each block's input is kept in parts, and gathered where the block runs again.
  check({"recompute.policy=full", "recompute.partition=true"},
        L * (b.all() + b.input - b.part), b.all() + b.gathered);
}

TEST(EqualityRecompute, SameBitsFewerBytes) {
  for (const char* compute : {"fp32", "bf16"}) {
    if (is_watched() && std::string(compute) == "fp32") continue;
    for (const Words& mesh : meshes()) compare(mesh, compute, measure(compute, mesh));
  }
}

const Words offload = {"parallel.offload_activations=true"};
Words offload_part(const char* fraction) {
  return offload +
         Words{std::string("parallel.offload_activations_fraction=") + fraction};
}

// Of a block: what it keeps itself, and its input where that goes with it.
struct BlockKeeps {
  Bytes kept = 0, input = 0;
};

// `moved` blocks' activations are on the host, and take turns on the device: in two
// places, inputs in three. What the last blocks left there need not come back, since the
// microbatch's backward follows its forward at once.
void compare_offload(const Words& words, std::int64_t moved, const BlockKeeps& keeps,
                     const std::string& compute, const Measured& none) {
  SCOPED_TRACE(compute + " " + words.front() + " " + words.back());
  const Measured m = measure(compute, words);
  expect_same_bits(m.outcome, none.outcome);
  EXPECT_EQ(m.slots, none.slots);
  const Bytes away = moved * (keeps.kept + keeps.input);
  const Bytes kept_places = std::min<Bytes>(moved, 2) * keeps.kept;
  const Bytes input_places = std::min<Bytes>(moved, 3) * keeps.input;
  EXPECT_EQ(none.saved - m.saved, away);
  EXPECT_EQ(none.activations - m.activations,
            none.slots * away - kept_places - input_places);
  EXPECT_EQ(m.on_host, m.slots * away);
  const auto& config = m.config;
  const std::int64_t passes =
      2 * config.batch.global / (config.batch.micro * config.parallel.mesh.data);
  EXPECT_EQ(m.traffic.to_host, passes * away);
  EXPECT_EQ(m.traffic.to_device, moved == config.model.layers
                                     ? passes * (away - kept_places - input_places)
                                     : m.traffic.to_device);
  const plan::Plan plan = plan::make_plan(config, world().rank());
  const auto planned = [&](MemoryClass c) {
    return plan.memory[static_cast<std::size_t>(c)];
  };
  EXPECT_EQ(planned(MemoryClass::activations), m.ledger);
  EXPECT_EQ(planned(MemoryClass::offloaded), m.on_host);
}

TEST(EqualityRecompute, OffloadSameBitsFewerBytesOnTheDevice) {
  for (const char* compute : {"fp32", "bf16"}) {
    if (is_watched() && std::string(compute) == "fp32") continue;
    for (const Words& mesh : meshes()) {
      const Measured none = measure(compute, mesh);
      const BlockBytes b = block_bytes(none.config, none.tensor_rank);
      const Bytes L = none.config.model.layers;
      const auto check = [&](const Words& words, std::int64_t moved,
                             const BlockKeeps& keeps, const Words& recompute = {}) {
        compare_offload(mesh + recompute + words, moved, keeps, compute,
                        recompute.empty() ? none : measure(compute, mesh + recompute));
      };
      check(offload, L, {b.all(), b.input});
      check(offload_part("0.5"), L / 2, {b.all(), b.input});
      check(offload_part("0.1"), 1, {b.all(), b.input});
      check(offload, L, {b.rest, b.input},
            selective("\"norm\", \"attention\", \"activation\", \"up\""));
      check(offload, L, {0, b.input}, {"recompute.policy=full"});
      const auto& shape = none.config.parallel;
      if (shape.mesh.tensor == 1 || shape.sequence) continue;
      check(offload, L, {b.part, 0},
            {"recompute.policy=full", "recompute.partition=true"});
    }
  }
}

// Several microbatches are between their forward and their backward, in several chunks of
// a rank; experts keep rows of which there are as many as tokens chose them, so that what
// is on its way is never the same twice.
TEST(EqualityRecompute, OffloadInPipelines) {
  const std::string ranks = format("parallel.pipeline={}", world().size());
  const std::vector<Words> schedules = {
      {"parallel.schedule=1f1b"},
      {"parallel.schedule=gpipe"},
      {"parallel.schedule=interleaved", "parallel.virtual_stages=2", "model.layers=8"}};
  for (const Words& schedule : schedules) {
    for (const char* model : {"llama-tied", "dropout", "mixtral"}) {
      if (is_watched() && (schedule.size() < 3 || model != std::string("mixtral")))
        continue;
      const Words mesh = Words{ranks, "batch.micro=2"} + schedule;
      const Outcome none = train(model, "bf16", mesh);
      for (const Words& words :
           {offload, offload_part("0.4"), offload + Words{"recompute.policy=full"}}) {
        SCOPED_TRACE(schedule.front() + " " + model + " " + words.back());
        engine::ActivationTraffic traffic;
        bool sole_blocks = true;  // in all stages of the rank
        const auto inspect = [&](engine::Engine& engine) {
          traffic = engine.activation_traffic();
          for (int chunk = 0; chunk < (schedule.size() < 3 ? 1 : 2); ++chunk)
            sole_blocks = sole_blocks && engine.stage(chunk).config().blocks.count() == 1;
        };
        expect_same_bits(train(model, "bf16", mesh + words, 3, inspect), none);
        // What a stage has received stays, and a sole block that is recomputed keeps no
        // more than that, but for the first, whose input is the embedding's output.
        const bool moves_nothing =
            sole_blocks && world().rank() > 0 && words.back() == "recompute.policy=full";
        EXPECT_EQ(traffic.to_host == 0, moves_nothing);
        EXPECT_LE(traffic.to_device, traffic.to_host);
      }
    }
  }
}

// Masks belong to the seed, and are there: without them losses are others.
TEST(EqualityRecompute, DropoutBelongsToTheSeed) {
  const Words mesh = {format("parallel.tensor={}", world().size()), "batch.micro=2"};
  const auto losses = [&](const char* model, const Words& words) {
    return train(model, "fp32", mesh + words, 2).losses;
  };
  const auto dropped = losses("dropout", {});
  EXPECT_TRUE(same_bits(losses("dropout", {"recompute.policy=full"}), dropped));
  EXPECT_FALSE(same_bits(losses("gpt2", {}), dropped));
  EXPECT_FALSE(same_bits(losses("dropout", {"model.dropout.embedding=0.0"}), dropped));
  EXPECT_FALSE(same_bits(losses("dropout", {"model.dropout.residual=0.0"}), dropped));
  EXPECT_FALSE(same_bits(losses("dropout", {"model.dropout.attention=0.0"}), dropped));
}

// In every slot of a pipeline, and with weight gradients that are put off, where what is
// made again has to be kept until they are made: the same bits.
TEST(EqualityRecompute, InPipelines) {
  const std::string ranks = format("parallel.pipeline={}", world().size());
  const std::vector<Words> all = {selective("\"norm\", \"attention\""),
                                  selective("\"activation\", \"up\""),
                                  {"recompute.policy=full"},
                                  {"recompute.policy=full", "recompute.layers=3"}};
  for (const char* schedule : {"1f1b", "zb_h1"}) {
    for (const char* model : {"llama", "dropout", "mixtral"}) {
      if (is_watched() && format("{} {}", model, schedule) != "mixtral zb_h1") continue;
      const Words mesh = {ranks, std::string("parallel.schedule=") + schedule,
                          "batch.micro=2"};
      const Outcome none = train(model, "bf16", mesh);
      for (const Words& words : all) {
        SCOPED_TRACE(std::string(schedule) + " " + model + " " + words.back());
        expect_same_bits(train(model, "bf16", mesh + words), none);
      }
    }
  }
}

}  // namespace
}  // namespace trireme::test
