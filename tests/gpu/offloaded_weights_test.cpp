// Sharded weights on the host or a disk, on a GPU: copied beside what the GPU computes.
// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <cstring>
#include <cuda_emulation/control.hpp>
#include <thread>

#include "base/device_memory.hpp"
#include "ranks/equality.hpp"
#include "support/device.hpp"

namespace trireme::test {
namespace {

config::RunConfig config_of(const Words& words, const std::string& compute = "fp32") {
  return equality_config(
      "llama-tied", compute,
      Words{"parallel.sharding_strategy=FULL_SHARD", "model.layers=3", "model.sequence=8",
            "batch.micro=1", "batch.global=" + std::to_string(2 * world().size()),
            "run.device=cuda"} +
          words);
}

comm::Mesh mesh_of(const config::RunConfig& config, comm::Transport transport) {
  return comm::Mesh(world(), config.parallel.mesh, config.parallel.folding, test_device(),
                    transport);
}

// The numbers are those of weights that stay on the GPU, to the bit, also where streams
// run at once: where they run as late as they may, a copy that nobody waits for, or one
// whose source is overwritten too early, leaves others.
TEST(OffloadedWeights, TrainAsThoseOnTheDevice) {
  const DiskFolder folder;
  for (const auto transport : {comm::Transport::nccl, comm::Transport::mpi}) {
    for (const std::string ahead : {"0", "1", "2"}) {
      const std::string compute = ahead == "1" ? "bf16" : "fp32";
      const Words words = {"parallel.prefetch=" + ahead};
      const auto train_as = [&](const Words& offload) {
        const auto config = config_of(words + offload, compute);
        comm::Mesh mesh = mesh_of(config, transport);
        return train_steps(config, mesh, 3);
      };
      const Outcome there = train_as({});
      for (const bool lazy : {true, false}) {
        SCOPED_TRACE(format("prefetch {}, lazy {}", ahead, lazy));
        cuda_emulation::set_lazy_streams(lazy);
        expect_same_bits(train_as({"parallel.offload=weights"}), there);
        expect_same_bits(train_as(folder.words("disk_weights")), there);
      }
      cuda_emulation::set_lazy_streams(true);
    }
  }
}

// How often the host waits for the GPU in an evaluation that gathers every weight.
std::int64_t waits_of_evaluation(const Words& words) {
  const auto config = config_of(words);
  comm::Mesh mesh = mesh_of(config, comm::Transport::nccl);
  engine::Engine engine(config, mesh, test_device());
  engine.store().initialize(42);
  const Buffer ids(
      Device::host(), DType::i32,
      {config.batch.micro * static_cast<std::int64_t>(engine.positions().size())},
      MemoryClass::data, "ids");
  engine.evaluate(ids.view(), ids.view());
  const std::int64_t before = cuda_emulation::host_waits();
  engine.evaluate(ids.view(), ids.view());
  EXPECT_GT(engine.store().offload_traffic().to_device, 0);
  return cuda_emulation::host_waits() - before;
}

TEST(OffloadedWeights, NoGatherHasTheHostWait) {
  const Words host = {"parallel.offload=weights"};
  EXPECT_EQ(waits_of_evaluation(host + Words{"model.layers=6"}),
            waits_of_evaluation(host + Words{"model.layers=2"}));
}

// Whoever writes shards on the host, as one who loads a checkpoint does, does not change
// what is being gathered.
TEST(OffloadedWeights, ShardsAreWrittenBehindTheirCopies) {
  const auto config = config_of({"parallel.offload=weights", "parallel.prefetch=1"});
  comm::Mesh mesh = mesh_of(config, comm::Transport::nccl);
  engine::Engine engine(config, mesh, test_device());
  optim::ParameterStore& store = engine.store();
  store.initialize(42);
  // The first rank's GPU waits for the second rank, and so do its copies.
  Stream stream(test_device());
  const Buffer one(test_device(), DType::f32, {1}, MemoryClass::workspace, "one");
  if (world().rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(200));
  mesh.everyone().all_reduce(stream, one.view()).wait();
  store.fetch(0, Direction::forward);  // and begins to gather module 1
  for (const optim::StateBox& box : store.state_boxes())
    if (box.section == "model")
      std::memset(box.data.raw(), 0, static_cast<std::size_t>(box.data.bytes()));
  store.fetch(1, Direction::forward);
  int gathered = 0;
  for (const Param* param : store.params()) {
    if (param->value.empty()) continue;
    float first = 0;
    copy_bytes(stream, param->value.reshape({param->value.elements()}).rows(0, 1),
               TensorView(&first, DType::f32, {1}));
    EXPECT_NE(first, 0) << param->name;
    ++gathered;
  }
  EXPECT_GT(gathered, 1);
  store.release(0);
  store.release(1);
}

}  // namespace
}  // namespace trireme::test
