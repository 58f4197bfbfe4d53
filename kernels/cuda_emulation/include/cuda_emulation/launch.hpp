// Launches: a kernel with copies of its arguments, queued on a stream.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>

#include "cuda_emulation/api_types.hpp"

namespace trireme::cuda_emulation {

// A kernel and its arguments, without their types.
struct Kernel {
  const void* function;
  std::shared_ptr<const void> arguments;
  void (*call)(const void* function, const void* arguments);  // as one CUDA thread
};

cudaError_t launch(const cudaLaunchConfig_t* config, Kernel kernel);

template <class... Parameters>
void call_kernel(const void* function, const void* arguments) {
  const auto kernel =
      reinterpret_cast<void (*)(Parameters...)>(const_cast<void*>(function));
  std::apply(kernel, *static_cast<const std::tuple<Parameters...>*>(arguments));
}

}  // namespace trireme::cuda_emulation

template <class... Parameters, class... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config,
                               void (*kernel)(Parameters...), Arguments&&... arguments) {
  static_assert((!std::is_reference_v<Parameters> && ...),
                "a kernel's parameters are passed by value");
  static_assert((std::is_trivially_copyable_v<Parameters> && ...),
                "a kernel's parameters are copied byte by byte");
  static_assert((sizeof(Parameters) + ... + 0) <= 32764,
                "a kernel's parameters have at most 32764 bytes");
  return [&](Parameters... converted) {
    return trireme::cuda_emulation::launch(
        config, {reinterpret_cast<const void*>(kernel),
                 std::make_shared<const std::tuple<Parameters...>>(converted...),
                 &trireme::cuda_emulation::call_kernel<Parameters...>});
  }(std::forward<Arguments>(arguments)...);
}
