// Moments of 8 bits on meshes: codes do not depend on who holds what.
// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <filesystem>

#include "base/code_book.hpp"
#include "engine/whole_tensors.hpp"
#include "io/checkpoint.hpp"
#include "ranks/equality.hpp"
#include "support/loaded_checkpoint.hpp"
#include "support/written_checkpoint.hpp"

namespace trireme::test {
namespace {

// Matrices of 48 x 96 and more have codes; vectors stay in fp32.
config::RunConfig config_of(const Words& words, const char* model = "llama-tied") {
  auto config = equality_config(
      model, "fp32",
      Words{"model.layers=2", "model.hidden=96", "model.feed_forward=90"} + words);
  for (const TensorClass what : {TensorClass::moment1, TensorClass::moment2})
    config.precision.recipe[what] = {DType::u8, Scaling::dynamic};
  return config;
}

Outcome train(const config::RunConfig& config, int steps, const Inspect& inspect = {},
              const Resume& resume = {}) {
  comm::Mesh mesh = test_mesh(config);
  return train_steps(config, mesh, steps, true, inspect, resume);
}

Outcome train(const Words& words, int steps, const Inspect& inspect = {},
              const Resume& resume = {}) {
  return train(config_of(words), steps, inspect, resume);
}

Words strategy(const std::string& name) {
  return {"parallel.sharding_strategy=" + name,
          "batch.micro=" + std::to_string(12 / world().size())};
}

std::vector<Words> tensor_meshes() {
  if (world().size() == 3) return {};
  return {{"parallel.tensor=2"},
          {"parallel.tensor=2", "parallel.sharding_strategy=FULL_SHARD"},
          {"parallel.pipeline=2", "parallel.sharding_strategy=ZERO1"}};
}

// The same gradients (those of a tied table are summed in another order), and so the same
// codes: shards cut blocks anywhere.
TEST(DynamicMoments, StrategiesHaveTheSameBits) {
  const Outcome whole = train(config_of(strategy("NO_SHARD"), "llama"), 3);
  for (const char* name : {"ZERO1", "FULL_SHARD"}) {
    SCOPED_TRACE(name);
    expect_same_bits(train(config_of(strategy(name), "llama"), 3), whole);
  }
  const std::string up = "model.layers.0.mlp.up_proj.weight";
  EXPECT_EQ(whole.state.at("optimizer/moment1/" + up).size(), 90u * 96u);
  EXPECT_EQ(whole.state.at("optimizer/moment1_scale/" + up).size(), 34u);
}

// Offloaded codes are the same; magnitudes stay where they are.
TEST(DynamicMoments, Offloaded) {
  const Outcome home = train(strategy("FULL_SHARD"), 2);
  const DiskFolder folder;
  const Words host = {"parallel.offload=optimizer"},
              half = {"parallel.offload_fraction=0.5"};
  for (const Words& way : {host, folder.words(), folder.words() + half}) {
    SCOPED_TRACE(way.front() + " " + way.back());
    expect_same_bits(train(strategy("FULL_SHARD") + way, 2), home);
  }
}

// The optimizer's memory is planned to the byte, and is less than half of that of fp32:
// a byte an element and some of blocks and of vectors, for 4.
TEST(DynamicMoments, MemoryIsPlanned) {
  std::vector<Words> meshes = tensor_meshes();
  for (const char* name : {"NO_SHARD", "FULL_SHARD"}) meshes.push_back(strategy(name));
  for (const Words& mesh : meshes) {
    SCOPED_TRACE(mesh.front());
    const auto config = config_of(mesh);
    const std::int64_t before = memory_use(MemoryClass::optimizer).bytes;
    train(mesh, 1, [&](engine::Engine& engine) {
      comm::Mesh here = test_mesh(config);
      comm::Mesh meta =
          comm::Mesh::meta(here.shape(), here.rank(), here.folding(), here.device());
      engine::Engine planned(config, meta, Device::meta());
      const auto bytes = static_cast<std::int64_t>(planned.store().optimizer_bytes());
      EXPECT_EQ(memory_use(MemoryClass::optimizer).bytes - before, bytes);
      EXPECT_LT(2 * bytes, 8 * planned.store().local_elements());
      EXPECT_EQ(planned.store().workspace_bytes(), engine.store().workspace_bytes());
    });
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

// A checkpoint of any mesh goes on to the bit where it was written, and gives every rank
// of another mesh the same codes and magnitudes: blocks are those of whole tensors.
TEST(DynamicMoments, CheckpointsGoOn) {
  const std::string directory =
      world().broadcast(std::filesystem::temp_directory_path().string() +
                        format("/trireme-dynamic-{}", ::getpid()));
  const Words home = strategy("FULL_SHARD");
  std::vector<Words> meshes = tensor_meshes();
  meshes.push_back(home);
  for (const Words& mesh : meshes) {
    SCOPED_TRACE(mesh.front());
    const auto save = [&](engine::Engine& engine) {
      io::CheckpointInfo info;
      info.step = 2;
      write_checkpoint(world(), directory, info, boxes_of(engine), 0);
    };
    const auto load = [&](engine::Engine& engine) {
      test::load_by_all(world(), directory, boxes_of(engine));
      engine.store().refresh_weights();
    };
    const Outcome before = train(mesh, 2, save);
    const Outcome through = train(mesh, 3);
    expect_same_bits(train(mesh, 1, {}, {load, 3}).state, through.state);
    std::vector<Words> others = {strategy("NO_SHARD")};
    if (mesh == home) others = tensor_meshes();
    for (const Words& other : others)
      expect_same_bits(train(other, 0, {}, {load, 3}).state, before.state);
    if (world().rank() == 0) std::filesystem::remove_all(directory);
    comm::Mesh everyone(world(), {1, world().size(), 1, 1});
    Stream stream;
    double zero = 0;
    everyone.everyone().all_reduce(stream, TensorView(&zero, DType::f64, {1})).wait();
  }
}

// After a step from nothing, codes times magnitudes are a tenth of the gradient, up to
// half the distance of two numbers, at most 0.0071 of the block's largest, whose block is
// cut by rows, columns and ranks.
TEST(DynamicMoments, BlocksAreOfWholeTensors) {
  std::vector<Words> meshes = tensor_meshes();
  meshes.push_back(strategy("FULL_SHARD"));
  for (const Words& mesh : meshes) {
    SCOPED_TRACE(mesh.front());
    const Outcome outcome = train(mesh, 1);
    const auto& numbers = dynamic_map(DynamicType::signed_numbers).numbers;
    int tensors = 0;
    for (const auto& [name, gradient] : outcome.gradients) {
      const std::string tensor = name.substr(name.find('/') + 1);
      const auto scales = outcome.state.find("optimizer/moment1_scale/" + tensor);
      if (scales == outcome.state.end()) continue;
      ++tensors;
      const auto& codes = outcome.state.at("optimizer/moment1/" + tensor);
      ASSERT_EQ(codes.size(), gradient.size());
      for (std::size_t b = 0; b < scales->second.size(); ++b) {
        double most = 0;
        const std::size_t end = std::min(codes.size(), 256 * (b + 1));
        for (std::size_t i = 256 * b; i < end; ++i)
          most = std::max(most, 0.1 * std::abs(gradient[i]));
        ASSERT_NEAR(scales->second[b], most, 1e-5 * most) << tensor << " " << b;
        for (std::size_t i = 256 * b; i < end; ++i) {
          ASSERT_GT(codes[i], 0.0);  // every element is there
          const double value = double{numbers[static_cast<int>(codes[i]) - 1]} * most;
          ASSERT_NEAR(value, 0.1 * gradient[i], 0.0072 * most) << tensor << " " << i;
        }
      }
    }
    EXPECT_EQ(tensors, 10);
  }
}

}  // namespace
}  // namespace trireme::test
