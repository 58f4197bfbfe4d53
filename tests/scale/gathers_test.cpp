// The world's gathers on hosts whose ranks are no power of two.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "base/format.hpp"
#include "comm/world.hpp"
#include "scale/fake_mpi.hpp"

namespace trireme::scale {
namespace {

// Only the first rank of a host talks to other hosts, and each of these once.
TEST(Scale, HostsGatherFirst) {
  constexpr int ranks = 96, on_host = 6;
  FakeJob job(ranks, on_host);
  std::vector<std::unique_ptr<comm::World>> worlds(ranks);
  job.run([&](int rank) {
    worlds[static_cast<std::size_t>(rank)] = std::make_unique<comm::World>(0, nullptr);
  });
  job.reset();
  job.run([&](int rank) {
    const std::vector<double> all = worlds[static_cast<std::size_t>(rank)]->gather(rank);
    ASSERT_EQ(all.size(), rank == 0 ? std::size_t{ranks} : 0U);
    for (int other = 0; rank == 0 && other < ranks; ++other)
      EXPECT_EQ(all[static_cast<std::size_t>(other)], other);
  });
  int between = 0;
  for (int rank = 0; rank < ranks; ++rank)
    for (const int peer : job.of(rank).peers) {
      if (peer / on_host == rank / on_host) continue;
      EXPECT_EQ(rank % on_host, 0) << rank << " with " << peer;
      ++between;
    }
  EXPECT_EQ(between, 2 * (ranks / on_host - 1));
  job.run([&](int rank) {
    const auto texts =
        worlds[static_cast<std::size_t>(rank)]->gather_text(format("{}", rank));
    for (std::size_t other = 0; other < texts.size(); ++other)
      EXPECT_EQ(texts[other], format("{}", other));
  });
  job.run([&](int rank) { worlds[static_cast<std::size_t>(rank)].reset(); });
}

}  // namespace
}  // namespace trireme::scale
