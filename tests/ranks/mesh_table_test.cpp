// Every mesh of the table (meshes.txt) trains like one rank: the gradient of every tensor
// before clipping, the norm, and 20 losses.
// SPDX-License-Identifier: Apache-2.0
#include "support/mesh_table.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "support/mesh_run.hpp"
#include "support/world.hpp"

namespace trireme::test {
namespace {

constexpr int steps = 20;

// What one rank makes of a model, computed by rank 0 alone, once.
const Outcome& alone(const MeshLine& line, const std::string& compute) {
  static std::map<std::string, Outcome> known;
  const std::string key = line.model + " " + compute;
  const auto found = known.find(key);
  if (found != known.end()) return found->second;
  return known[key] = train_alone(mesh_config(line, compute), steps);
}

void compare(const MeshLine& line, const std::string& compute, const Limits& limits) {
  SCOPED_TRACE(line.text + " in " + compute);
  const auto config = mesh_config(line, compute);
  comm::Mesh mesh(world(), config.parallel.mesh, config.parallel.folding);
  const Outcome outcome = train_steps(config, mesh, steps);
  if (world().rank() == 0) expect_equal(outcome, alone(line, compute), limits);
}

TEST(MeshTable, EachMeshEqualsOneRank) {
  int run = 0;
  for (const MeshLine& line : read_mesh_table(MESH_TABLE)) {
    if (line.ranks != world().size()) continue;
    compare(line, "fp64", eq64);
    if (line.fp32) compare(line, "fp32", eq32);
    ++run;
    if (testing::Test::HasFailure()) break;
  }
  EXPECT_GT(run, 0) << "the table has no line for " << world().size() << " ranks";
}

// Every value that goes from a layer to the next is rounded to bf16 (relative error
// 2^-9) on any mesh, and the partial sums of tensor ranks once more: gradients of 7
// layers differ by about sqrt(4 * 7) 2^-9 = 1 % of their size, of which the limit is four
// times. The first loss differs by less, for the errors of tokens are independent.
TEST(MeshTable, Bf16StaysWithinItsRounding) {
  for (const MeshLine& line : read_mesh_table(MESH_TABLE)) {
    if (line.ranks != world().size() || !line.bf16) continue;
    SCOPED_TRACE(line.text);
    const auto config = mesh_config(line, "bf16");
    comm::Mesh mesh(world(), config.parallel.mesh, config.parallel.folding);
    const Outcome outcome = train_steps(config, mesh, 1);
    if (world().rank() != 0) continue;
    const Outcome& one = alone(line, "bf16");
    for (const auto& [name, gradient] : one.gradients) {
      EXPECT_LE(relative(outcome.gradients.at(name), gradient), 0.04) << name;
    }
    EXPECT_NEAR(outcome.losses[0], one.losses[0], 4e-3 * one.losses[0]);
  }
}

}  // namespace
}  // namespace trireme::test
