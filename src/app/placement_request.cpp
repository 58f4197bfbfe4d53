// Placement of weights: its options.
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <filesystem>

#include "app/generation_options.hpp"
#include "app/placement_options.hpp"
#include "base/text.hpp"
#include "io/files.hpp"

namespace trireme::app {
namespace {

using infer::Tier;

constexpr std::int64_t most_map_bytes = std::int64_t{1} << 26;

struct StrategyName {
  std::string_view name;
  infer::Strategy strategy;
};
constexpr std::array strategies = {
    StrategyName{"auto", infer::Strategy::balanced},
    StrategyName{"balanced", infer::Strategy::balanced},
    StrategyName{"balanced_low_0", infer::Strategy::balanced_low_0},
    StrategyName{"sequential", infer::Strategy::sequential}};

void parse_device_map(const std::string& word, PlacementRequest& request) {
  for (const StrategyName& one : strategies)
    if (one.name == word) {
      request.strategy = one.strategy;
      return;
    }
  std::error_code ignored;
  const bool there = std::filesystem::exists(word, ignored);
  require(there || word.find('/') != std::string::npos || word.ends_with(".json"),
          Status::command_line,
          "--device-map '{}' is none of auto, balanced, balanced_low_0 and sequential, "
          "and no file",
          word);
  require(there, Status::missing_input, "--device-map {}: there is no such file", word);
  request.map.emplace(io::read_text(word, most_map_bytes), word);
}

void parse_max_memory(const std::string& text, PlacementRequest& request) {
  for (const std::string_view part : split(text, ',')) {
    const std::string item(part);
    const std::size_t equals = item.find('=');
    const auto place = infer::place_named(item.substr(0, equals));
    require(equals != std::string::npos && place && place->tier != Tier::disk,
            Status::command_line,
            "--max-memory '{}': a list such as gpu0=20GiB,cpu=64GiB is expected{}", item,
            place && place->tier == Tier::disk ? "; the disk has no limit" : "");
    const std::int64_t bytes = parse_bytes("--max-memory", item.substr(equals + 1));
    const bool twice = place->tier == Tier::host ? request.host_bytes.has_value()
                                                 : request.gpu_bytes.contains(place->gpu);
    require(!twice, Status::command_line, "--max-memory gives '{}' twice",
            item.substr(0, equals));
    if (place->tier == Tier::host)
      request.host_bytes = bytes;
    else
      request.gpu_bytes[place->gpu] = bytes;
  }
}

}  // namespace

PlacementRequest placement_request(const Arguments& arguments) {
  PlacementRequest request;
  request.any = arguments.has("--device-map") || arguments.has("--max-memory");
  request.dry_run = arguments.has("--dry-run");
  if (arguments.has("--device-map"))
    parse_device_map(arguments.text("--device-map", ""), request);
  if (arguments.has("--max-memory"))
    parse_max_memory(arguments.text("--max-memory", ""), request);
  return request;
}

}  // namespace trireme::app
