// The first step with NCCL, where the first launch of a kernel waits until a GPU is idle.
// SPDX-License-Identifier: Apache-2.0
//
// A receive that was posted before would keep the GPU busy until its peer has sent. A
// deadlock ends the test: the emulation finds it.
#include <cuda_emulation/control.hpp>

#include "ranks/equality.hpp"
#include "support/device.hpp"

namespace trireme::test {
namespace {

struct Case {
  const char *schedule, *virtual_stages;
};
constexpr Case cases[] = {{"gpipe", "1"},       {"1f1b", "1"}, {"zb_h1", "1"},
                          {"interleaved", "2"}, {"zb_v", "2"}, {"dualpipe_v", "2"}};

// A pipeline of `stages` ranks, FULL_SHARD over the others, so that messages of both
// kinds are in flight at once.
config::RunConfig config_of(const Case& c, int stages, int microbatches,
                            const std::string& architecture = "llama", int sequence = 4) {
  const int replicas = world().size() / stages;
  return equality_config(
      architecture, "fp32",
      {"parallel.pipeline=" + std::to_string(stages),
       "parallel.sharding_strategy=" +
           std::string(replicas > 1 ? "FULL_SHARD" : "NO_SHARD"),
       std::string("parallel.schedule=") + c.schedule,
       std::string("parallel.virtual_stages=") + c.virtual_stages, "batch.micro=1",
       "batch.global=" + std::to_string(microbatches * replicas),
       "model.sequence=" + std::to_string(sequence), "model.hidden=24", "model.heads=2",
       "model.kv_heads=1", "model.feed_forward=8",
       "model.layers=" + std::to_string(2 * stages)});
}

// Every kernel of the first steps is loaded in them.
Outcome first_steps(const config::RunConfig& config, comm::Transport transport, bool lazy,
                    int steps = 1) {
  cuda_emulation::set_lazy_loading(lazy);
  comm::Mesh mesh(world(), config.parallel.mesh, config.parallel.folding, test_device(),
                  transport);
  cuda_emulation::forget_loaded_kernels();
  return train_steps(config, mesh, steps, true);
}

void compare(const Case& c, int stages, int microbatches) {
  SCOPED_TRACE(std::string(c.schedule) + ", " + std::to_string(stages) + " stages, " +
               std::to_string(microbatches) + " microbatches");
  const auto config = config_of(c, stages, microbatches);
  expect_same_bits(first_steps(config, comm::Transport::nccl, true),
                   first_steps(config, comm::Transport::mpi, false));
}

TEST(LazyLoading, NoScheduleHangsInItsFirstStep) {
  for (const Case& c : cases)
    for (int microbatches = 1; microbatches <= 8; ++microbatches)
      compare(c, world().size(), microbatches);
}

TEST(LazyLoading, NorWithShardsOfWeightsInFlight) {
  if (world().size() != 4) GTEST_SKIP() << "for four ranks";
  for (const Case& c : cases)
    for (const int microbatches : {1, 3}) compare(c, 2, microbatches);
}

// Experts get other numbers of rows in each step, and with them other kernels of a
// library.
TEST(LazyLoading, NorLaterWithExperts) {
  for (const Case& c : {cases[1], cases[2], cases[5]}) {
    SCOPED_TRACE(c.schedule);
    const auto config = config_of(c, world().size(), 3, "mixtral", 60);
    expect_same_bits(first_steps(config, comm::Transport::nccl, true, 3),
                     first_steps(config, comm::Transport::mpi, false, 3));
  }
}

// Pinned memory that a group of the pipeline has, and allocations of some, after each
// step.
struct Pinned {
  std::vector<std::size_t> bytes;
  std::vector<std::int64_t> allocations;
};

Pinned pinned_by_steps(const config::RunConfig& config, int steps) {
  comm::Mesh mesh(world(), config.parallel.mesh, config.parallel.folding, test_device(),
                  comm::Transport::nccl);
  engine::Engine engine(config, mesh, test_device());
  engine.store().initialize(42);
  engine::StepObserver nobody;
  Pinned pinned;
  for (int step = 1; step <= steps; ++step) {
    step_of(engine, config, mesh, nobody, step);
    pinned.bytes.push_back(mesh.group(comm::Axis::pipeline).staging_bytes());
    pinned.allocations.push_back(cuda_emulation::calls().host_allocations);
  }
  return pinned;
}

// All steps of a model with experts send through the same pinned memory, which a plan
// counts; others give it back after the first.
TEST(LazyLoading, PinnedMemoryOfMessagesIsMadeOnce) {
  for (const char* model : {"mixtral", "llama"}) {
    for (const Case& c : {cases[1], cases[3], cases[5]}) {
      SCOPED_TRACE(std::string(model) + ", " + c.schedule);
      const auto config = config_of(c, world().size(), 3, model);
      const Pinned pinned = pinned_by_steps(config, 4);
      EXPECT_EQ(pinned.allocations[1], pinned.allocations[2]);
      EXPECT_EQ(pinned.allocations[2], pinned.allocations[3]);
      EXPECT_EQ(pinned.bytes[0], pinned.bytes[3]);
      comm::Mesh planned =
          comm::Mesh::meta(config.parallel.mesh, world().rank(), config.parallel.folding,
                           test_device(), comm::Transport::nccl);
      const engine::Engine engine(config, planned, Device::meta());
      EXPECT_EQ(pinned.bytes[3], planned.group(comm::Axis::pipeline).staging_bytes());
      EXPECT_EQ(pinned.bytes[3] > 0, config.model.has_experts());
    }
  }
}

}  // namespace
}  // namespace trireme::test
