// Data ranks with unequally many microbatches train like one rank (uneven_meshes.txt).
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <map>

#include "support/mesh_run.hpp"
#include "support/mesh_table.hpp"
#include "support/world.hpp"

namespace trireme::test {
namespace {

// Of a ramp, a step of each of its two parts. Other batches are alike in every step: the
// second tells what the first has done to the weights, to scales and to routers.
int steps_of(const MeshLine& line) { return line.model == "ramp" ? 6 : 2; }

// What one rank makes of a line's model and batch, computed once.
const Outcome& alone(const MeshLine& line) {
  static std::map<std::string, Outcome> known;
  const config::RunConfig config = mesh_config(line, "fp64");
  const std::string key = line.model + " " + std::to_string(config.batch.global);
  const auto found = known.find(key);
  if (found != known.end()) return found->second;
  return known[key] = train_alone(config, steps_of(line));
}

void compare(const MeshLine& line) {
  SCOPED_TRACE(line.text);
  const auto config = mesh_config(line, "fp64");
  // Somewhere in the run, data ranks differ.
  std::int64_t stand_ins = 0;
  for (const config::BatchStage& stage : config.stages())
    stand_ins += config.stand_ins(stage.global);
  ASSERT_GT(stand_ins, 0);
  comm::Mesh mesh = test_mesh(config);
  const Outcome outcome = train_steps(config, mesh, steps_of(line));
  if (world().rank() != 0) return;
  const Outcome& one = alone(line);
  expect_equal(outcome, one, eq64);
  // Weights, moments and the routers' biases. AdamW divides by a root that may be tiny.
  for (const auto& [name, values] : one.state)
    EXPECT_LE(relative(outcome.state.at(name), values), 1e-7) << name;
}

TEST(UnevenBatch, EachMeshEqualsOneRank) {
  int run = 0;
  for (const MeshLine& line : read_mesh_table(MESH_TABLE)) {
    if (line.ranks != world().size()) continue;
    compare(line);
    ++run;
    // Only rank 0 compares: all stop together.
    if (world().max(testing::Test::HasFailure() ? 1 : 0) > 0) break;
  }
  EXPECT_GT(run, 0) << "the table has no line for " << world().size() << " ranks";
}

}  // namespace
}  // namespace trireme::test
