// For the front ends of kernels: tells the meter of a plan what a call on meta would do.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <type_traits>

#include "base/device.hpp"
#include "base/tensor_view.hpp"
#include "base/work_meter.hpp"

namespace trireme::kernels {

inline void meter_work(const Stream& stream, const KernelWork& work) {
  if (!stream.device().is_meta()) return;
  if (WorkMeter* meter = work_meter()) meter->kernel(work);
}

// A kernel that sweeps over those of its arguments that are tensors.
template <class... Arguments>
void meter_sweep(const Stream& stream, const Arguments&... arguments) {
  if (!stream.device().is_meta() || work_meter() == nullptr) return;
  KernelWork work;
  double most = 0;
  const auto add = [&](const auto& argument) {
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(argument)>, TensorView>) {
      if (argument.empty()) return;
      const auto bytes = static_cast<double>(argument.bytes());
      work.bytes += bytes;
      if (bytes <= most) return;
      most = bytes;
      work.type = argument.dtype();
    }
  };
  (add(arguments), ...);
  meter_work(stream, work);
}

// c [m, n] (+)= a [m, k] b [k, n], of operands and a result of these sizes in bytes.
inline void meter_product(const Stream& stream, DType type, std::int64_t m,
                          std::int64_t n, std::int64_t k, double bytes) {
  meter_work(stream, {.kind = WorkKind::product,
                      .type = type,
                      .flops = 2.0 * static_cast<double>(m) * static_cast<double>(n) *
                               static_cast<double>(k),
                      .bytes = bytes,
                      .rows = m,
                      .columns = n,
                      .inner = k});
}

}  // namespace trireme::kernels
