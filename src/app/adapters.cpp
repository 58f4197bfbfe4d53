// Adapters that the command line names.
// SPDX-License-Identifier: Apache-2.0
#include "app/adapters.hpp"

#include <utility>

#include "base/error.hpp"
#include "base/number.hpp"
#include "base/text.hpp"
#include "convert/merged_adapters.hpp"

namespace trireme::app {

std::vector<NamedAdapter> parse_adapters(const std::string& option,
                                         const std::string& text) {
  std::vector<NamedAdapter> all;
  for (const std::string_view part : split(text, ',')) {
    NamedAdapter adapter{std::string(part)};
    const auto equals = adapter.folder.rfind('=');
    if (equals != std::string::npos) {
      const auto weight = parse_number<double>(adapter.folder.substr(equals + 1));
      require(weight && *weight >= -1e6 && *weight <= 1e6, Status::command_line,
              "{}: '{}' is no weight: write DIR or DIR=WEIGHT", option,
              adapter.folder.substr(equals + 1));
      adapter.weight = *weight;
      adapter.folder.resize(equals);
    }
    require(!adapter.folder.empty(), Status::command_line,
            "{}: '{}' names no folder: write DIR[=WEIGHT][,DIR[=WEIGHT]...]", option,
            text);
    all.push_back(std::move(adapter));
  }
  return all;
}

std::unique_ptr<io::TensorSource> with_adapters(std::unique_ptr<io::TensorSource> base,
                                                const model::ModelConfig& model,
                                                const std::vector<NamedAdapter>& adapters,
                                                double sign) {
  if (adapters.empty()) return base;
  std::vector<convert::AddedAdapter> added;
  for (const NamedAdapter& adapter : adapters)
    added.push_back(convert::added_adapter(adapter.folder, model, sign * adapter.weight));
  return std::make_unique<convert::MergedAdapters>(std::move(base), std::move(added));
}

}  // namespace trireme::app
