// Which GPU a rank computes on, and which transport a job uses.
// SPDX-License-Identifier: Apache-2.0
#include "comm/transport.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/cuda_devices.hpp"
#include "comm/async_errors.hpp"

namespace trireme::comm {
namespace {

using Ranks = std::vector<RankDevice>;

const Ranks own_gpus = {{0, "a", "0000:1b:00.0", "01"},
                        {1, "a", "0000:3b:00.0", "02"},
                        {2, "b", "0000:1b:00.0", "03"},  // as on host a: another GPU
                        {3, "b", "0000:3b:00.0", "04"}};
const Ranks shared = {{0, "a", "0000:1b:00.0", "01"},
                      {1, "a", "0000:3b:00.0", "02"},
                      {2, "a", "0000:3b:00.0", "02"}};
const Ranks instances = {{0, "a", "0000:1b:00.0", "01"},
                         {1, "a", "0000:3b:00.0", "05"},
                         {2, "a", "0000:3b:00.0", "06"}};
// Where no UUIDs can be told, cards are what differs.
const Ranks without_uuids = {{0, "a", "0000:1b:00.0", "00"},
                             {1, "a", "0000:3b:00.0", "00"}};
const Ranks mixed = {{0, "a", "0000:1b:00.0", "01"}, {1, "b", "", ""}};
const Ranks hosts = {{0, "a", "", ""}, {1, "a", "", ""}};

// The message of the error(resources) that `work` throws.
template <class F>
std::string refusal(const F& work) {
  try {
    work();
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::resources);
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return {};
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(Transport, AutoTakesNcclWhereItCanBeHad) {
  EXPECT_EQ(choose_transport(Backend::automatic, own_gpus, true), Transport::nccl);
  EXPECT_EQ(choose_transport(Backend::automatic, own_gpus, false), Transport::mpi);
  EXPECT_EQ(choose_transport(Backend::automatic, without_uuids, true), Transport::nccl);
  for (const Ranks& ranks : {shared, instances, mixed, hosts})
    EXPECT_EQ(choose_transport(Backend::automatic, ranks, true), Transport::mpi);
}

TEST(Transport, MpiIsAlwaysToBeHad) {
  for (const Ranks& ranks : {own_gpus, shared, mixed, hosts})
    for (const bool built : {true, false})
      EXPECT_EQ(choose_transport(Backend::mpi, ranks, built), Transport::mpi);
}

TEST(Transport, NcclIsDemanded) {
  EXPECT_EQ(choose_transport(Backend::nccl, own_gpus, true), Transport::nccl);
  const auto refused = [](const Ranks& ranks, bool built) {
    return refusal([&] { choose_transport(Backend::nccl, ranks, built); });
  };
  EXPECT_TRUE(contains(refused(own_gpus, false), "built without NCCL"));
  const std::string two = refused(shared, true);
  EXPECT_TRUE(contains(two, "ranks 1 and 2 share GPU 0000:3b:00.0 of host a")) << two;
  EXPECT_TRUE(contains(two, "comm.backend = \"mpi\"")) << two;
  const std::string parts = refused(instances, true);
  EXPECT_TRUE(contains(parts,
                       "ranks 1 and 2 compute on instances (MIG) of GPU "
                       "0000:3b:00.0 of host a"))
      << parts;
  EXPECT_TRUE(contains(parts, "comm.backend = \"mpi\"")) << parts;
  EXPECT_TRUE(contains(refused(mixed, true), "rank 1 (host b) computes on no GPU"));
  EXPECT_TRUE(contains(refused(hosts, true), "rank 0 (host a) computes on no GPU"));
}

TEST(Transport, SharingIsAllowedOrNot) {
  EXPECT_NO_THROW(check_sharing(own_gpus, false));
  EXPECT_NO_THROW(check_sharing(hosts, false));
  EXPECT_NO_THROW(check_sharing(instances, false));
  EXPECT_NO_THROW(check_sharing(without_uuids, false));
  EXPECT_NO_THROW(check_sharing(shared, true));
  const std::string error = refusal([] { check_sharing(shared, false); });
  EXPECT_TRUE(contains(error, "ranks 1 and 2")) << error;
  EXPECT_TRUE(contains(error, "run.share_gpus = true")) << error;
}

TEST(CudaDeviceOf, TakesTurns) {
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(cuda_device_of(rank, 4, 4, false), rank);
    EXPECT_EQ(cuda_device_of(rank, 4, 8, false), rank);
    EXPECT_EQ(cuda_device_of(rank, 4, 2, true), rank % 2);
  }
}

TEST(CudaDeviceOf, ASingleGpuMayBeTheRanksOwn) {
  EXPECT_EQ(cuda_device_of(3, 4, 1, false), 0);
}

TEST(CudaDeviceOf, SharingIsAllowedOrNot) {
  const std::string error = refusal([] { cuda_device_of(0, 5, 4, false); });
  EXPECT_TRUE(contains(error, "5 ranks of a node would share its 4 GPUs")) << error;
  EXPECT_TRUE(contains(error, "at most 4 ranks")) << error;
  EXPECT_TRUE(contains(error, "run.share_gpus = true")) << error;
  EXPECT_TRUE(contains(refusal([] { cuda_device_of(0, 1, 0, true); }), "no GPU"));
}

class Source final : public AsyncSource {
 public:
  void look() override {
    ++looks;
    require(!failed, Status::transport, "it broke");
  }
  int looks = 0;
  bool failed = false;
};

TEST(AsyncErrors, AreThrownOnce) {
  AsyncErrors errors;
  Source a, b;
  errors.add(&a);
  errors.add(&b);
  errors.look();
  EXPECT_EQ(a.looks, 1);
  EXPECT_EQ(b.looks, 1);
  b.failed = true;
  EXPECT_THROW(errors.look(), Error);
  EXPECT_NO_THROW(errors.look());
  errors.remove(&a);
  errors.remove(&b);
}

}  // namespace
}  // namespace trireme::comm
