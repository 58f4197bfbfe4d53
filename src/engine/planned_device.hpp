// Where the parts of an engine lie, on devices that are there and on planned ones.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/device.hpp"
#include "comm/mesh.hpp"
#include "comm/meta_group.hpp"

namespace trireme::engine {

// A plan for GPUs: on meta, for a mesh that stands for one of GPUs.
inline bool plans_for_gpu(const comm::Mesh& mesh, Device device) {
  return device.is_meta() && mesh.device().is_cuda();
}

// Whether `device` is a GPU, or stands for one.
inline bool for_gpu(const comm::Mesh& mesh, Device device) {
  return device.is_cuda() || plans_for_gpu(mesh, device);
}

// Where small tensors lie that the host reads: in a plan for GPUs they are still its own.
inline Device host_beside(const comm::Mesh& mesh, Device device) {
  if (plans_for_gpu(mesh, device)) return comm::planned_host;
  return device.is_meta() ? device : Device::host();
}

}  // namespace trireme::engine
