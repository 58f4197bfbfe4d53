// Launches of the emulated CUDA: arguments, limits, attributes.
// SPDX-License-Identifier: Apache-2.0
// The properties that the device reports are tested too.
#include <cstring>
#include <cuda_machine/shared.cuh>
#include <string>

#include "cuda_emulation/test_support.hpp"

namespace trireme::cuda_emulation {
namespace {

struct Parameters {
  double factors[20];
  int count;
};
__global__ void add_up(const __grid_constant__ Parameters parameters, float last,
                       double* to) {
  double sum = last;
  for (int i = 0; i < parameters.count; ++i) sum += parameters.factors[i];
  *to = sum;
}
__global__ void nothing() {}
__global__ void fill(char* to, int bytes) {
  auto* shared = kernels::cuda::dynamic_shared<char>();
  std::memset(shared, 1, static_cast<std::size_t>(bytes));
  *to = shared[bytes - 1];
}

TEST(Launch, CopiesAndConvertsArguments) {
  DeviceArray<double> out(1);
  Parameters parameters{};
  for (int i = 0; i < 20; ++i) parameters.factors[i] = i;
  parameters.count = 20;
  const auto config = shape(1, 1);
  ASSERT_EQ(cudaLaunchKernelEx(&config, add_up, parameters, 3, out.data()), cudaSuccess);
  parameters.count = 0;  // after the launch: too late
  EXPECT_EQ(out.values()[0], 193.0);
}

cudaError_t launched(const cudaLaunchConfig_t& config) {
  const cudaError_t error = cudaLaunchKernelEx(&config, nothing);
  EXPECT_EQ(cudaGetLastError(), error);
  return error;
}

TEST(Launch, LimitsAreThoseOfADevice) {
  EXPECT_EQ(launched(shape(1, 1024)), cudaSuccess);
  EXPECT_EQ(launched(shape(1, dim3(8, 4, 32))), cudaSuccess);
  for (const dim3& block :
       {dim3(1025), dim3(0), dim3(32, 33), dim3(1, 1, 65), dim3(1, 0)}) {
    EXPECT_EQ(launched(shape(1, block)), cudaErrorInvalidConfiguration);
  }
  for (const dim3& grid : {dim3(0), dim3(1u << 31), dim3(1, 65536), dim3(1, 1, 65536)}) {
    EXPECT_EQ(launched(shape(grid, 1)), cudaErrorInvalidConfiguration);
  }
  EXPECT_EQ(launched(shape(1, 1, 49153)), cudaErrorInvalidValue);
  const auto config = shape(1, 1);
  EXPECT_EQ(cudaLaunchKernelEx(&config, static_cast<void (*)()>(nullptr)),
            cudaErrorInvalidDeviceFunction);
  EXPECT_EQ(cudaLaunchKernelEx(nullptr, nothing), cudaErrorInvalidValue);
  cudaGetLastError();
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
}

TEST(Launch, MoreSharedMemoryMustBeAskedFor) {
  constexpr int most = 232448;
  DeviceArray<char> out(1);
  const auto config = shape(1, 1, most);
  EXPECT_EQ(cudaLaunchKernelEx(&config, fill, out.data(), most), cudaErrorInvalidValue);
  EXPECT_EQ(
      cudaFuncSetAttribute(fill, cudaFuncAttributeMaxDynamicSharedMemorySize, most + 1),
      cudaErrorInvalidValue);
  ASSERT_EQ(cudaFuncSetAttribute(fill, cudaFuncAttributeMaxDynamicSharedMemorySize, most),
            cudaSuccess);
  run(config, fill, out.data(), most);
  EXPECT_EQ(out.values()[0], 1);
  int blocks = 0;
  const auto fit = [&](int threads, std::size_t bytes) {
    EXPECT_EQ(
        cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, fill, threads, bytes),
        cudaSuccess);
    return blocks;
  };
  EXPECT_EQ(fit(256, 0), 8);
  EXPECT_EQ(fit(1, 0), 32);
  EXPECT_EQ(fit(128, 100 << 10), 2);
  EXPECT_EQ(fit(128, most), 1);
  EXPECT_EQ(fit(128, most + 1), 0);
  cudaGetLastError();
}

TEST(Launch, AttributesThatChangeResultsAreRefused) {
  auto config = shape(1, 1);
  cudaLaunchAttribute attribute{};
  config.attrs = &attribute;
  config.numAttrs = 1;
  attribute.id = cudaLaunchAttributePriority;
  EXPECT_EQ(launched(config), cudaSuccess);
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim = {1, 1, 1};
  EXPECT_EQ(launched(config), cudaSuccess);
  attribute.val.clusterDim = {2, 1, 1};
  EXPECT_EQ(launched(config), cudaErrorNotSupported);
  attribute = {};
  attribute.id = cudaLaunchAttributeCooperative;
  attribute.val.cooperative = 1;
  EXPECT_EQ(launched(config), cudaErrorNotSupported);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
}

TEST(Device, SaysWhatItIs) {
  int count = 0, device = -1, value = 0, version = 0;
  EXPECT_EQ(cudaGetDeviceCount(&count), cudaSuccess);
  EXPECT_EQ(count, 1);
  EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
  EXPECT_EQ(cudaSetDevice(1), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaGetDevice(&device), cudaSuccess);
  EXPECT_EQ(device, 0);
  cudaDeviceProp properties{};
  ASSERT_EQ(cudaGetDeviceProperties(&properties, 0), cudaSuccess);
  EXPECT_EQ(cudaGetDeviceProperties(&properties, 1), cudaErrorInvalidDevice);
  EXPECT_STREQ(properties.name, "emulated");
  EXPECT_EQ(properties.major * 10 + properties.minor, 90);
  EXPECT_EQ(properties.multiProcessorCount, 4);
  EXPECT_EQ(properties.totalGlobalMem, std::size_t{8} << 30);
  ASSERT_EQ(cudaDeviceGetAttribute(&value, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0),
            cudaSuccess);
  EXPECT_EQ(value, 232448);
  EXPECT_EQ(static_cast<std::size_t>(value), properties.sharedMemPerBlockOptin);
  EXPECT_EQ(cudaDeviceGetAttribute(&value, static_cast<cudaDeviceAttr>(9999), 0),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaRuntimeGetVersion(&version), cudaSuccess);
  EXPECT_EQ(version, 13000);
  char bus[20];
  EXPECT_EQ(cudaDeviceGetPCIBusId(bus, sizeof bus, 0), cudaSuccess);
  EXPECT_EQ(std::string(bus).size(), 12u);
  cudaGetLastError();
}

}  // namespace
}  // namespace trireme::cuda_emulation
