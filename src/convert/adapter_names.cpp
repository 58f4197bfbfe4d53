// Names of an adapter's tensors, read off the class's row.
// SPDX-License-Identifier: Apache-2.0
#include "convert/adapter_names.hpp"

#include "base/error.hpp"
#include "convert/folder_config.hpp"
#include "model/adapted_modules.hpp"

namespace trireme::convert {
namespace {

constexpr std::string_view weight_end = ".weight";

}  // namespace

std::string module_of(const model::WholeTensor& tensor) {
  return tensor.learned ? nn::module_of_tensor(tensor.name)
                        : tensor.name.substr(0, tensor.name.rfind('.'));
}

AdapterNames::AdapterNames(const model::ModelConfig& model) : model_(model) {
  const model::HuggingFaceRow* row = row_for(model);
  require(row != nullptr, Status::bad_content,
          "model.architecture = \"{}\" has no class in transformers", model.row().name);
  for (auto& whole : model::whole_tensors(model)) {
    const std::string name = whole.name;
    FolderPlace place = place_of(*row, model, whole);
    // An expert's matrix in a stack of all keeps the name that it has alone.
    if (place.stacked()) place = {name, whole.shape};
    fans_in_ = fans_in_ || place.transform == model::Transform::transpose;
    of_folder_[place.name] = name;
    entries_[name] = {std::move(whole), std::move(place)};
  }
  if (!model.tie_embeddings) return;
  const auto& names = model.row().names;
  tied_head_ = format("{}{}{}", adapter_prefix,
                      model::name_in_memory(model, std::string(names.head)), weight_end);
  tied_table_ = format("{}{}", names.tokens, weight_end);
}

AdapterNames::Found AdapterNames::find(const std::string& stored) const {
  if (!stored.starts_with(adapter_prefix)) return {};
  const std::string rest = stored.substr(adapter_prefix.size());
  Found found;
  found.down = rest.ends_with(nn::down_suffix);
  found.up = rest.ends_with(nn::up_suffix);
  found.magnitude = rest.ends_with(nn::magnitude_suffix);
  const std::string_view end = found.down ? nn::down_suffix
                               : found.up ? nn::up_suffix
                                          : nn::magnitude_suffix;
  const bool matrix = found.of_adapter();
  const std::string folder =
      matrix ? rest.substr(0, rest.size() - end.size()) + std::string(weight_end) : rest;
  auto name = of_folder_.find(folder);
  if (name == of_folder_.end())
    name = of_folder_.find(model::name_in_files(model_, folder));
  if (name == of_folder_.end()) return {};
  const Entry& entry = entries_.at(name->second);
  if (matrix && entry.whole.shape.rank() != 2) return {};
  found.module = module_of(entry.whole);
  found.name = matrix ? found.module + std::string(end) : entry.whole.name;
  found.whole = entry.whole.shape;
  found.place = entry.place;
  return found;
}

const FolderPlace& AdapterNames::place_of_tensor(const std::string& tensor) const {
  return entries_.at(tensor).place;
}

std::string AdapterNames::stored_name(const std::string& tensor) const {
  const auto stored = [&](const std::string& folder, std::string_view end) {
    return std::string(adapter_prefix) + model::name_in_memory(model_, folder) +
           std::string(end);
  };
  for (const std::string_view end :
       {nn::down_suffix, nn::up_suffix, nn::magnitude_suffix}) {
    if (!tensor.ends_with(end)) continue;
    const std::string module = tensor.substr(0, tensor.size() - end.size());
    return stored(
        nn::module_of_tensor(place_of_tensor(module + std::string(weight_end)).name),
        end);
  }
  return stored(place_of_tensor(tensor).name, "");
}

}  // namespace trireme::convert
