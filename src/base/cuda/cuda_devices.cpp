// The GPUs that this process sees, through the CUDA runtime.
// SPDX-License-Identifier: Apache-2.0
#include "base/cuda_devices.hpp"

#include <cuda_runtime_api.h>

#include <array>
#include <string_view>

#include "base/cuda/check.hpp"
#include "base/cuda/prepare.hpp"
#include "base/error.hpp"
#include "base/text.hpp"

namespace trireme {
namespace {

using cuda::check;

// CUDA writes versions as 1000 * major + 10 * minor.
std::string version_text(int version) {
  return format("{}.{}", version / 1000, version % 1000 / 10);
}

std::string pci_bus_id(int device) {
  std::array<char, 32> text{};
  check(cudaDeviceGetPCIBusId(text.data(), static_cast<int>(text.size()), device),
        "cudaDeviceGetPCIBusId");
  return text.data();
}

}  // namespace

int count_cuda_devices() {
  cuda::prepare();
  int count = 0;
  const cudaError_t code = cudaGetDeviceCount(&count);
  // A login node has no driver or no GPU. The count is left unset then.
  if (code == cudaErrorInsufficientDriver || code == cudaErrorNoDevice) {
    cudaGetLastError();  // the runtime keeps the last error until it is read
    return 0;
  }
  check(code, "cudaGetDeviceCount");
  return count;
}

std::vector<CudaDevice> cuda_devices() {
  std::vector<CudaDevice> devices;
  const int count = count_cuda_devices();
  for (int i = 0; i < count; ++i) {
    cudaDeviceProp properties{};
    check(cudaGetDeviceProperties(&properties, i), "cudaGetDeviceProperties");
    devices.push_back({properties.name,
                       static_cast<std::int64_t>(properties.totalGlobalMem),
                       properties.major, properties.minor,
                       std::string_view(properties.name) == "emulated", pci_bus_id(i),
                       hexadecimal(std::as_bytes(std::span(properties.uuid.bytes)))});
  }
  return devices;
}

// The driver answers with version 0 where there is none.
std::string outdated_driver() {
  cuda::prepare();
  int count = 0, runtime = 0, driver = 0;
  if (cudaGetDeviceCount(&count) != cudaErrorInsufficientDriver) {
    cudaGetLastError();
    return "";
  }
  cudaGetLastError();
  check(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
  check(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
  if (driver == 0) return "";
  return format(
      "the driver supports CUDA {}, and this program needs {}: load a newer driver, or "
      "build the program with that CUDA",
      version_text(driver), version_text(runtime));
}

std::string cuda_version() {
  cuda::prepare();
  int runtime = 0, driver = 0;
  check(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
  check(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
  if (driver == 0) return version_text(runtime) + ", no driver";
  return version_text(runtime) + ", driver " + version_text(driver);
}

}  // namespace trireme
