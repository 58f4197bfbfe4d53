// Instances of one card (MIG): ranks may have one each, but NCCL takes them for one GPU.
// SPDX-License-Identifier: Apache-2.0
// The emulated devices are two on a card (TRIREME_EMULATION_INSTANCES).
#include <gtest/gtest.h>

#include "comm/transport.hpp"
#include "launch/compute_device.hpp"
#include "ranks/comm_tensors.hpp"
#include "support/device.hpp"
#include "support/world.hpp"

namespace trireme::test {
namespace {

std::string refusal(comm::Backend backend) {
  try {
    launch::choose_device(world(), config::DeviceChoice::cuda, backend, false);
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::resources);
    return error.what();
  }
  return "";
}

std::vector<comm::RankDevice> devices(Device mine) {
  return comm::devices_of_node(world(), comm::rank_device(world(), mine));
}

TEST(Instances, HaveOneBusIdAndUuidsOfTheirOwn) {
  const auto ranks = devices(Device::cuda(world().rank()));
  ASSERT_EQ(ranks.size(), 2u);
  EXPECT_EQ(ranks[0].card, ranks[1].card);
  EXPECT_EQ(ranks[0].uuid.size(), 32u);
  EXPECT_NE(ranks[0].uuid, ranks[1].uuid);
}

TEST(Instances, AreSharedByNobodyAndTakeMpi) {
  const auto chosen = launch::choose_device(world(), config::DeviceChoice::cuda,
                                            comm::Backend::automatic, false);
  EXPECT_EQ(chosen.device, Device::cuda(world().rank()));
  EXPECT_EQ(chosen.transport, comm::Transport::mpi);
}

TEST(Instances, AreOneGpuToNccl) {
  const std::string error = refusal(comm::Backend::nccl);
  EXPECT_NE(error.find("ranks 0 and 1 compute on instances (MIG) of GPU 0000:01:00.0"),
            std::string::npos)
      << error;
}

TEST(Instances, OneInstanceForTwoRanksIsStillShared) {
  const auto ranks = devices(Device::cuda(0));
  EXPECT_EQ(ranks[0].uuid, ranks[1].uuid);
  EXPECT_THROW(comm::check_sharing(ranks, false), Error);
}

}  // namespace
}  // namespace trireme::test
