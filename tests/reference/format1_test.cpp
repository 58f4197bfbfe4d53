// A checkpoint of format 1, which a program of that time wrote, is read as it was.
// SPDX-License-Identifier: Apache-2.0
// format1/ was made by `mpirun -n 2 trireme train` with FULL_SHARD, 2 steps of a tiny
// model of one layer; digests.txt is what its `trireme inspect` printed.
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "io/checkpoint.hpp"

namespace trireme::io {
namespace {

TEST(Format1, TensorsAreAsTheyWereWritten) {
  const std::string folder = FORMAT1_FOLDER;
  const CheckpointReader reader(folder + "/step-00000002");
  EXPECT_EQ(reader.info().format_version, 1);
  EXPECT_EQ(reader.info().step, 2);
  std::ifstream lines(folder + "/digests.txt");
  std::string digest, path;
  std::size_t count = 0;
  for (; lines >> digest >> path; ++count) EXPECT_EQ(reader.digest(path), digest) << path;
  EXPECT_EQ(count, reader.tensors().size());
  EXPECT_EQ(count, 36U);
}

}  // namespace
}  // namespace trireme::io
