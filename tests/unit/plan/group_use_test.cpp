// Communicators of NCCL: all that a run of any mesh of the tables uses, by plans of it.
// SPDX-License-Identifier: Apache-2.0
#include "engine/group_use.hpp"

#include <gtest/gtest.h>

#include "comm/meta_group.hpp"
#include "config/precision.hpp"
#include "plan/plan.hpp"
#include "support/device.hpp"
#include "support/mesh_table.hpp"

namespace trireme::plan {
namespace {

// Stages are planned on two threads, which a thread sanitizer watches in every kind of
// model and recipe that the tables have.
const PlannedDevice by_nccl{Device::cuda(0), comm::Transport::nccl, nullptr, 0, 2};

// Plans end in an error where they use a group that none is made for.
void plan_table(const std::string& name, const std::string& recipe) {
  int planned = 0;
  for (const test::MeshLine& line : test::read_mesh_table(MESH_TABLES + name)) {
    SCOPED_TRACE(line.text);
    config::RunConfig config = mesh_config(line, "bf16");
    if (config.adapter.matrices.dora) continue;  // which GPUs do not have
    // Refused by the deck's rules: rounds of experts with one scale for a tensor.
    if (config.parallel.expert_memory > 0 && recipe == "te_delayed") continue;
    config.precision = config::precision_of(recipe_named(recipe));
    EXPECT_NO_THROW(plan_stages(config, by_nccl));
    ++planned;
  }
  EXPECT_GT(planned, 10);
}

TEST(GroupUse, HasAllThatTheMeshesOfTheTableUse) {
  plan_table("meshes.txt", "te_delayed");
  if (test::is_watched()) return;
  for (const char* recipe : {"bf16", "te_blocks"}) plan_table("meshes.txt", recipe);
}
TEST(GroupUse, HasAllThatUnevenMeshesUse) { plan_table("uneven_meshes.txt", "bf16"); }
TEST(GroupUse, HasAllThatMeshesWithAdaptersUse) {
  plan_table("adapter_meshes.txt", "bf16");
}

TEST(GroupUse, CollectivesWithoutACommunicatorAreAnError) {
  Stream stream;
  const auto group = comm::make_planned_group("context", 0, 4, comm::Transport::nccl);
  const TensorView on_gpu(nullptr, DType::f32, {4}, Device::meta()),
      on_host(nullptr, DType::f32, {4}, comm::planned_host);
  group->all_reduce(stream, on_gpu).wait();
  comm::forbid_collectives(*group);
  EXPECT_THROW(group->all_reduce(stream, on_gpu).wait(), Error);
  group->all_reduce(stream, on_host).wait();
  group->send(stream, on_gpu, 1).wait();
  group->receive(stream, on_gpu, 3).wait();
}

}  // namespace
}  // namespace trireme::plan
