// main() of every test program: MPI and the kernel libraries, then GoogleTest.
// SPDX-License-Identifier: Apache-2.0
// Ranks other than 0 print only their failures.
#include <gtest/gtest.h>

#include <cstdio>
#include <string>

#include "base/cuda_devices.hpp"
#include "comm/world.hpp"
#include "kernels/runtime/runtime.hpp"
#include "support/device.hpp"
#include "support/world.hpp"

namespace {
trireme::comm::World* current_world = nullptr;

// What a rank other than 0 has to say.
class Failures : public testing::EmptyTestEventListener {
 public:
  explicit Failures(int rank) : rank_(rank) {}

 private:
  // GoogleTest's own record of the current test is locked during OnTestPartResult().
  void OnTestStart(const testing::TestInfo& test) override { test_ = test.name(); }
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (!result.failed()) return;
    std::printf("rank %d: %s: %s:%d: %s\n", rank_, test_.c_str(),
                result.file_name() ? result.file_name() : "", result.line_number(),
                result.message());
    std::fflush(stdout);
  }
  int rank_;
  std::string test_;
};

}  // namespace

namespace trireme::test {
comm::World& world() { return *current_world; }
}  // namespace trireme::test

int main(int argc, char** argv) {
  trireme::comm::World world(argc, argv);
  current_world = &world;
  if (trireme::test::test_device().is_cuda() && trireme::cuda_devices().empty()) {
    constexpr int skipped = 77;
    if (world.rank() == 0) std::printf("skipped: this machine has no GPU\n");
    return skipped;
  }
  trireme::kernels::Runtime runtime;
  testing::InitGoogleTest(&argc, argv);
  if (world.rank() != 0) {
    auto& listeners = testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new Failures(world.rank()));
  }
  const int status = RUN_ALL_TESTS();
  return world.max(status) > 0 ? 1 : 0;
}
