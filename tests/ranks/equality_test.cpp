// Sharding: whatever sums in the same order gives the same bits.
// SPDX-License-Identifier: Apache-2.0
// Strategies, prefetching, units, buckets and offloading: gradients, weights and moments.
#include "ranks/equality.hpp"

#include "support/device.hpp"

namespace trireme::test {
namespace {

std::string strategy(const std::string& name) {
  return "parallel.sharding_strategy=" + name;
}

std::string microbatches(int count) {
  return "batch.micro=" + std::to_string(12 / world().size() / count);
}

const Words types = is_watched() ? Words{"bf16"} : Words{"fp32", "bf16"};

// ZERO1 reduces the sum over microbatches once, like NO_SHARD; a reduce-scatter sums each
// element over the same ranks in the same order as an all-reduce, whoever keeps it.
TEST(Equality, Zero1IsNoShard) {
  for (const std::string& compute : types) {
    for (const char* model : {"llama", "gpt2-tied", "groups", "mixtral"}) {
      for (const int count : {1, 3}) {
        SCOPED_TRACE(format("{} {} {}", compute, model, count));
        const Words micro = {microbatches(count)};
        const Outcome whole = train(model, compute, micro + Words{strategy("NO_SHARD")});
        expect_same_bits(train(model, compute, micro + Words{strategy("ZERO1")}), whole);
      }
    }
  }
}

// With one microbatch there is one sum over ranks, in every strategy. (Not with a tied
// table: where gradients are sharded its two uses are summed over the ranks one by one.)
TEST(Equality, OneMicrobatchAllStrategies) {
  for (const std::string& compute : types) {
    for (const char* model : {"llama", "gpt2", "groups", "deepseek"}) {
      const Words micro = {microbatches(1)};
      const Outcome whole = train(model, compute, micro + Words{strategy("NO_SHARD")});
      for (const char* name : {"ZERO1", "SHARD_GRAD_OP", "FULL_SHARD"}) {
        SCOPED_TRACE(format("{} {} {}", compute, model, name));
        expect_same_bits(train(model, compute, micro + Words{strategy(name)}), whole);
      }
    }
  }
}

// Both sum each microbatch over ranks, then over microbatches; HYBRID_SHARD with one
// group is FULL_SHARD.
TEST(Equality, FullShardIsShardGradOp) {
  for (const std::string& compute : types) {
    for (const char* model : {"llama", "llama-tied", "groups", "deepseek"}) {
      SCOPED_TRACE(compute + " " + model);
      const Words micro = {microbatches(world().size() == 4 ? 3 : 2)};
      const Outcome grads =
          train(model, compute, micro + Words{strategy("SHARD_GRAD_OP")});
      expect_same_bits(train(model, compute, micro + Words{strategy("FULL_SHARD")}),
                       grads);
      const Words one_group = {strategy("HYBRID_SHARD"),
                               format("parallel.shard_group={}", world().size())};
      expect_same_bits(train(model, compute, micro + one_group), grads);
    }
  }
}

// Strategies that sum microbatches and ranks in another order differ by rounding, and so
// does HYBRID_SHARD, which sums over each group, then over groups. In fp64 a gradient is
// a sum of 12 x 24 tokens, with errors of some 100 eps at most: 1e-13 relative to its
// norm leaves room for cancellation, and Adam's first steps divide by it.
TEST(Equality, OtherOrdersAreClose) {
  const Outcome full = train("llama", "fp64", {strategy("FULL_SHARD")});
  std::vector<Words> others = {{strategy("NO_SHARD")}};
  if (world().size() == 4)
    others.push_back({strategy("HYBRID_SHARD"), "parallel.shard_group=2"});
  for (const Words& other : others) {
    SCOPED_TRACE(other.front());
    const Outcome outcome = train("llama", "fp64", other);
    expect_close(outcome.gradients, full.gradients, 1e-13);
    expect_close(outcome.state, full.state, 1e-9);
  }
}

// The norm is a sum over each rank's share, then over ranks, so that with clipping even
// strategies of the same gradient bits scale by factors that differ in the last bits: two
// or three roundings of 1.1e-16 each.
TEST(Equality, ClippingDiffersByTheNormsRounding) {
  const Words micro = {microbatches(1), "optimizer.clip=0.01"};
  const Outcome whole = train("llama", "fp64", micro + Words{strategy("NO_SHARD")}, 1);
  ASSERT_GT(whole.norms.front(), 0.01);
  for (const char* name : {"ZERO1", "SHARD_GRAD_OP", "FULL_SHARD"}) {
    SCOPED_TRACE(name);
    const Outcome other = train("llama", "fp64", micro + Words{strategy(name)}, 1);
    expect_same_bits(other.gradients, whole.gradients);
    EXPECT_NEAR(other.norms.front() / whole.norms.front(), 1.0, 1e-15);
    expect_close(other.state, whole.state, 1e-15);
  }
}

// When weights are gathered, and how many at a time, changes no sum.
TEST(Equality, PrefetchAndBounds) {
  for (const char* model : {"llama", "llama-tied"}) {
    const int needed = std::string(model) == "llama" ? 1 : 2;
    for (const std::string& compute : types) {
      const Words base = {strategy("FULL_SHARD"), "batch.micro=1"};
      const Outcome expected = train(model, compute, base);
      const auto check = [&](const Words& words, int bound) {
        SCOPED_TRACE(format("{} {} {}", model, compute, words.back()));
        int peak = 0;
        const auto inspect = [&](engine::Engine& engine) {
          peak = engine.store().peak_gathered();
        };
        expect_same_bits(train(model, compute, base + words, 3, inspect), expected);
        EXPECT_GE(peak, 1);
        EXPECT_LE(peak, bound);
      };
      for (const int ahead : {0, 1, 2})
        check({format("parallel.prefetch={}", ahead)}, needed + ahead);
      for (int units = needed; units <= 4; ++units)
        check({"parallel.prefetch=2", format("parallel.gathered_units={}", units)},
              units);
    }
  }
}

// Nor does how modules are put together into units.
TEST(Equality, Units) {
  for (const char* name : {"ZERO1", "SHARD_GRAD_OP", "FULL_SHARD"}) {
    for (const char* model : {"llama-tied", "groups", "mixtral"}) {
      if (is_watched() && std::string(name) != "FULL_SHARD") continue;
      const Words base = {strategy(name), microbatches(world().size() == 3 ? 2 : 3)};
      const Outcome expected = train(model, "fp32", base);
      for (const int size : {3000, 30000, 10000000}) {
        SCOPED_TRACE(format("{} {} {}", name, model, size));
        const Words words = {"parallel.wrap=size",
                             format("parallel.wrap_parameters={}", size)};
        expect_same_bits(train(model, "fp32", base + words), expected);
      }
      for (const char* const names : {"[\"block 1\"]", "[\"block *\",\"head\"]"}) {
        SCOPED_TRACE(format("{} {} {}", name, model, names));
        const Words words = {"parallel.wrap=names",
                             format("parallel.wrap_names={}", names)};
        expect_same_bits(train(model, "fp32", base + words), expected);
      }
    }
  }
}

// Nor does the size of a bucket, neither of reductions over replicas nor of those of
// partial gradients over the tensor axis.
TEST(Equality, Buckets) {
  std::vector<Words> meshes = {{}};
  if (world().size() != 3) {
    meshes.push_back({"parallel.tensor=2", "parallel.sequence=true", "batch.micro=2"});
    meshes.push_back({"parallel.tensor=2", strategy("FULL_SHARD")});
  }
  for (const std::string& compute : types) {
    for (const Words& mesh : meshes) {
      for (const char* model : {"llama-tied", "mixtral"}) {
        SCOPED_TRACE(compute + " " + model + (mesh.empty() ? "" : " " + mesh.back()));
        const auto with = [&](const char* size) {
          return train(model, compute,
                       mesh + Words{format("parallel.bucket_bytes=\"{}\"", size)});
        };
        const Outcome expected = with("1 KiB");
        expect_same_bits(with("4 KiB"), expected);
        expect_same_bits(with("25 MiB"), expected);
      }
    }
  }
}

// Bytes that cross between device and host, from the sizes of the units.
optim::OffloadTraffic expected_traffic(engine::Engine& engine, int steps) {
  const optim::ParameterStore& store = engine.store();
  const auto& config = store.config();
  const auto w = static_cast<std::int64_t>(size_of(config.type(TensorClass::weight)));
  const auto a =
      static_cast<std::int64_t>(size_of(config.type(TensorClass::gradient_sum)));
  std::int64_t trained = 0, shares = 0;
  for (const optim::FlatParameter& flat : store.flats()) {
    shares += flat.shard_elements();
    if (flat.frozen) continue;
    for (const optim::ParameterView& view : flat.views) {
      const Range share = flat.shard();
      trained += std::max<std::int64_t>(std::min(share.end, view.begin + view.elements) -
                                            std::max(share.begin, view.begin),
                                        0);
    }
  }
  // Each step: the share of the gradients down.
  optim::OffloadTraffic traffic{steps * trained * a, 0};
  if (config.offload == optim::Offload::optimizer) {
    // The share of the new weights up, after the initial ones.
    traffic.to_device = shares * w + steps * trained * w;
    return traffic;
  }
  // The shares of what is gathered up: each unit for each forward and backward of a step,
  // but those that are still there. One slot: head and embedding once. Two: the last two
  // units once more for backward, and the first two once more for the next forward.
  const std::int64_t M = engine.schedule().size() / 2;
  const std::size_t U = store.flats().size();
  for (std::size_t u = 0; u < U; ++u) {
    std::int64_t times = 0;
    if (config.prefetch == 0) {
      times = u == 0 || u + 1 == U ? M : 2 * M;
    } else {
      times = (u < 2 ? 1 : M) + (u + 2 < U ? M : 0);
    }
    traffic.to_device += steps * times * store.flats()[u].shard_elements() * w;
  }
  return traffic;
}

void compare_offload(const std::string& model, const std::string& compute,
                     const Words& base, const std::string& what, const Outcome& none) {
  SCOPED_TRACE(model + " " + compute + " " + base.front() + " " + what);
  optim::OffloadTraffic traffic, expected;
  const auto inspect = [&](engine::Engine& engine) {
    traffic = engine.store().offload_traffic();
    expected = expected_traffic(engine, 3);
  };
  const Words words = base + Words{"parallel.offload=" + what};
  expect_same_bits(train(model, compute, words, 3, inspect), none);
  EXPECT_EQ(traffic.to_host, expected.to_host);
  // The table of a tied model and frozen units are not gathered in the simple order.
  if (what == "optimizer" || model == "llama") {
    EXPECT_EQ(traffic.to_device, expected.to_device);
  }
}

// The host updates with the same formula.
TEST(Equality, Offload) {
  for (const std::string& compute : types) {
    for (const char* model : {"llama", "llama-tied", "groups"}) {
      for (const char* name : {"NO_SHARD", "ZERO1", "SHARD_GRAD_OP", "FULL_SHARD"}) {
        if (is_watched() && std::string(model) == "llama-tied") continue;
        const bool full = std::string(name) == "FULL_SHARD";
        for (const char* prefetch : {"0", "1"}) {
          if (!full && *prefetch == '0') continue;
          const Words base = {strategy(name),
                              std::string("parallel.prefetch=") + prefetch};
          const Outcome none = train(model, compute, base);
          compare_offload(model, compute, base, "optimizer", none);
          if (full) compare_offload(model, compute, base, "weights", none);
        }
      }
    }
  }
}

// Half of the state on the host, all of it or half on a disk: the numbers are the same,
// through several windows on each state, and nothing has a name in the folder.
TEST(Equality, OffloadToADiskOrInPart) {
  const DiskFolder folder;
  const Words disk = folder.words(), half = {"parallel.offload_fraction=0.5"};
  const std::vector<Words> ways = {disk, disk + half,
                                   Words{"parallel.offload=optimizer"} + half};
  for (const std::string& compute : types) {
    for (const char* model : {"llama-tied", "groups"}) {
      for (const char* name : {"NO_SHARD", "FULL_SHARD"}) {
        const Words base = {strategy(name)};
        const Outcome none = train(model, compute, base);
        for (const Words& way : ways) {
          SCOPED_TRACE(
              format("{} {} {} {} {}", model, compute, name, way.front(), way.back()));
          const auto inspect = [&](engine::Engine& engine) {
            const optim::ParameterStore& store = engine.store();
            const optim::OffloadTraffic& traffic = store.offload_traffic();
            const auto on_disk = static_cast<std::int64_t>(store.memory().disk_bytes());
            EXPECT_EQ(store.resident_optimizer_bytes() > 0, way.back() == half.back());
            EXPECT_LE(2 * store.resident_optimizer_bytes(), store.optimizer_bytes());
            EXPECT_EQ(on_disk > 0, way.front() == disk.front());
            // Each step reads all of it at most once. A window of frozen weights alone,
            // at an end of a share, may be read ahead: it is not written back.
            EXPECT_LE(traffic.to_disk, traffic.from_disk);
            EXPECT_LE(traffic.from_disk,
                      3 * static_cast<std::int64_t>(store.memory().file_bytes()));
            if (model != std::string("groups")) {
              EXPECT_EQ(traffic.from_disk, traffic.to_disk);
              EXPECT_GE(traffic.to_disk, 3 * on_disk);
            }
            EXPECT_TRUE(folder.is_empty());
          };
          expect_same_bits(train(model, compute, base + way, 3, inspect), none);
        }
      }
    }
  }
}

// Sharded weights on a disk beside their state: the numbers are the same, with the
// weights of a share of the units in memory, however far they are gathered ahead, with
// microbatches, recomputation, stages and hybrid sharding.
TEST(Equality, OffloadWeightsToADisk) {
  const DiskFolder folder;
  const Words disk = folder.words("disk_weights"),
              half = {"parallel.offload_fraction=0.5"};
  const bool even = world().size() % 2 == 0;
  std::vector<Words> bases = {
      {strategy("FULL_SHARD"), "parallel.prefetch=0", "recompute.policy=full"},
      {strategy("FULL_SHARD"), "parallel.prefetch=3"}};
  if (even) {
    bases.push_back({strategy("HYBRID_SHARD"), "parallel.shard_group=2"});
    bases.push_back({strategy("FULL_SHARD"), "parallel.pipeline=2",
                     "parallel.schedule=interleaved", "parallel.virtual_stages=2"});
  }
  const auto inspect = [&](engine::Engine& engine) {
    const optim::ParameterStore& store = engine.store();
    const optim::OffloadTraffic& traffic = store.offload_traffic();
    const auto weights = static_cast<std::int64_t>(store.memory().weight_bytes());
    // Each step reads the weights to gather them, and for the update, which writes them.
    EXPECT_GT(weights, 0);
    EXPECT_GT(traffic.from_disk, traffic.to_disk + 3 * weights);
    EXPECT_GT(traffic.to_device, 0);
    EXPECT_TRUE(folder.is_empty());
  };
  // Every model with every base: in fp32, where weights are their own master weights, or
  // bf16; all of the units or a share of them.
  std::size_t turn = 0;
  for (const Words& base : bases) {
    for (const char* model : {"llama-tied", "groups", "mixtral"}) {
      const std::string compute = ++turn % 2 == 0 ? "fp32" : "bf16";
      const Words way = turn % 4 < 2 ? disk : disk + half;
      SCOPED_TRACE(format("{} {} {} {} {}", model, compute, base.front(), base.back(),
                          way.back()));
      const Outcome none = train(model, compute, base);
      expect_same_bits(train(model, compute, base + way, 3, inspect), none);
    }
  }
}

}  // namespace
}  // namespace trireme::test
