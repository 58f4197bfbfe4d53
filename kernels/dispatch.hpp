// Where a kernel runs: one place that asks for the stream's device.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <type_traits>

#include "base/device.hpp"
#include "base/has_cuda.hpp"
#include "kernels/runtime/meter_work.hpp"
#include "kernels/runtime/profile.hpp"

// Declares host::name and cuda::name with the type of kernels::name, whose declaration in
// the family's header is the only one: a back end that defines another is not linked. For
// the source file that runs the kernel.
#define TRIREME_BACK_ENDS(name) \
  namespace host {              \
  decltype(kernels::name) name; \
  }                             \
  namespace cuda {              \
  decltype(kernels::name) name; \
  }                             \
  static_assert(true, "takes the semicolon")

namespace trireme::kernels {

// Runs a kernel of checked arguments on the stream's device; nothing on meta, where a
// kernel that gives a number gives 0. A build without CUDA does not ask for `on_cuda`.
template <auto on_host, auto on_cuda, class... Arguments>
auto run_kernel(Stream& stream, const Arguments&... arguments) {
  using Result = decltype(on_host(stream, arguments...));
  if (stream.device().is_meta()) {
    meter_sweep(stream, arguments...);
    return Result();
  }
  if constexpr (has_cuda) {
    if (stream.device().is_cuda()) return on_cuda(stream, arguments...);
  }
  return on_host(stream, arguments...);
}

// Has a GPU run a kernel: whether it did. False off GPUs, and where the kernel may
// decline and says so; then the caller has the work done otherwise, on meta too.
template <auto on_cuda, class... Arguments>
bool try_on_cuda([[maybe_unused]] Stream& stream,
                 [[maybe_unused]] const Arguments&... arguments) {
  if constexpr (has_cuda) {
    if (!stream.device().is_cuda()) return false;
    if constexpr (std::is_void_v<decltype(on_cuda(stream, arguments...))>) {
      on_cuda(stream, arguments...);
      return true;
    } else {
      return on_cuda(stream, arguments...);
    }
  }
  return false;
}

// As run_kernel() above, timed as one of a family.
template <auto on_host, auto on_cuda, class... Arguments>
auto run_kernel(ProfileFamily& family, Stream& stream, const Arguments&... arguments) {
  using Result = decltype(on_host(stream, arguments...));
  if (stream.device().is_meta()) {
    meter_sweep(stream, arguments...);
    return Result();
  }
  const ProfileScope scope(family);
  return run_kernel<on_host, on_cuda>(stream, arguments...);
}

}  // namespace trireme::kernels
