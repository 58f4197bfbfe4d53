// How fast weights come from the disk and from host memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "infer/placement.hpp"
#include "io/tensor_source.hpp"

namespace trireme::infer {

// Bytes in memory a second, as the largest Param of a stage that lies on the disk is
// read: its first rows, of at most 64 MiB of numbers. codes: weights are read as codes
// where the source has some. 0: the stage has none there. Throws as the source does.
double disk_rate(const Placement& placement, std::size_t stage,
                 const model::ModelConfig& config, DType compute,
                 const parallel::TensorRegion& region, const io::TensorSource& source,
                 bool codes = false);

// Bytes a second from pinned host memory to a GPU; 0 on hosts.
double copy_rate(Device device);

}  // namespace trireme::infer
