// Where a model's weights lie: --device-map, --max-memory and --dry-run.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "app/arguments.hpp"
#include "app/deck_arguments.hpp"
#include "infer/device_map.hpp"
#include "infer/loaded_model.hpp"

namespace trireme::app {

struct PlacementRequest {
  bool any = false;  // else all weights lie where they are used
  bool dry_run = false;
  infer::Strategy strategy = infer::Strategy::balanced;
  std::optional<infer::DeviceMap> map;
  std::map<int, std::int64_t> gpu_bytes;   // --max-memory of each GPU of a stage
  std::optional<std::int64_t> host_bytes;  // of a node's memory
};

// Throws Error(command_line), Error(missing_input) and, for a file that is wrong,
// Error(bad_content).
PlacementRequest placement_request(const Arguments& arguments);

// What a command does with a model.
struct ModelUse {
  std::int64_t positions = 0;  // longest sequence
  // Bytes on the device that it takes beside the weights of a model, which is on meta.
  // Collective.
  std::function<std::int64_t(const infer::LoadedModel&)> working_bytes;
  const char* pass = "tokens";  // what it makes in a pass of the model
};

// The model, its weights where and as what (--weights) they were asked for; rank 0 has
// said on standard error what lies where and how many passes a second that allows, as far
// as anything was asked for. Null after --dry-run, which says so on standard output.
// Collective; all throw together.
std::unique_ptr<infer::LoadedModel> load_model(
    comm::World& world, const Arguments& arguments, const PlacementRequest& request,
    const OpenedModel& opened, comm::Mesh& mesh, Device device, const ModelUse& use);

}  // namespace trireme::app
