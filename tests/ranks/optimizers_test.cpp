// Optimizers on meshes: gradients, losses and weights are those of one rank.
// SPDX-License-Identifier: Apache-2.0
// A run is resumed to the bit, and a checkpoint is at home on another mesh.
#include <unistd.h>

#include <filesystem>

#include "engine/checkpoint_boxes.hpp"
#include "ranks/equality.hpp"
#include "support/loaded_checkpoint.hpp"
#include "support/written_checkpoint.hpp"
#include "train/missing_state.hpp"

namespace trireme::test {
namespace {

config::RunConfig config_of(const std::string& model, const std::string& optimizer,
                            const Words& words) {
  return equality_config(
      model, "fp64",
      Words{"optimizer.name=" + optimizer, "model.layers=2", "optimizer.clip=1"} + words);
}

// A model and a mesh for this many ranks; what does not say so is sharded over the data.
struct Line {
  std::string model;
  Words words;
};
std::vector<Line> lines() {
  std::vector<Line> all;
  for (const char* strategy : {"NO_SHARD", "ZERO1", "SHARD_GRAD_OP", "FULL_SHARD"})
    all.push_back({"llama", {format("parallel.sharding_strategy={}", strategy)}});
  const std::string ranks = std::to_string(world().size());
  all.push_back({"gpt2-tied", {"parallel.tensor=" + ranks}});
  all.push_back(
      {"mixtral", {"parallel.expert=" + ranks, "parallel.sharding_strategy=FULL_SHARD"}});
  if (world().size() == 3) return all;
  all.push_back(
      {"llama", {"parallel.tensor=2", "parallel.sharding_strategy=FULL_SHARD"}});
  all.push_back(
      {"llama-tied", {"parallel.pipeline=2", "parallel.sharding_strategy=FULL_SHARD"}});
  if (world().size() == 2) return all;
  all.push_back(
      {"deepseek",
       {"parallel.tensor=2", "parallel.expert=2", "parallel.sharding_strategy=ZERO1"}});
  all.push_back(
      {"llama", {"parallel.sharding_strategy=HYBRID_SHARD", "parallel.shard_group=2"}});
  return all;
}

// What an element moves may change with the sign of a rounding error where its gradient
// is 0 (a key's bias, a token that does not occur): such tensors are few elements, and
// Lion's weights are compared by losses alone.
void compare(const std::string& optimizer) {
  for (const Line& line : lines()) {
    SCOPED_TRACE(optimizer + " " + line.model + " " + line.words.front());
    const auto config = config_of(line.model, optimizer, line.words);
    comm::Mesh mesh = test_mesh(config);
    const Outcome many = train_steps(config, mesh, 3);
    if (world().rank() != 0) continue;
    const Outcome one = train_alone(config_of(line.model, optimizer, {}), 3);
    expect_equal(many, one, eq64);
    if (optimizer == "muon") expect_close(many.state, one.state, 1e-9);
  }
}

TEST(Optimizers, LionIsThatOfOneRank) { compare("lion"); }
TEST(Optimizers, MuonIsThatOfOneRank) { compare("muon"); }

void load(engine::Engine& engine, comm::Mesh& mesh, const std::string& directory,
          const std::string& optimizer) {
  const auto boxes =
      train::boxes_to_load(world(), io::CheckpointReader(directory, io::no_digests),
                           engine::checkpoint_boxes(engine, mesh), optimizer);
  test::load_by_all(world(), directory, boxes);
  engine.store().refresh_weights();
}

TEST(Optimizers, GoOnFromACheckpointHereAndElsewhere) {
  const std::string directory =
      world().broadcast(std::filesystem::temp_directory_path().string() +
                        format("/trireme-optimizers-{}", ::getpid()));
  for (const char* optimizer : {"lion", "muon"}) {
    SCOPED_TRACE(optimizer);
    const auto config =
        config_of("llama", optimizer, {"parallel.sharding_strategy=FULL_SHARD"});
    comm::Mesh mesh = test_mesh(config);
    const auto save = [&](engine::Engine& engine) {
      io::CheckpointInfo info;
      info.step = 2;
      write_checkpoint(world(), directory, info, engine::checkpoint_boxes(engine, mesh),
                       0);
    };
    train_steps(config, mesh, 2, true, save);
    const Outcome through = train_steps(config, mesh, 3);
    const Outcome resumed = train_steps(
        config, mesh, 1, true, {},
        {[&](engine::Engine& engine) { load(engine, mesh, directory, optimizer); }, 3});
    expect_same_bits(resumed.state, through.state);
    const auto other = config_of("llama", optimizer,
                                 {"parallel.tensor=" + std::to_string(world().size())});
    comm::Mesh elsewhere = test_mesh(other);
    const Outcome moved = train_steps(
        other, elsewhere, 1, true, {},
        {[&](engine::Engine& engine) { load(engine, elsewhere, directory, optimizer); },
         3});
    if (world().rank() == 0) {
      for (std::size_t i = 0; i < moved.losses.size(); ++i)
        EXPECT_NEAR(moved.losses[i], through.losses[i + 2], eq64.loss);
      if (std::string_view(optimizer) == "muon")
        expect_close(moved.state, through.state, 1e-9);
    }
    world().agree([&] {
      if (world().rank() == 0) std::filesystem::remove_all(directory);
    });
  }
}

}  // namespace
}  // namespace trireme::test
