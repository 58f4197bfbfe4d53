// Every mesh of the table (meshes.txt) trains like one rank.
// SPDX-License-Identifier: Apache-2.0
// The gradient of every tensor before clipping, the norm, and 20 losses are compared.
#include "support/mesh_table.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "support/device.hpp"
#include "support/mesh_run.hpp"
#include "support/world.hpp"

namespace trireme::test {
namespace {

// In fp32 a token whose experts score nearly alike may go elsewhere on another mesh, and
// from then on losses part: mixtures of experts are compared at the first step.
// Where a step takes long, what happens in two would only happen again.
int steps_of(const MeshLine& line, const std::string& compute) {
  if (is_slow()) return 2;
  return compute != "fp64" && mesh_config(line, compute).model.has_experts() ? 1 : 20;
}

// What one rank makes of a model, computed by rank 0 alone, once.
const Outcome& alone(const MeshLine& line, const std::string& compute) {
  static std::map<std::string, Outcome> known;
  const std::string key = line.model + " " + compute + " " +
                          std::to_string(mesh_config(line, compute).model.sequence);
  const auto found = known.find(key);
  if (found != known.end()) return found->second;
  return known[key] = train_alone(mesh_config(line, compute), steps_of(line, compute));
}

// Gradients in fp32 are compared with those of fp64, from which the limit is meant: two
// runs in fp32 that are each within it may differ by twice as much.
void compare(const MeshLine& line, const std::string& compute, const Limits& limits) {
  SCOPED_TRACE(line.text + " in " + compute);
  const auto config = mesh_config(line, compute);
  comm::Mesh mesh = test_mesh(config);
  const Outcome outcome =
      train_steps(config, mesh, steps_of(line, compute), true, {}, {}, false);
  if (world().rank() != 0) return;
  Outcome one = alone(line, compute);
  if (compute == "fp32") one.gradients = alone(line, "fp64").gradients;
  expect_equal(outcome, one, limits);
}

TEST(MeshTable, EachMeshEqualsOneRank) {
  int run = 0;
  for (const MeshLine& line : read_mesh_table(MESH_TABLE)) {
    if (line.ranks != world().size()) continue;
    // An emulated GPU takes minutes for a line with many microbatches.
    if (test_device().is_cuda() && is_slow() && !line.fp32) continue;
    compare(line, "fp64", eq64);
    if (line.fp32) compare(line, "fp32", eq32);
    ++run;
    // Only rank 0 compares: all stop together.
    if (world().max(testing::Test::HasFailure() ? 1 : 0) > 0) break;
  }
  EXPECT_GT(run, 0) << "the table has no line for " << world().size() << " ranks";
}

// What bf16 does to a gradient, seen from the same model in fp64, is on a mesh what it is
// on one rank: the rounding errors of partial sums that tensor ranks add to those of each
// layer's ten values or so do not double them. A wrong factor or a missing sum is an
// error of the size of the gradient.
TEST(MeshTable, Bf16ErrsLikeOneRank) {
  for (const MeshLine& line : read_mesh_table(MESH_TABLE)) {
    if (line.ranks != world().size() || !line.bf16) continue;
    SCOPED_TRACE(line.text);
    const auto config = mesh_config(line, "bf16");
    ASSERT_FALSE(config.model.has_experts()) << "tokens would change experts";
    comm::Mesh mesh = test_mesh(config);
    const Outcome outcome = train_steps(config, mesh, 1, true, {}, {}, false);
    if (world().rank() != 0) continue;
    const Outcome& exact = alone(line, "fp64");
    const Outcome& one = alone(line, "bf16");
    for (const auto& [name, gradient] : exact.gradients) {
      EXPECT_LE(relative(outcome.gradients.at(name), gradient),
                2 * relative(one.gradients.at(name), gradient))
          << name;
    }
    EXPECT_LE(std::abs(outcome.losses[0] - exact.losses[0]), 4e-3 * exact.losses[0]);
  }
}

}  // namespace
}  // namespace trireme::test
