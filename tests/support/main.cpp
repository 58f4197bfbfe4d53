// main() of every test program: MPI and the kernel libraries, then GoogleTest. Ranks
// other than 0 print only their failures. SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "comm/world.hpp"
#include "kernels/runtime.hpp"
#include "support/world.hpp"

namespace {
trireme::comm::World* current_world = nullptr;
}

namespace trireme::test {
comm::World& world() { return *current_world; }
}  // namespace trireme::test

int main(int argc, char** argv) {
  trireme::comm::World world(argc, argv);
  current_world = &world;
  trireme::kernels::Runtime runtime;
  testing::InitGoogleTest(&argc, argv);
  if (world.rank() != 0) {
    auto& listeners = testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
  }
  const int status = RUN_ALL_TESTS();
  return world.max(status) > 0 ? 1 : 0;
}
