// Recipes: weights, gradients and moments in few bits.
// SPDX-License-Identifier: Apache-2.0
// Strategies that sum in one order give the same bits, checkpoints are resumed to the bit
// and load on another mesh, bytes per parameter and traffic are the published ones.
#include <unistd.h>

#include <cmath>
#include <filesystem>

#include "engine/whole_tensors.hpp"
#include "io/checkpoint.hpp"
#include "kernels/fp8.hpp"
#include "ranks/equality.hpp"
#include "support/loaded_checkpoint.hpp"
#include "support/written_checkpoint.hpp"

namespace trireme::test {
namespace {

const Words narrow = {"bf16_pure",   "bf16_autocast", "bf16_fp32_sum", "bf16_no_sum",
                      "ms_amp_o1",   "ms_amp_o2",     "ms_amp_o3",     "fp8_lm",
                      "deepseek_v3", "nanotron_fp8"};

// Modules multiply in bf16: what is tested here is what the store keeps and sends.
config::RunConfig recipe_config(const std::string& model, const std::string& recipe,
                                const Words& words) {
  config::RunConfig config =
      equality_config(model, "bf16", Words{"model.layers=2"} + words);
  // A recipe's name, and "+chance" for master weights that are rounded stochastically.
  const std::string name = recipe.substr(0, recipe.find('+'));
  config.precision.recipe = recipe_named(name);
  if (name != recipe) config.precision.recipe.stochastic = true;
  for (const TensorClass what :
       {TensorClass::forward_operand, TensorClass::backward_operand})
    config.precision.recipe[what] = {DType::bf16, Scaling::none};
  return config;
}

Outcome train_recipe(const std::string& model, const std::string& recipe,
                     const Words& words, int steps = 3, const Inspect& inspect = {},
                     const Resume& resume = {}) {
  const auto config = recipe_config(model, recipe, words);
  comm::Mesh mesh = test_mesh(config);
  return train_steps(config, mesh, steps, true, inspect, resume);
}

Words strategy(const std::string& name, int microbatches) {
  return {"parallel.sharding_strategy=" + name,
          "batch.micro=" + std::to_string(12 / world().size() / microbatches)};
}

TEST(Recipes, OneMicrobatchAllStrategies) {
  for (const std::string& recipe : narrow + Words{"bf16_pure+chance"}) {
    const Outcome whole = train_recipe("groups", recipe, strategy("NO_SHARD", 1), 2);
    for (const char* name : {"ZERO1", "FULL_SHARD"}) {
      SCOPED_TRACE(recipe + " " + name);
      expect_same_bits(train_recipe("groups", recipe, strategy(name, 1), 2), whole);
    }
  }
}

TEST(Recipes, Zero1IsNoShard) {
  for (const char* recipe : {"bf16_fp32_sum", "ms_amp_o1", "fp8_lm"}) {
    SCOPED_TRACE(recipe);
    const Outcome whole = train_recipe("llama-tied", recipe, strategy("NO_SHARD", 2), 2);
    expect_same_bits(train_recipe("llama-tied", recipe, strategy("ZERO1", 2), 2), whole);
  }
}

TEST(Recipes, FullShardIsShardGradOp) {
  for (const char* recipe : {"bf16_no_sum", "ms_amp_o3"}) {
    SCOPED_TRACE(recipe);
    const Outcome whole =
        train_recipe("llama-tied", recipe, strategy("SHARD_GRAD_OP", 2), 2);
    expect_same_bits(train_recipe("llama-tied", recipe, strategy("FULL_SHARD", 2), 2),
                     whole);
  }
}

TEST(Recipes, Experts) {
  const auto with = [&](const char* name) {
    return train_recipe("mixtral", "fp8_lm",
                        {std::string("parallel.sharding_strategy=") + name,
                         format("parallel.expert={}", world().size() == 3 ? 3 : 2)},
                        2);
  };
  expect_same_bits(with("ZERO1"), with("NO_SHARD"));
}

// bf16's weights in use are its master weights rounded; so are autocast's, each time.
TEST(Recipes, AutocastIsMasterWeights) {
  for (const char* name : {"NO_SHARD", "FULL_SHARD"}) {
    for (const char* model : {"llama-tied", "mixtral"}) {
      SCOPED_TRACE(std::string(model) + " " + name);
      const Words words = strategy(name, 2);
      const Outcome masters = train_recipe(model, "bf16", words, 2);
      expect_same_bits(train_recipe(model, "bf16_autocast", words, 2), masters);
    }
  }
}

// Rounding of gradients and state moves the gradient of the first step by no more than
// the coarsest type on its way can: 2^-8 for each rounding to bf16, 2^-4 for each to
// E4M3, a microbatch, a sum of two, one on the wire, one of the result.
TEST(Recipes, GradientsAreRoundedOnly) {
  const Outcome exact = train_recipe("llama", "bf16", strategy("NO_SHARD", 2), 1);
  for (const std::string& recipe : narrow) {
    const Recipe& table = recipe_named(recipe);
    if (is_fp8(table[TensorClass::weight].type) || recipe == "bf16_pure")
      continue;  // other weights, and so other gradients
    const bool fp8 = is_fp8(recipe_named(recipe)[TensorClass::gradient].type);
    const Outcome outcome = train_recipe("llama", recipe, strategy("NO_SHARD", 2), 1);
    SCOPED_TRACE(recipe);
    expect_close(outcome.gradients, exact.gradients, (fp8 ? 0x1p-4 : 0x1p-8) * 4);
  }
}

// One scale for each tensor, the least that holds its largest number on whatever rank.
TEST(Recipes, ScalesAreOfWholeTensors) {
  std::vector<Words> meshes = {{"parallel.sharding_strategy=FULL_SHARD"}};
  if (world().size() != 3) {
    meshes.push_back({"parallel.tensor=2"});
    meshes.push_back({"parallel.pipeline=2"});
  }
  for (const Words& mesh : meshes) {
    SCOPED_TRACE(mesh.front());
    // Every rank of a stage has every scale of it, and the same.
    const auto compare = [&](engine::Engine& engine) {
      std::vector<double> mine;
      for (const auto& box : engine.store().state_boxes()) {
        if (box.section.ends_with("_scale"))
          mine.push_back(double{box.data.data<float>()[0]});
      }
      std::vector<double> most = mine;
      if (mesh.front() == "parallel.pipeline=2") return;
      comm::Mesh all(world(), {1, world().size(), 1, 1});
      Stream stream;
      const TensorView view(most.data(), DType::f64,
                            {static_cast<std::int64_t>(most.size())});
      all.everyone().all_reduce(stream, view, comm::Reduce::max).wait();
      EXPECT_EQ(mine, most);
    };
    const Outcome outcome = train_recipe("llama-tied", "ms_amp_o2", mesh, 2, compare);
    int tensors = 0;
    for (const auto& [name, scale] : outcome.state) {
      const std::string section = "optimizer/moment1_scale/";
      if (!name.starts_with(section)) continue;
      ++tensors;
      const auto& codes =
          outcome.state.at("optimizer/moment1/" + name.substr(section.size()));
      float most = 0;
      for (const double code : codes) {
        ASSERT_GT(code, 0.0);  // every element is there
        most = std::max(most,
                        std::abs(kernels::fp8_decode(static_cast<std::uint8_t>(code - 1),
                                                     kernels::Fp8Format::e4m3)));
      }
      EXPECT_EQ(std::exp2(std::round(std::log2(scale.front()))), scale.front()) << name;
      EXPECT_GE(most, 224) << name;
      EXPECT_LE(most, 448) << name;
    }
    EXPECT_GT(tensors, 10);
  }
}

TEST(Recipes, ChanceIsNotNearest) {
  const Outcome nearest = train_recipe("llama", "bf16_pure", strategy("NO_SHARD", 1), 1);
  const Outcome chance =
      train_recipe("llama", "bf16_pure+chance", strategy("NO_SHARD", 1), 1);
  const std::string name = "model/model.embed_tokens.weight";
  EXPECT_NE(nearest.state.at(name), chance.state.at(name));
  EXPECT_LE(relative(chance.state.at(name), nearest.state.at(name)), 0x1p-7);
}

// Of this rank: a tensor's width, and what modules compute with, by place in the tensor.
struct UsedWeights {
  std::int64_t width = 1;
  std::vector<std::pair<std::int64_t, float>> values;
};

std::map<std::string, UsedWeights> used_weights(engine::Engine& engine, int modules) {
  std::map<std::string, UsedWeights> used;
  for (int module = 0; module < modules; ++module) {
    engine.store().fetch(module, Direction::forward);
    for (const Param* param : engine.store().params()) {
      if (param->value.empty()) continue;
      for (const NamedBox& named : param->boxes) {
        const bool matrix = named.whole.rank() == 2;
        const std::int64_t here = matrix ? named.extent[1] : 1;
        UsedWeights& weights = used[named.tensor];
        weights.width = matrix ? named.whole[1] : 1;
        for (std::int64_t i = 0; i < named.extent.elements(); ++i) {
          const std::int64_t row = named.global_begin[0] + i / here;
          const std::int64_t column = matrix ? named.global_begin[1] + i % here : 0;
          const BFloat16 value =
              param->value.data<BFloat16>()[named.local_begin[0] * here + i];
          weights.values.emplace_back(row * weights.width + column,
                                      static_cast<float>(value));
        }
      }
    }
    engine.store().release(module);
  }
  return used;
}

// Expects the master weights in E4M3 at the scale of their 128 x 128 blocks. Returns
// how many blocks there are.
std::size_t expect_blocks(const UsedWeights& used, const std::vector<double>& master) {
  const auto block = [&used](std::int64_t at) {
    return at / used.width / 128 * 1000 + at % used.width / 128;
  };
  std::map<std::int64_t, float> amaxes;
  for (std::size_t i = 0; i < master.size(); ++i) {
    float& most = amaxes[block(static_cast<std::int64_t>(i))];
    most = std::max(most, static_cast<float>(std::abs(master[i])));
  }
  int wrong = 0;
  for (const auto& [at, value] : used.values) {
    const float scale = optim::power_scale(amaxes.at(block(at)), DType::e4m3, 1);
    const auto exact = static_cast<float>(master[static_cast<std::size_t>(at)]);
    const auto code = kernels::fp8_encode(exact / scale, kernels::Fp8Format::e4m3);
    if (kernels::fp8_decode(code, kernels::Fp8Format::e4m3) * scale != value) ++wrong;
  }
  EXPECT_EQ(wrong, 0) << "of " << used.values.size();
  return amaxes.size();
}

// Squares are those of the whole tensor, wherever a mesh cuts it.
TEST(Recipes, WeightsBySquares) {
  std::vector<Words> meshes = {{"parallel.sharding_strategy=FULL_SHARD"},
                               {"parallel.sharding_strategy=NO_SHARD"}};
  if (world().size() != 3) {
    meshes.push_back({"parallel.tensor=2"});
    meshes.push_back({"parallel.tensor=2", "parallel.sharding_strategy=FULL_SHARD"});
  }
  for (const Words& mesh : meshes) {
    SCOPED_TRACE(mesh.back());
    constexpr int modules = 4;  // embedding, two blocks, head
    std::map<std::string, UsedWeights> used;
    const Outcome outcome = train_recipe(
        "llama", "deepseek_v3",
        mesh + Words{"model.hidden=192", "model.feed_forward=144"}, 2,
        [&](engine::Engine& engine) { used = used_weights(engine, modules); });
    std::size_t most = 0;
    for (const auto& [tensor, weights] : used) {
      SCOPED_TRACE(tensor);
      most = std::max(most, expect_blocks(weights, outcome.state.at("model/" + tensor)));
    }
    EXPECT_GE(most, 4);
  }
}

std::vector<io::TensorBox> boxes_of(engine::Engine& engine) {
  std::vector<io::TensorBox> boxes;
  for (const auto& box : engine.store().state_boxes()) {
    boxes.push_back(
        {engine::name_of(box), box.named->whole, box.global_begin, box.data, box.write});
  }
  return boxes;
}

// A checkpoint holds codes and scales. It goes on to the bit where it was written, and
// gives every rank of another mesh the same numbers.
TEST(Recipes, CheckpointsGoOn) {
  const std::string directory =
      world().broadcast(std::filesystem::temp_directory_path().string() +
                        format("/trireme-recipes-{}", ::getpid()));
  for (const char* recipe :
       {"ms_amp_o3", "bf16_pure+chance", "deepseek_v3", "nanotron_fp8"}) {
    SCOPED_TRACE(recipe);
    const Words home = strategy("FULL_SHARD", 2);
    const auto save = [&](engine::Engine& engine) {
      io::CheckpointInfo info;
      info.step = 2;
      write_checkpoint(world(), directory, info, boxes_of(engine), 0);
    };
    const Outcome before = train_recipe("llama-tied", recipe, home, 2, save);
    const auto load = [&](engine::Engine& engine) {
      test::load_by_all(world(), directory, boxes_of(engine));
      engine.store().refresh_weights();
    };
    const Outcome through = train_recipe("llama-tied", recipe, home, 3);
    const Outcome resumed = train_recipe("llama-tied", recipe, home, 1, {}, {load, 3});
    expect_same_bits(resumed.state, through.state);
    std::vector<Words> others = {strategy("NO_SHARD", 2)};
    if (world().size() != 3) {
      others.push_back({"parallel.tensor=2"});
      others.push_back({"parallel.pipeline=2", "parallel.sharding_strategy=ZERO1"});
    }
    for (const Words& other : others) {
      SCOPED_TRACE(other.front());
      const Outcome moved = train_recipe("llama-tied", recipe, other, 0, {}, {load, 3});
      expect_same_bits(moved.state, before.state);
    }
    if (world().rank() == 0) std::filesystem::remove_all(directory);
    comm::Mesh everyone(world(), {1, world().size(), 1, 1});
    Stream stream;
    double zero = 0;
    everyone.everyone().all_reduce(stream, TensorView(&zero, DType::f64, {1})).wait();
  }
}

// State on the host takes the same numbers, and lies there; its bytes are counted.
TEST(Recipes, OffloadedState) {
  const DiskFolder folder;
  for (const char* recipe : {"bf16_pure", "fp8_lm", "deepseek_v3", "nanotron_fp8"}) {
    const bool full = is_fp8(recipe_named(recipe)[TensorClass::gradient].type);
    const Words words = strategy(full ? "FULL_SHARD" : "ZERO1", 1);
    const Outcome home = train_recipe("llama-tied", recipe, words, 2);
    for (const std::string what : {"optimizer", "weights", "disk", "disk_weights"}) {
      if (!full && what.ends_with("weights")) continue;
      SCOPED_TRACE(format("{} {}", recipe, what));
      const std::int64_t before = memory_use(MemoryClass::optimizer).bytes;
      optim::OffloadTraffic traffic;
      const auto inspect = [&](engine::Engine& engine) {
        traffic = engine.store().offload_traffic();
        EXPECT_EQ(memory_use(MemoryClass::optimizer).bytes, before);
      };
      const Words away =
          words + (what.starts_with("disk") ? folder.words(what)
                                            : Words{"parallel.offload=" + what});
      expect_same_bits(train_recipe("llama-tied", recipe, away, 2, inspect), home);
      EXPECT_GT(traffic.to_host, 0);
      EXPECT_GT(traffic.to_device, 0);
    }
  }
}

// Bytes per parameter of the published recipes: Megatron-LM's and nanotron's fp32 sums
// 20, none 16, Transformer Engine 16, FP8-LM 9, DeepSeek-V3 15, nanotron 10, MS-AMP's
// three levels 11, 6 and 7.
TEST(Recipes, BytesPerParameter) {
  const std::map<std::string, double> published = {
      {"bf16", 18},          {"bf16_fp32_sum", 20}, {"bf16_no_sum", 16},
      {"te_current", 16},    {"fp8_lm", 9},         {"bf16_pure", 8},
      {"bf16_autocast", 16}, {"deepseek_v3", 15},   {"nanotron_fp8", 10},
      {"ms_amp_o1", 11},     {"ms_amp_o2", 6},      {"ms_amp_o3", 7}};
  Words all = narrow;
  for (const char* name : {"bf16", "te_current", "te_delayed"}) all.push_back(name);
  for (const std::string& name : all) {
    SCOPED_TRACE(name);
    const auto config = recipe_config("llama", name, strategy("NO_SHARD", 1));
    const MemoryUse before[] = {memory_use(MemoryClass::weights),
                                memory_use(MemoryClass::gradients),
                                memory_use(MemoryClass::optimizer)};
    comm::Mesh mesh = test_mesh(config);
    engine::Engine engine(config, mesh, mesh.device());
    const optim::ParameterStore& store = engine.store();
    std::int64_t padded = 0;
    for (const optim::FlatParameter& flat : store.flats()) padded += flat.elements;
    const double bytes = recipe_named(name).bytes_per_parameter();
    if (published.contains(name)) {
      EXPECT_EQ(bytes, published.at(name));
    }
    EXPECT_EQ(static_cast<double>(store.state_bytes()),
              bytes * static_cast<double>(padded));
    // The ledger has this, and rooms of one module and the next for conversion.
    std::int64_t held = 0;
    for (int c = 0; c < 3; ++c) {
      constexpr MemoryClass classes[] = {MemoryClass::weights, MemoryClass::gradients,
                                         MemoryClass::optimizer};
      held += memory_use(classes[c]).bytes - before[c].bytes;
    }
    EXPECT_EQ(held,
              static_cast<std::int64_t>(store.weight_bytes() + store.gradient_bytes() +
                                        store.optimizer_bytes()));
  }
}

// Of NO_SHARD's gradients, each step: in FP8 a part of each unit to every other rank and
// back, a byte an element, and every tensor's largest magnitude, in bf16 an all-reduce.
TEST(Recipes, GradientTraffic) {
  const std::int64_t P = world().size();
  for (const char* recipe : {"ms_amp_o1", "fp8_lm"}) {
    std::int64_t sent = 0, expected = 0;
    const auto inspect = [&](engine::Engine& engine) {
      for (const optim::FlatParameter& flat : engine.store().flats()) {
        const std::int64_t part =
            divide_up(divide_up(flat.elements, P), optim::alignment_elements) *
            optim::alignment_elements;
        expected += 2 * 2 * (P - 1) * part;
        comm::Group& group = *flat.replicate_group;
        sent = group.traffic(comm::Collective::all_to_all).bytes +
               group.traffic(comm::Collective::all_gather).bytes;
      }
    };
    train_recipe("llama", recipe, strategy("NO_SHARD", 1), 2, inspect);
    EXPECT_EQ(sent, expected) << recipe;
  }
}

// FULL_SHARD gathers a byte an element.
TEST(Recipes, WeightTraffic) {
  const auto gathered = [](const char* recipe) {
    std::int64_t bytes = 0;
    train_recipe("llama", recipe, strategy("FULL_SHARD", 1), 1,
                 [&](engine::Engine& engine) {
                   bytes = engine.store()
                               .flats()
                               .front()
                               .shard_group->traffic(comm::Collective::all_gather)
                               .bytes;
                 });
    return bytes;
  };
  EXPECT_GT(gathered("fp8_lm"), 0);
  EXPECT_EQ(2 * gathered("fp8_lm"), gathered("bf16_pure"));
  EXPECT_EQ(4 * gathered("ms_amp_o3"), gathered("bf16_autocast"));
}

}  // namespace
}  // namespace trireme::test
