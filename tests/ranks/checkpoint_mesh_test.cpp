// Checkpoints between meshes: one line of checkpoint_meshes.txt for a process group.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include "engine/checkpoint_boxes.hpp"
#include "engine/whole_tensors.hpp"
#include "io/digest.hpp"
#include "io/files.hpp"
#include "support/loaded_checkpoint.hpp"
#include "support/mesh_run.hpp"
#include "support/mesh_table.hpp"
#include "support/step.hpp"
#include "support/world.hpp"
#include "support/written_checkpoint.hpp"
#include "train/checkpoint_load.hpp"

namespace trireme::test {
namespace {

std::string setting(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

config::RunConfig config_of(std::size_t line) {
  auto lines = read_mesh_table(CHECKPOINT_MESHES);
  MeshLine& mesh = lines.at(line);
  require(mesh.ranks == world().size(), "line {} is of {} ranks", line, mesh.ranks);
  mesh.overrides.insert(mesh.overrides.end(),
                        {"model.layers=3", "model.moe.experts=4", "model.moe.top_k=2"});
  return mesh_config(mesh, "fp64");
}

using Digests = std::map<std::string, std::string>;

// Of every tensor, whole, as this mesh has it in memory.
Digests digests_of(engine::Engine& engine, comm::Mesh& mesh) {
  Digests digests;
  const auto boxes = engine.store().state_boxes();
  for (const auto& [name, shape] : engine::all_tensors(world(), boxes)) {
    const Buffer whole(Device::host(), DType::f64, shape, MemoryClass::workspace, "");
    engine::gather_whole(mesh, boxes, name, whole.view());
    io::Digest digest;
    digest.add(whole.view().raw(), whole.bytes());
    digests[name] = digest.text();
  }
  return digests;
}

struct Record {
  Digests digests;
  double loss = 0;
};

std::string stem(std::size_t line) {
  return setting("TRIREME_MESH_FOLDER") + "/mesh-" + std::to_string(line);
}

Record read_record(std::size_t line) {
  Record record;
  std::istringstream words(io::read_text(stem(line) + ".txt", 1 << 24));
  std::string name, digest;
  words >> name;
  record.loss = std::strtod(name.c_str(), nullptr);
  while (words >> name >> digest) record.digests[name] = digest;
  return record;
}

// Trains two steps, saves, and notes what it saved and the next step's loss.
TEST(CheckpointMesh, Write) {
  if (setting("TRIREME_MESH_PHASE") != "write")
    GTEST_SKIP() << "for checkpoint_meshes.sh";
  const std::size_t line = std::stoul(setting("TRIREME_MESH_LINE"));
  const auto config = config_of(line);
  comm::Mesh mesh = test_mesh(config);
  train_steps(config, mesh, 2, false, [&](engine::Engine& engine) {
    io::CheckpointInfo info;
    info.step = 2;
    info.mesh = config.parallel.mesh;
    write_checkpoint(world(), stem(line), info, engine::checkpoint_boxes(engine, mesh),
                     0);
    const Digests digests = digests_of(engine, mesh);
    AtGradients nobody;
    const double loss = step_of(engine, config, mesh, nobody).loss;
    if (world().rank() != 0) return;
    std::ofstream file(stem(line) + ".txt");
    char text[64];
    std::snprintf(text, sizeof text, "%a\n", loss);
    file << text;
    for (const auto& [name, digest] : digests) file << name << ' ' << digest << '\n';
  });
}

// Tensors that are not trained by gradients are the same on every mesh that has them.
void expect_states(engine::Engine& engine, const io::CheckpointReader& reader) {
  for (const StateTensor* state : engine.states()) {
    const TensorView& value = state->value;
    const Buffer saved(Device::host(), value.dtype(), value.shape(),
                       MemoryClass::workspace, "");
    reader.read("model/" + state->named.tensor, state->named.whole,
                state->named.global_begin, saved.view());
    EXPECT_EQ(std::memcmp(saved.view().raw(), value.raw(), value.bytes()), 0)
        << state->named.tensor;
  }
}

// Loads what every mesh saved.
TEST(CheckpointMesh, Read) {
  if (setting("TRIREME_MESH_PHASE") != "read") GTEST_SKIP() << "for checkpoint_meshes.sh";
  const std::size_t line = std::stoul(setting("TRIREME_MESH_LINE"));
  const auto config = config_of(line);
  comm::Mesh mesh = test_mesh(config);
  engine::Engine engine(config, mesh, mesh.device());
  const std::size_t meshes = read_mesh_table(CHECKPOINT_MESHES).size();
  EXPECT_GE(meshes, 12U);
  int pairs = 0;
  for (std::size_t source = 0; source < meshes; ++source) {
    SCOPED_TRACE(format("from line {}", source));
    const Record record = read_record(source);
    engine.store().initialize(100 + source);
    const Digests fresh = digests_of(engine, mesh);
    for (const auto& [name, digest] : fresh) {
      if (name.starts_with("model/") && name.find("norm") == name.npos) {
        EXPECT_NE(digest, record.digests.at(name)) << name;
      }
    }
    const auto boxes = engine::checkpoint_boxes(engine, mesh);
    if (source % 2 == 0)
      load_by_all(world(), stem(source), boxes);
    else
      train::load_by_one(world(), mesh, stem(source), boxes);
    engine.store().refresh_weights();
    EXPECT_EQ(digests_of(engine, mesh), record.digests);
    const io::CheckpointReader reader(stem(source), io::no_digests);
    EXPECT_EQ(reader.info().step, 2);
    expect_states(engine, reader);
    AtGradients nobody;
    const double loss = step_of(engine, config, mesh, nobody).loss;
    EXPECT_NEAR(loss, record.loss, eq64.loss);
    if (source == line) {
      EXPECT_EQ(loss, record.loss);
    }
    ++pairs;
  }
  if (world().rank() == 0) std::printf("%d pairs\n", pairs);
}

}  // namespace
}  // namespace trireme::test
