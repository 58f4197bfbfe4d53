// choose_device(): the device that a rank computes on.
// SPDX-License-Identifier: Apache-2.0
#include "launch/compute_device.hpp"

#include <vector>

#include "base/has_cuda.hpp"
#include "base/log.hpp"
#include "comm/nccl_transport.hpp"

namespace trireme::launch {
namespace {

using config::DeviceChoice;

// Whether every rank of the job computes on a GPU.
bool wants_gpus(comm::World& world, config::DeviceChoice wanted,
                const std::vector<CudaDevice>& gpus) {
  if (wanted == DeviceChoice::cpu) return false;
  const bool here =
      !gpus.empty() && (wanted == DeviceChoice::cuda || !gpus.front().emulated);
  const std::string outdated = gpus.empty() ? outdated_driver() : "";
  if (wanted == DeviceChoice::automatic) {
    if (!outdated.empty() && world.rank_on_node() == 0)
      log::warn("rank {} on host {} uses no GPU: {}", world.rank(), world.host(),
                outdated);
    return world.max(here ? 0 : 1) == 0;
  }
  world.agree([&] {
    require_built_for(wanted);
    require(outdated.empty(), Status::resources,
            "run.device = \"cuda\", but on host {} {}, or write run.device = \"cpu\"",
            world.host(), outdated);
    require(here, Status::resources,
            "run.device = \"cuda\", but rank {} on host {} sees no GPU: ask the batch "
            "system for GPUs (Slurm: --gpus-per-node=N), or write run.device = \"cpu\"",
            world.rank(), world.host());
  });
  return true;
}

}  // namespace

void require_built_for(DeviceChoice wanted) {
  require(has_cuda || wanted != DeviceChoice::cuda, Status::resources,
          "run.device = \"cuda\", but this program was built without CUDA: build it with "
          "-DTRIREME_CUDA=ON, or write run.device = \"cpu\"");
}

std::string ComputeDevice::describe() const {
  if (!device.is_cuda()) return "CPU";
  return gpu.name + (transport == comm::Transport::nccl ? ", NCCL" : ", MPI");
}

ComputeDevice choose_device(comm::World& world, config::DeviceChoice wanted,
                            comm::Backend backend, bool share_gpus) {
  ComputeDevice chosen;
  std::vector<CudaDevice> gpus;
  world.agree([&] { gpus = cuda_devices(); });
  if (wants_gpus(world, wanted, gpus)) {
    world.agree([&] {
      const int index = cuda_device_of(world.rank_on_node(), world.ranks_on_node(),
                                       static_cast<int>(gpus.size()), share_gpus);
      chosen.device = Device::cuda(index);
      chosen.gpu = gpus[static_cast<std::size_t>(index)];
    });
    chosen.gpu_bytes = static_cast<std::int64_t>(
        -world.max(-static_cast<double>(chosen.gpu.memory_bytes)));
  }
  comm::RankDevice mine;
  world.agree([&] { mine = comm::rank_device(world, chosen.device); });
  std::vector<comm::RankDevice> here = {mine};
  if (chosen.device.is_cuda()) here = comm::devices_of_node(world, mine);
  world.agree([&] {
    comm::check_sharing(here, share_gpus);
    chosen.transport = comm::choose_transport(backend, here, comm::nccl_is_built());
  });
  if (world.max(chosen.transport == comm::Transport::mpi ? 1 : 0) > 0)
    chosen.transport = comm::Transport::mpi;
  return chosen;
}

ComputeDevice expected_device(config::DeviceChoice wanted, comm::Backend backend,
                              bool share_gpus) {
  ComputeDevice expected;
  if (!has_cuda || wanted == DeviceChoice::cpu) return expected;
  const auto gpus = cuda_devices();
  const bool here = !gpus.empty();
  if (here) expected.gpu = gpus.front();
  if (wanted == DeviceChoice::automatic && (!here || expected.gpu.emulated)) return {};
  expected.device = Device::cuda(0);
  expected.gpu_bytes = expected.gpu.memory_bytes;
  const bool direct = comm::nccl_is_built() && !share_gpus;
  if (backend == comm::Backend::nccl || (backend == comm::Backend::automatic && direct))
    expected.transport = comm::Transport::nccl;
  return expected;
}

}  // namespace trireme::launch
