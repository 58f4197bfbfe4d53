// StartAdapters: adapters of a folder, of the checkpoint, or new ones.
// SPDX-License-Identifier: Apache-2.0
#include "train/start_adapters.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "model/adapted_modules.hpp"

namespace trireme::train {
namespace {

constexpr std::string_view prefix = "model/";

// A folder's matrices are multiplied as the deck says: it must say what the folder does.
void check_scales(const convert::AdapterFolder& folder, const nn::AdapterConfig& deck) {
  for (const std::string& module : folder.modules()) {
    const auto theirs = folder.config().of(module), ours = deck.of(module);
    require(ours.has_value(), Status::bad_content,
            "{}: has an adapter of '{}', which adapter.targets leaves out", folder.path(),
            module);
    require(!theirs || std::abs(theirs->scale - ours->scale) <= 1e-12 * theirs->scale,
            Status::bad_content,
            "{}: multiplies the adapter of '{}' by {}, the deck by {}: write the "
            "adapter.alpha, rank and rslora of its {}",
            folder.path(), module, theirs ? theirs->scale : 0, ours->scale,
            convert::adapter_config_name);
  }
}

}  // namespace

StartAdapters::StartAdapters(const config::RunConfig& config,
                             const io::CheckpointReader* checkpoint)
    : checkpoint_(checkpoint) {
  const nn::AdapterConfig& adapter = config.adapter.matrices;
  const bool theirs =
      checkpoint != nullptr &&
      std::any_of(checkpoint->tensors().begin(), checkpoint->tensors().end(),
                  [](const auto& entry) { return nn::is_adapter_tensor(entry.path); });
  require(!theirs || adapter.exists(), Status::bad_content,
          "model.from = \"{}\" has adapters, and this run has none: merge them first "
          "(trireme convert --merge), or write its [adapter]",
          config.start_from);
  if (config.adapter.from.empty()) return;
  folder_.emplace(config.adapter.from, config.model);
  check_scales(*folder_, adapter);
}

bool StartAdapters::read(const io::TensorBox& box) const {
  const std::string name = box.path.substr(prefix.size());
  const bool matrix = nn::is_adapter_tensor(name);
  if (folder_ && (matrix || folder_->has(name))) {
    folder_->read(box.path, box.whole, box.begin, box.data);
    return true;
  }
  return matrix && (checkpoint_ == nullptr || !checkpoint_->has(box.path));
}

}  // namespace trireme::train
