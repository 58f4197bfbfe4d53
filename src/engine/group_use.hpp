// Which groups of a mesh a run brings tensors of GPUs together on.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "comm/mesh.hpp"
#include "config/run_config.hpp"

namespace trireme::engine {

comm::GroupUse group_use(const config::RunConfig& config);

}  // namespace trireme::engine
