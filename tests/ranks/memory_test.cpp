// Memory: what the ledger counts around an engine and its first steps equals the plan.
// SPDX-License-Identifier: Apache-2.0
// So it is on every mesh of the table; further: bytes per parameter of each strategy, and
// initialising, which holds no more than a share.
#include <algorithm>
#include <array>

#include "base/scratch_file.hpp"
#include "engine/answer_sums.hpp"
#include "engine/checkpoint_boxes.hpp"
#include "io/checkpoint_snapshot.hpp"
#include "model/stage.hpp"
#include "plan/plan.hpp"
#include "ranks/equality.hpp"
#include "support/coded_base.hpp"
#include "support/device.hpp"
#include "support/ledger.hpp"

namespace trireme::test {
namespace {

void expect_phases_as_planned(engine::Engine& engine, comm::Mesh& mesh,
                              const config::RunConfig& config);

// What two steps of training hold more than before, without the batch, and without
// scratch that kernels make for themselves and keep.
Bytes measure(const config::RunConfig& config) {
  const Bytes before = ledger();
  Bytes with{};
  {
    comm::Mesh mesh(world(), config.parallel.mesh, config.parallel.folding);
    train_steps(config, mesh, 2, false, [&](engine::Engine& engine) {
      // A run on pairs has brought its references together before the first step.
      std::array<double, 1> answer{};
      if (config.learns_pairs()) engine::sum_answers(mesh, answer);
      with = ledger();
      expect_phases_as_planned(engine, mesh, config);
    });
  }
  const Bytes kept = minus(ledger(), before);
  for (int c = 0; c < memory_classes; ++c) {
    if (static_cast<MemoryClass>(c) == MemoryClass::workspace) continue;
    EXPECT_EQ(kept[static_cast<std::size_t>(c)], 0)
        << name_of(static_cast<MemoryClass>(c));
  }
  Bytes held = minus(minus(with, before), kept);
  held[static_cast<std::size_t>(MemoryClass::data)] = 0;
  return held;
}

// Of the engine: the batches are the trainer's.
plan::Plan plan_of(const config::RunConfig& config) {
  plan::Plan plan = plan::make_plan(config, world().rank());
  plan.memory[static_cast<std::size_t>(MemoryClass::data)] = 0;
  return plan;
}

// What each phase uses is the same of this engine, which has trained, as planned.
void expect_phases_as_planned(engine::Engine& engine, comm::Mesh& mesh,
                              const config::RunConfig& config) {
  const plan::HeldMemory own = plan::held_memory(engine, mesh, config);
  const plan::Plan plan = plan::make_plan(config, world().rank());
  EXPECT_EQ(own.held, plan.memory);
  for (std::size_t p = 0; p < plan::memory_phases; ++p)
    EXPECT_EQ(own.used[p], plan.used[p]) << name_of(static_cast<plan::MemoryPhase>(p));
  EXPECT_EQ(own.copies_bytes, plan.copies_bytes);
}

void expect_as_planned(const config::RunConfig& config) {
  const Bytes held = measure(config);
  const plan::Plan plan = plan_of(config);
  for (int c = 0; c < memory_classes; ++c) {
    EXPECT_EQ(held[static_cast<std::size_t>(c)], plan.memory[static_cast<std::size_t>(c)])
        << name_of(static_cast<MemoryClass>(c));
  }
}

TEST(Memory, LedgerIsAsPlanned) {
  int compared = 0;
  for (const MeshLine& line : read_mesh_table(MESH_TABLE)) {
    if (line.ranks != world().size()) continue;
    for (const std::string compute : {"fp32", "bf16"}) {
      if (is_watched() && compute == "fp32") continue;
      SCOPED_TRACE(line.text + " " + compute);
      expect_as_planned(mesh_config(line, compute));
      ++compared;
    }
  }
  EXPECT_GE(compared, 20);
}

// An evaluation of a real engine reaches as high in its memory as planned.
TEST(Memory, AnEvaluationTakesWhatIsPlanned) {
  for (const char* model : {"llama-tied", "mixtral"}) {
    SCOPED_TRACE(model);
    const auto config = equality_config(model, "fp32", {"metrics.validate_every=1"});
    comm::Mesh mesh = test_mesh(config);
    engine::Engine engine(config, mesh, mesh.device());
    EXPECT_EQ(engine.executor().reached().activations, 0u);
    const Buffer ids(
        Device::host(), DType::i32,
        {config.batch.micro * static_cast<std::int64_t>(engine.positions().size())},
        MemoryClass::data, "ids");
    engine.evaluate(ids.view(), ids.view());
    const auto reached = engine.executor().reached();
    EXPECT_GT(reached.scratch, 0u);
    EXPECT_EQ(reached.activations, engine.executor().demand().evaluation.activations);
    EXPECT_EQ(reached.scratch, engine.executor().demand().evaluation.scratch);
    const plan::Plan plan = plan::make_plan(config, world().rank());
    const auto at = [&](plan::MemoryPhase phase, MemoryClass c) {
      return plan.used[static_cast<std::size_t>(phase)][static_cast<std::size_t>(c)];
    };
    EXPECT_EQ(at(plan::MemoryPhase::validation, MemoryClass::activations),
              static_cast<std::int64_t>(reached.activations));
    EXPECT_LT(at(plan::MemoryPhase::validation, MemoryClass::activations),
              at(plan::MemoryPhase::compute, MemoryClass::activations));
  }
}

// In every recipe too: numbers that are kept in few bits, and their rooms.
TEST(Memory, LedgerIsAsPlannedInRecipes) {
  for (const char* recipe : {"bf16_pure", "bf16_autocast", "bf16_fp32_sum", "ms_amp_o1",
                             "ms_amp_o3", "fp8_lm"}) {
    for (const char* name : {"NO_SHARD", "ZERO1", "FULL_SHARD"}) {
      for (const char* model : {"llama-tied", "groups"}) {
        SCOPED_TRACE(format("{} {} {}", recipe, name, model));
        auto config = equality_config(
            model, "bf16", {std::string("parallel.sharding_strategy=") + name});
        const Recipe bf16 = config.precision.recipe;
        config.precision.recipe = recipe_named(recipe);
        for (const TensorClass what :
             {TensorClass::forward_operand, TensorClass::backward_operand})
          config.precision.recipe[what] = bf16[what];
        expect_as_planned(config);
      }
    }
  }
}

// Sums of many buckets pass through no more memory than the deck allows: as planned, with
// the same bits.
TEST(Memory, StagingIsBounded) {
  const auto at = [](const plan::Plan& plan) {
    return plan.memory[static_cast<std::size_t>(MemoryClass::communication)];
  };
  for (const char* strategy : {"NO_SHARD", "ZERO1", "FULL_SHARD"}) {
    SCOPED_TRACE(strategy);
    const Words words{"parallel.bucket_bytes=1",
                      format("parallel.sharding_strategy={}", strategy)};
    const auto with = [&](const char* bytes) {
      return equality_config("llama", "fp32",
                             words + Words{format("comm.staging_bytes={}", bytes)});
    };
    const auto any = with("0"), little = with("32768");
    const plan::Plan most = plan::make_plan(any, world().rank()),
                     least = plan::make_plan(little, world().rank());
    EXPECT_LT(at(least), at(most));
    if (strategy == std::string("NO_SHARD")) {
      EXPECT_GT(at(most), 3 * 32768);
    }
    expect_as_planned(little);
    comm::Mesh mesh = test_mesh(any);
    const Outcome freely = train_steps(any, mesh, 2);
    expect_same_bits(train_steps(little, mesh, 2), freely);
  }
}

// Copies that take steps by themselves keep two more numbers for each weight.
TEST(Memory, LedgerIsAsPlannedWithOuterSteps) {
  for (const std::string compute : {"fp32", "bf16"}) {
    for (const char* momentum : {"0.0", "0.9"}) {
      SCOPED_TRACE(compute + " " + momentum);
      const auto config = equality_config(
          "llama", compute,
          {"optimizer.outer.every=2", format("optimizer.outer.momentum={}", momentum)});
      expect_as_planned(config);
    }
  }
}

// Frozen weights that are codes, whole on every rank or sharded, of experts too: codes,
// scales and the numbers of one module are counted, and nothing else is held of them.
TEST(Memory, LedgerIsAsPlannedWithCodes) {
  for (const char* name : {"NO_SHARD", "SHARD_GRAD_OP", "FULL_SHARD"}) {
    for (const char* model : {"llama-tied", "mixtral"}) {
      for (const char* kind : {"nf4", "int8"}) {
        SCOPED_TRACE(format("{} {} {}", name, model, kind));
        Words words = {std::string("parallel.sharding_strategy=") + name,
                       "adapter.rank=2", "model.from=base"};
        if (kind == std::string("int8")) words.push_back("adapter.dora=true");
        const auto numbers = equality_config(model, "bf16", words);
        words.push_back(std::string("adapter.quantize=") + kind);
        auto config = equality_config(model, "bf16", words);
        const plan::Plan searched = plan_of(config);
        config.adapter.codes = coded_base(config.adapter.quantize, DType::bf16);
        const Bytes held = measure(config);
        const plan::Plan plan = plan_of(config);
        for (int c = 0; c < memory_classes; ++c) {
          const auto at = static_cast<std::size_t>(c);
          EXPECT_EQ(held[at], plan.memory[at]) << name_of(static_cast<MemoryClass>(c));
        }
        EXPECT_EQ(searched.memory, plan.memory) << "without a source of codes";
        EXPECT_LT(plan.total_memory(), plan_of(numbers).total_memory());
      }
    }
  }
}

// Of an optimizer's state on this rank: what is on a disk, and what it passes through.
struct Away {
  std::int64_t on_disk = 0, staged = 0;
};

Away away_of(const config::RunConfig& config) {
  comm::Mesh mesh =
      comm::Mesh::meta(config.parallel.mesh, world().rank(), config.parallel.folding);
  engine::Engine engine(config, mesh, Device::meta());
  return {static_cast<std::int64_t>(engine.store().memory().disk_bytes()),
          static_cast<std::int64_t>(engine.store().staged_bytes())};
}

// On a disk the state takes no memory but that of its windows, to the byte; of a share of
// it the rest is where weights are.
TEST(Memory, LedgerIsAsPlannedWithStateOnADiskOrInPart) {
  const auto at = [](const plan::Plan& plan, MemoryClass c) {
    return plan.memory[static_cast<std::size_t>(c)];
  };
  const DiskFolder folder;
  for (const std::string compute : {"fp32", "bf16"}) {
    for (const char* name : {"NO_SHARD", "FULL_SHARD"}) {
      for (const char* share : {"1", "0.5"}) {
        SCOPED_TRACE(compute + " " + name + " " + share);
        std::map<std::string, plan::Plan> plans;
        std::map<std::string, Away> away;
        for (const std::string where : {"optimizer", "disk"}) {
          Words words = {std::string("parallel.sharding_strategy=") + name,
                         std::string("parallel.offload_fraction=") + share,
                         "parallel.offload=" + where};
          if (where == "disk") words = words + folder.words();
          const auto config = equality_config("groups", compute, words);
          const Bytes held = measure(config);
          away[where] = away_of(config);
          const plan::Plan& plan = plans[where] = plan_of(config);
          for (int c = 0; c < memory_classes; ++c)
            EXPECT_EQ(held[static_cast<std::size_t>(c)],
                      plan.memory[static_cast<std::size_t>(c)])
                << where << " " << name_of(static_cast<MemoryClass>(c));
        }
        const plan::Plan &host = plans.at("optimizer"), &disk = plans.at("disk");
        EXPECT_EQ(at(host, MemoryClass::optimizer), at(disk, MemoryClass::optimizer));
        EXPECT_EQ(at(disk, MemoryClass::optimizer) > 0, *share == '0');
        EXPECT_EQ(host.disk_bytes, 0);
        EXPECT_GE(disk.disk_bytes, away["disk"].on_disk);
        EXPECT_GT(away["disk"].on_disk, 0);
        const std::int64_t windows = away["disk"].staged - away["optimizer"].staged;
        EXPECT_EQ(host.total_memory() - disk.total_memory(),
                  away["disk"].on_disk - windows);
        // Two windows of a block of elements of each of three states, with room to align
        // them, are the least that there are: tiny shares of a state save nothing.
        constexpr std::int64_t least = 2 * (3 * 4 + 1) * ScratchFile::block;
        EXPECT_LT(windows, std::max(away["disk"].on_disk, least + 1));
      }
    }
  }
}

// Weights on a disk beside their state take no memory but that of what is gathered, of
// windows and of the places that shards are read into, to the byte.
TEST(Memory, LedgerIsAsPlannedWithWeightsOnADisk) {
  const DiskFolder folder;
  for (const std::string compute : {"fp32", "bf16"}) {
    for (const char* model : {"llama-tied", "groups"}) {
      for (const char* share : {"1", "0.5"}) {
        SCOPED_TRACE(compute + " " + model + " " + share);
        const Words base = {"parallel.sharding_strategy=FULL_SHARD"};
        const auto config =
            equality_config(model, compute,
                            base + folder.words("disk_weights") +
                                Words{std::string("parallel.offload_fraction=") + share});
        const Bytes held = measure(config);
        const plan::Plan plan = plan_of(config);
        for (int c = 0; c < memory_classes; ++c)
          EXPECT_EQ(held[static_cast<std::size_t>(c)],
                    plan.memory[static_cast<std::size_t>(c)])
              << name_of(static_cast<MemoryClass>(c));
        const plan::Plan resident =
            plan::make_plan(equality_config(model, compute, base), world().rank());
        constexpr auto weights = static_cast<std::size_t>(MemoryClass::weights);
        EXPECT_EQ(resident.memory[weights] - plan.memory[weights],
                  plan.disk_weight_bytes);
        EXPECT_GT(plan.disk_weight_bytes, 0);
        EXPECT_GT(plan.disk_bytes, plan.disk_weight_bytes + away_of(config).on_disk - 1);
      }
    }
  }
}

// Logits in the compute type, with their gradient in their place, take a third of the
// memory that logits in fp32 beside it do.
TEST(Memory, LedgerIsAsPlannedWithLogitsInTheComputeType) {
  constexpr auto workspace = static_cast<std::size_t>(MemoryClass::workspace);
  std::vector<std::int64_t> planned;
  for (const char* logits : {"compute", "fp32"}) {
    const auto config = equality_config(
        "llama", "bf16",
        {std::string("precision.logits=") + logits, "model.vocabulary=5000"});
    const Bytes held = measure(config);
    planned.push_back(plan::make_plan(config, world().rank()).memory[workspace]);
    EXPECT_EQ(held[workspace], planned.back()) << logits;
  }
  EXPECT_LT(planned[0], planned[1]);
}

// Of the store on this rank, in bytes.
struct State {
  std::int64_t weights = 0, gradients = 0, optimizer = 0;
  std::int64_t padded = 0;   // elements of all units
  std::int64_t largest = 0;  // of one unit
};

State state_of(const Words& words) {
  const auto config = equality_config("llama", "bf16", words);
  comm::Mesh mesh =
      comm::Mesh::meta(config.parallel.mesh, world().rank(), config.parallel.folding);
  engine::Engine engine(config, mesh, Device::meta());
  optim::ParameterStore& store = engine.store();
  State state{static_cast<std::int64_t>(store.weight_bytes()),
              static_cast<std::int64_t>(store.gradient_bytes()),
              static_cast<std::int64_t>(store.optimizer_bytes())};
  for (const optim::FlatParameter& flat : store.flats()) {
    state.padded += flat.elements;
    state.largest = std::max(state.largest, flat.elements);
  }
  // Padding: to 32 elements for each Param, to 32 for each rank for each unit.
  const std::int64_t P = model::parameter_count(config.model), d = world().size();
  const auto tensors = static_cast<std::int64_t>(store.params().size());
  const auto units = static_cast<std::int64_t>(store.flats().size());
  EXPECT_GE(state.padded, P);
  EXPECT_LE(state.padded, P + 31 * tensors + (32 * d - 1) * units);
  return state;
}

// Bytes of mixed-precision training (Rajbhandari et al., 2020), with gradients in fp32:
// 2 of weights, 4 of gradients, 12 of master weights and moments; what is shared out is
// divided by d.
TEST(Memory, BytesPerParameter) {
  const int d = world().size();
  const auto strategy = [](const char* name) {
    return Words{std::string("parallel.sharding_strategy=") + name, "batch.micro=1"};
  };
  const State none = state_of(strategy("NO_SHARD"));
  EXPECT_EQ(none.weights + none.gradients, 6 * none.padded);
  EXPECT_EQ(none.optimizer, 12 * none.padded);
  const State zero1 = state_of(strategy("ZERO1"));
  EXPECT_EQ(zero1.weights + zero1.gradients, 6 * zero1.padded);
  EXPECT_EQ(d * zero1.optimizer, 12 * zero1.padded);
  const State zero2 = state_of(strategy("SHARD_GRAD_OP"));
  EXPECT_EQ(zero2.weights, 2 * zero2.padded);
  EXPECT_EQ(d * (zero2.gradients - 2 * 4 * zero2.largest), 4 * zero2.padded);
  EXPECT_EQ(d * zero2.optimizer, 12 * zero2.padded);
  const State zero3 = state_of(strategy("FULL_SHARD"));
  EXPECT_EQ(d * (zero3.weights - 2 * 2 * zero3.largest), 2 * zero3.padded);
  EXPECT_EQ(d * (zero3.gradients - 2 * 4 * zero3.largest), 4 * zero3.padded);
  EXPECT_EQ(d * zero3.optimizer, 12 * zero3.padded);
  // On the real mesh: the ledger.
  for (const char* name : {"NO_SHARD", "ZERO1", "SHARD_GRAD_OP", "FULL_SHARD"}) {
    SCOPED_TRACE(name);
    const State planned = state_of(strategy(name));
    const Bytes held = measure(equality_config("llama", "bf16", strategy(name)));
    EXPECT_EQ(of(held, MemoryClass::weights), planned.weights);
    EXPECT_EQ(of(held, MemoryClass::gradients), planned.gradients);
    EXPECT_EQ(of(held, MemoryClass::optimizer), planned.optimizer);
  }
}

// Whatever the units: whole gradients are open for two of them at a time, and whole
// weights there for two with prefetch = 1.
TEST(Memory, SharesAndTwoUnits) {
  const int d = world().size();
  for (const std::int64_t wrap : {0, 20000, 100000}) {
    Words words = {"batch.micro=1"};
    if (wrap > 0) {
      words.push_back("parallel.wrap=size");
      words.push_back(format("parallel.wrap_parameters={}", wrap));
    }
    SCOPED_TRACE(words.back());
    for (const char* name : {"SHARD_GRAD_OP", "FULL_SHARD"}) {
      const State state =
          state_of(words + Words{std::string("parallel.sharding_strategy=") + name});
      EXPECT_LE(state.gradients, 4 * state.padded / d + 2 * 4 * state.largest);
      if (*name == 'F') {
        EXPECT_LE(state.weights, 2 * state.padded / d + 2 * 2 * state.largest);
      }
    }
  }
}

// A table that is much larger than a block has one buffer for its gradient; the other is
// of a block's size.
TEST(Memory, AWideTableHasOneBuffer) {
  const int d = world().size();
  for (const char* name : {"SHARD_GRAD_OP", "FULL_SHARD"}) {
    const State state = state_of({"batch.micro=1", "model.vocabulary=5000",
                                  std::string("parallel.sharding_strategy=") + name});
    EXPECT_LE(state.gradients, 4 * state.padded / d + 4 * (state.largest * 3 / 2));
  }
}

// Initial weights are made in the share: nothing is allocated but what messages need.
TEST(Memory, InitialisingHoldsTheShareAlone) {
  for (const char* name : {"NO_SHARD", "ZERO1", "SHARD_GRAD_OP", "FULL_SHARD"}) {
    for (const char* offload : {"none", "optimizer", "weights"}) {
      const bool full = std::string(name) == "FULL_SHARD";
      if (*offload == 'w' && !full) continue;
      SCOPED_TRACE(std::string(name) + " " + offload);
      const auto config =
          equality_config("llama", "bf16",
                          {std::string("parallel.sharding_strategy=") + name,
                           "batch.micro=1", std::string("parallel.offload=") + offload});
      comm::Mesh mesh(world(), config.parallel.mesh, config.parallel.folding);
      engine::Engine engine(config, mesh, Device::host());
      const auto allocations = [] {
        return memory_allocations() - memory_use(MemoryClass::communication).allocations;
      };
      const std::int64_t before = allocations();
      const Bytes held = ledger();
      engine.store().initialize(1);
      EXPECT_EQ(allocations(), before);
      const Bytes more = minus(ledger(), held);
      EXPECT_LE(of(more, MemoryClass::communication), full ? 0 : 1 << 20);
    }
  }
}

// checkpoint.async: the plan counts the copy, to the byte.
TEST(Memory, TheCopyForCheckpointsIsPlanned) {
  auto config = equality_config("llama", "bf16",
                                {"parallel.sharding_strategy=ZERO1", "batch.micro=1"});
  const plan::Plan without = plan::make_plan(config, world().rank());
  config.checkpoint.async = true;
  const plan::Plan with = plan::make_plan(config, world().rank());
  comm::Mesh mesh = test_mesh(config);
  engine::Engine engine(config, mesh, mesh.device());
  const Bytes before = ledger();
  const io::CheckpointSnapshot snapshot(engine::checkpoint_boxes(engine, mesh));
  const std::int64_t held = of(minus(ledger(), before), MemoryClass::offloaded);
  EXPECT_GT(held, 0);
  EXPECT_EQ(held, with.total_memory() - without.total_memory());
}

}  // namespace
}  // namespace trireme::test
