// Settings of Open MPI that the program makes, as the library has taken them.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>
#include <string>

#include "comm/mpi/mpi.hpp"
#include "support/world.hpp"

namespace trireme::comm {
namespace {

// The value of an integer among the library's variables; none if it has no such.
std::optional<int> variable(const char* name) {
  int provided = 0, index = -1, count = 0, value = 0;
  EXPECT_EQ(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided), MPI_SUCCESS);
  std::optional<int> found;
  MPI_T_cvar_handle handle{};
  if (MPI_T_cvar_get_index(name, &index) == MPI_SUCCESS &&
      MPI_T_cvar_handle_alloc(index, nullptr, &handle, &count) == MPI_SUCCESS) {
    EXPECT_EQ(count, 1);
    EXPECT_EQ(MPI_T_cvar_read(handle, &value), MPI_SUCCESS);
    EXPECT_EQ(MPI_T_cvar_handle_free(&handle), MPI_SUCCESS);
    found = value;
  }
  EXPECT_EQ(MPI_T_finalize(), MPI_SUCCESS);
  return found;
}

// What the user has set stays.
TEST(OpenMpi, LongMessagesTravelInManyFragments) {
  static_cast<void>(test::world());
  const std::optional<int> depth = variable("pml_ob1_send_pipeline_depth");
  if (!depth) GTEST_SKIP() << "this MPI has no such setting";
  const char* const set = std::getenv("OMPI_MCA_pml_ob1_send_pipeline_depth");
  ASSERT_NE(set, nullptr);
  EXPECT_EQ(*depth, std::stoi(set));
}

}  // namespace
}  // namespace trireme::comm
