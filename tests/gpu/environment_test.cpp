// What the program sets for the CUDA runtime before its first call, and leaves as it is.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "base/cuda_devices.hpp"

namespace trireme::test {
namespace {

std::string value_of(const char* name, const char* otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : text;
}

TEST(CudaEnvironment, IsSetWhereNothingWasSaid) {
  const std::string loading = value_of("CUDA_MODULE_LOADING", "EAGER");
  const std::string queues = value_of("CUDA_DEVICE_MAX_CONNECTIONS", "32");
  cuda_devices();
  EXPECT_EQ(value_of("CUDA_MODULE_LOADING", ""), loading);
  EXPECT_EQ(value_of("CUDA_DEVICE_MAX_CONNECTIONS", ""), queues);
}

}  // namespace
}  // namespace trireme::test
