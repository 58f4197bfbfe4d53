// Accounting: what a real step sends equals the closed forms and the plan, to the byte.
// SPDX-License-Identifier: Apache-2.0
// It is counted by group and collective; memory by class equals the plan, too.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "engine/engine.hpp"
#include "plan/plan.hpp"
#include "ranks/traffic_closed_form.hpp"
#include "support/device.hpp"
#include "support/world.hpp"

namespace trireme {
namespace {

using comm::Axis;
using comm::Collective;
using optim::Offload;
using optim::Sharding;
using test::Amount;
using test::key;
using test::Table;

// Tensors of the sizes below are sent directly (up to 16 KiB) and in parts.
config::RunConfig run_config(const comm::MeshShape& mesh, DType compute = DType::f32) {
  config::RunConfig config;
  config.model = {.architecture = model::Architecture::llama,
                  .layers = 4,
                  .hidden = 96,
                  .heads = 12,
                  .kv_heads = 12,
                  .feed_forward = 37,
                  .vocabulary = 53,
                  .sequence = 24};
  config.precision.recipe = recipe_named(name_of(compute));
  config.precision.compute = compute;
  config.batch = {24, 2};
  config.parallel.mesh = mesh;
  config.parallel.bucket_bytes = 25 << 20;
  config.optimizer.learning_rate = 1e-3;
  return config;
}

Table table_of(const std::vector<engine::TrafficRow>& rows) {
  Table table;
  for (const auto& row : rows)
    table[key(row.group, row.kind)] = {row.traffic.calls, row.traffic.bytes};
  return table;
}

struct Measured {
  Table first, second, closed;  // of two steps
  std::array<std::int64_t, memory_classes> memory{};
  double exposed = 0;
};

std::array<std::int64_t, memory_classes> ledger() {
  std::array<std::int64_t, memory_classes> bytes{};
  for (int c = 0; c < memory_classes; ++c)
    bytes[static_cast<std::size_t>(c)] = memory_use(static_cast<MemoryClass>(c)).bytes;
  return bytes;
}

// Two steps. `memory` is what the ledger has more than `before`.
Measured run_two_steps(const config::RunConfig& config,
                       const std::array<std::int64_t, memory_classes>& before) {
  Measured measured;
  comm::Mesh mesh(test::world(), config.parallel.mesh, config.parallel.folding);
  engine::Engine engine(config, mesh, Device::host());
  optim::ParameterStore& store = engine.store();
  store.initialize(3);
  const auto positions = static_cast<std::int64_t>(engine.positions().size());
  const Buffer ids(Device::host(), DType::i32, {config.batch.micro * positions},
                   MemoryClass::data, "ids");
  engine::Batch batch{.valid_tokens = 1000};
  batch.inputs.assign(static_cast<std::size_t>(config.microbatches()), ids.view());
  batch.targets = batch.inputs;
  engine::StepObserver nobody;
  comm::TrafficMeter meter(mesh);
  for (int step = 1; step <= 2; ++step) {
    meter.begin();
    batch.step = step;
    engine.train_step(batch, nobody);
    meter.end();
    (step == 1 ? measured.first : measured.second) = table_of(engine::last_lap(meter));
  }
  for (const auto& row : engine::all_laps(meter))
    measured.exposed += row.traffic.exposed_seconds;
  measured.closed = test::ClosedForm(config, mesh, store.flats()).table();
  const auto after = ledger();
  for (std::size_t c = 0; c < after.size(); ++c)
    measured.memory[c] = after[c] - before[c];
  measured.memory[static_cast<std::size_t>(MemoryClass::data)] = 0;
  return measured;
}

Measured measure(const config::RunConfig& config) {
  const auto before = ledger();
  Measured measured = run_two_steps(config, before);
  // What is left is scratch that kernels have made for themselves and keep.
  const auto left = ledger();
  for (std::size_t c = 0; c < left.size(); ++c) {
    const bool workspace = c == static_cast<std::size_t>(MemoryClass::workspace);
    EXPECT_TRUE(workspace || left[c] == before[c]);
    measured.memory[c] -= left[c] - before[c];
  }
  return measured;
}

void expect_same(const Table& a, const Table& b, const char* what) {
  Table all = a;
  all.insert(b.begin(), b.end());
  for (const auto& [name, unused] : all) {
    const auto in = [&](const Table& t) {
      return t.contains(name) ? t.at(name) : Amount{};
    };
    EXPECT_EQ(in(a), in(b)) << what << ": " << name;
  }
}

// has_closed_form: else compared with the plan alone.
void check(config::RunConfig config, const std::string& title,
           bool has_closed_form = true) {
  SCOPED_TRACE(title);
  // Every rank has the batch: none is handed on.
  config.data.kind = io::SourceKind::synthetic;
  const Measured real = measure(config);
  const plan::Plan plan = plan::make_plan(config, test::world().rank());
  expect_same(real.first, real.second, "first and second step");
  expect_same(real.second, table_of(plan.traffic), "real and planned");
  if (has_closed_form) expect_same(real.second, real.closed, "real and closed form");
  for (int c = 0; c < memory_classes; ++c) {
    if (static_cast<MemoryClass>(c) == MemoryClass::data) continue;  // the trainer's
    EXPECT_EQ(real.memory[static_cast<std::size_t>(c)],
              plan.memory[static_cast<std::size_t>(c)])
        << name_of(static_cast<MemoryClass>(c));
  }
  EXPECT_GT(real.exposed, 0.0);
}

std::string name_of(Sharding sharding) {
  constexpr std::array names = {"NO_SHARD", "ZERO1", "SHARD_GRAD_OP", "FULL_SHARD"};
  return names[static_cast<std::size_t>(sharding)];
}

std::vector<DType> types() {
  if (test::is_watched()) return {DType::bf16};
  return {DType::f32, DType::bf16};
}

TEST(Traffic, Sharding) {
  const int n = test::world().size();
  for (const Sharding sharding :
       {Sharding::none, Sharding::optimizer, Sharding::gradients, Sharding::weights}) {
    for (const DType compute : types()) {
      for (const int shard : {2, n}) {
        if (n % shard != 0 || (sharding == Sharding::none && shard != n)) continue;
        for (const int prefetch : {0, 1}) {
          if (sharding != Sharding::weights && prefetch == 0) continue;
          auto config = run_config({.data = n}, compute);
          config.parallel.sharding = sharding;
          config.parallel.prefetch = prefetch;
          config.parallel.folding.shard = sharding == Sharding::none ? 1 : shard;
          check(config, format("{} {} shard {} prefetch {}", name_of(sharding),
                               trireme::name_of(compute), shard, prefetch));
        }
      }
    }
  }
}

TEST(Traffic, Tensor) {
  const int n = test::world().size();
  for (const DType compute : types()) {
    for (const bool sequence : {false, true}) {
      for (const int chunks : {1, 3}) {  // 3: of unequal rows; more than a rank has
        auto config = run_config({.tensor = n}, compute);
        config.parallel.sequence = sequence;
        config.parallel.tensor_chunks = chunks;
        check(config, format("sequence {} chunks {} {}", sequence, chunks,
                             trireme::name_of(compute)));
      }
    }
  }
}

TEST(Traffic, ContextRing) {
  for (const DType compute : types()) {
    check(run_config({.context = test::world().size()}, compute),
          std::string(trireme::name_of(compute)));
  }
}

TEST(Traffic, Pipeline) {
  using enum schedule::ScheduleKind;
  const int n = test::world().size();
  for (const auto kind : {gpipe, one_f_one_b, zb_h1, interleaved, zb_v, dualpipe_v}) {
    for (const bool tied : {false, true}) {
      auto config = run_config({.pipeline = n});
      config.model.layers = 8;
      config.model.tie_embeddings = tied;
      config.parallel.schedule = kind;
      config.parallel.virtual_stages =
          kind == interleaved || schedule::is_v_shaped(kind) ? 2 : 1;
      check(config, format("{}{}", schedule::name_of(kind), tied ? " tied" : ""));
    }
  }
}

// Several axes at once, the closed forms still hold.
TEST(Traffic, Meshes) {
  if (test::world().size() != 4) GTEST_SKIP() << "on 4 ranks";
  for (const comm::MeshShape& shape : {comm::MeshShape{.data = 2, .tensor = 2},
                                       comm::MeshShape{.context = 2, .tensor = 2},
                                       comm::MeshShape{.data = 2, .context = 2},
                                       comm::MeshShape{.pipeline = 2, .data = 2},
                                       comm::MeshShape{.pipeline = 2, .tensor = 2},
                                       comm::MeshShape{.pipeline = 2, .context = 2}}) {
    for (const Sharding sharding :
         {Sharding::none, Sharding::optimizer, Sharding::gradients, Sharding::weights}) {
      const int replicas = shape.data * shape.context;
      if (sharding != Sharding::none && replicas == 1) continue;
      auto config = run_config(shape);
      config.parallel.sharding = sharding;
      config.parallel.sequence = shape.tensor > 1;
      config.parallel.folding.shard = sharding == Sharding::none ? 1 : replicas;
      const bool gathers_in_stages = sharding == Sharding::weights && shape.pipeline > 1;
      check(config,
            format("pipeline {} data {} context {} tensor {} {}", shape.pipeline,
                   shape.data, shape.context, shape.tensor, name_of(sharding)),
            !gathers_in_stages);
    }
  }
}

// The plan alone: what has no short formula.
TEST(Traffic, Planned) {
  const int n = test::world().size();
  auto ulysses = run_config({.context = n});
  ulysses.parallel.ulysses = true;
  check(ulysses, "ulysses", false);
  auto buckets = run_config({.data = n});
  buckets.parallel.bucket_bytes = 20000;
  check(buckets, "buckets", false);
  auto shared_heads = run_config({.tensor = n});
  shared_heads.model.kv_heads = 1;
  check(shared_heads, "one key/value head", false);
  for (const bool partition : {false, true}) {
    auto recompute = run_config({.tensor = n});
    recompute.recompute.what.full = true;
    recompute.recompute.what.partition = partition;
    check(recompute, "recompute", false);
  }
  for (const Offload offload : {Offload::optimizer, Offload::weights}) {
    for (const DType compute : types()) {
      auto config = run_config({.data = n}, compute);
      config.parallel.sharding = Sharding::weights;
      config.parallel.folding.shard = n;
      config.parallel.offload = offload;
      check(config, "offload", true);
      config.parallel.wrap_parameters = 30000;
      check(config, "offload, larger units", false);
    }
  }
  auto tied = run_config({.data = n});
  tied.model.tie_embeddings = true;
  tied.parallel.sharding = Sharding::weights;
  tied.parallel.folding.shard = n;
  check(tied, "tied FULL_SHARD", false);
}

// A reduction of K bytes moves 2 (N - 1) K over all ranks, also where N does not divide
// K.
TEST(Traffic, AllRanksTogether) {
  comm::World& world = test::world();
  const auto config = run_config({.data = world.size()});
  const Measured real = measure(config);
  std::int64_t elements = 0;
  comm::Mesh mesh = comm::Mesh::meta(config.parallel.mesh, world.rank());
  engine::Engine engine(config, mesh, Device::meta());
  for (const auto& flat : engine.store().flats()) elements += flat.elements;
  const double sent = world.sum(
      static_cast<double>(real.second.at(key("replicas", Collective::all_reduce)).bytes));
  // Tokens, direct.
  const double small = 8 * world.size();
  EXPECT_EQ(sent, (world.size() - 1) * (2 * 4 * static_cast<double>(elements) + small));
}

TEST(Traffic, ExposedTimeBelongsToWhatIsWaitedFor) {
  const comm::Mesh mesh(test::world(), {.data = test::world().size()});
  comm::Group& group = mesh.everyone();
  Stream stream;
  const Buffer x(Device::host(), DType::f32, {1 << 16}, MemoryClass::workspace, "x");
  comm::TrafficMeter meter(mesh);
  const auto row_of = [&](Collective kind) {
    for (const auto& row : engine::last_lap(meter))
      if (row.group == "everyone" && row.kind == kind) return row;
    return engine::TrafficRow{};
  };
  const auto of = [&](Collective kind) { return row_of(kind).traffic; };
  const auto be_late = [&] {
    if (group.rank() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  };
  // Waited for, then dropped: the others are held up by rank 0 in both.
  be_late();
  group.all_reduce(stream, x.view()).wait();
  meter.end();
  EXPECT_EQ(of(Collective::all_reduce).calls, 1);
  EXPECT_GE(of(Collective::all_reduce).exposed_seconds, 0.0);
  if (group.rank() > 0) {
    EXPECT_GT(of(Collective::all_reduce).exposed_seconds, 0.0);
  }
  EXPECT_EQ(of(Collective::broadcast).exposed_seconds, 0.0);
  // A call takes at least as long as somebody waits for it.
  const comm::TrafficTimes times = row_of(Collective::all_reduce).times;
  ASSERT_TRUE(times.seconds && times.exposed_seconds && times.bus_bytes_per_second);
  EXPECT_EQ(*times.exposed_seconds, of(Collective::all_reduce).exposed_seconds);
  EXPECT_GE(*times.seconds, *times.exposed_seconds);
  EXPECT_NEAR(*times.bus_bytes_per_second * *times.seconds,
              2.0 * (group.size() - 1) / group.size() * (4 << 16), 1e-3);
  group.broadcast(stream, x.view(), 0).wait();  // between laps
  meter.begin();
  be_late();
  { const comm::Handle dropped = group.broadcast(stream, x.view(), 0); }
  meter.end();
  EXPECT_EQ(of(Collective::all_reduce).calls, 0);
  EXPECT_EQ(of(Collective::all_reduce).exposed_seconds, 0.0);
  EXPECT_EQ(of(Collective::broadcast).calls, 1);
  if (group.rank() > 0) {
    EXPECT_GT(of(Collective::broadcast).exposed_seconds, 0.0);
  }
  EXPECT_EQ(meter.laps(), 2);
  // What is complete before anyone waits costs nothing.
  meter.begin();
  comm::Handle handle = group.all_reduce(stream, x.view());
  while (!handle.done()) {
  }
  handle.wait();
  meter.end();
  EXPECT_EQ(of(Collective::all_reduce).calls, 1);
  EXPECT_EQ(of(Collective::all_reduce).exposed_seconds, 0.0);
}

TEST(Traffic, PipelineOutlook) {
  auto config = run_config({.pipeline = 4});
  config.model.layers = 8;
  config.parallel.stage_layers = {1, 3, 3, 1};
  const auto ranks = engine::pipeline_outlook(config);
  ASSERT_EQ(ranks.size(), 4u);
  EXPECT_EQ(engine::describe_blocks(ranks[0]), "0");
  EXPECT_EQ(engine::describe_blocks(ranks[1]), "1-3");
  for (std::size_t r = 0; r < 4; ++r) {
    // 1F1B on p ranks with m microbatches: (p - 1) / (m + p - 1) of the time.
    EXPECT_NEAR(ranks[r].idle_share, 3.0 / (12 + 3), 1e-12);
    EXPECT_EQ(ranks[r].live_microbatches, 4 - static_cast<std::int64_t>(r));
  }
}

}  // namespace
}  // namespace trireme
