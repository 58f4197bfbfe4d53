// Modules with adapters, read off the model on the meta device.
// SPDX-License-Identifier: Apache-2.0
#include "model/adapted_modules.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "base/error.hpp"
#include "model/stage.hpp"

namespace trireme::model {
namespace {

// Calls body(param) for each Param of the whole model with its adapters.
template <class Body>
void for_each_param(const nn::AdapterConfig& config, const ModelConfig& model,
                    const Body& body) {
  StageConfig whole{.model = model, .blocks = {0, model.layers}};
  whole.adapter = config;
  Stage stage(whole, parallel::TensorRegion::whole(), Device::meta());
  for (Param* param : stage.parameters()) body(*param);
}

bool is_adapter(const Param& param) {
  return nn::is_adapter_tensor(param.boxes.front().tensor);
}

// The last parts of their names, for a message.
std::string linear_layers(nn::AdapterConfig config, const ModelConfig& model) {
  config.targets = {std::string(nn::all_linear)};
  config.modules_to_save.clear();
  std::set<std::string> last_parts;
  for_each_param(config, model, [&](const Param& param) {
    for (const NamedBox& named : param.boxes) {
      if (!named.tensor.ends_with(nn::down_suffix)) continue;
      const std::string name =
          named.tensor.substr(0, named.tensor.size() - nn::down_suffix.size());
      last_parts.insert(name.substr(name.rfind('.') + 1));
    }
  });
  std::string names;
  for (const std::string& name : last_parts) names += (names.empty() ? "" : ", ") + name;
  return names;
}

// `name` with one of its parts, whole between dots, replaced.
std::string replaced(std::string name, std::string_view part, std::string_view by) {
  if (part.empty()) return name;
  const auto at = name.find(part);
  if (at == std::string::npos) return name;
  const auto end = at + part.size();
  const bool whole =
      (at == 0 || name[at - 1] == '.') && (end == name.size() || name[end] == '.');
  return whole ? name.replace(at, part.size(), by) : name;
}

}  // namespace

std::string name_in_memory(const ModelConfig& model, std::string name) {
  const RenamedModule& renamed = model.row().names.renamed;
  return replaced(std::move(name), renamed.in_files, renamed.in_memory);
}

std::string name_in_files(const ModelConfig& model, std::string name) {
  const RenamedModule& renamed = model.row().names.renamed;
  return replaced(std::move(name), renamed.in_memory, renamed.in_files);
}

void freeze_base(const nn::AdapterConfig& config, Param& param) {
  if (!config.exists() || param.boxes.empty() || is_adapter(param)) return;
  const auto saved =
      std::count_if(param.boxes.begin(), param.boxes.end(), [&](const NamedBox& named) {
        return config.saves(nn::module_of_tensor(named.tensor));
      });
  require(saved == 0 || saved == static_cast<std::int64_t>(param.boxes.size()),
          Status::bad_content,
          "adapter.modules_to_save names some of the modules that are stored together "
          "with {}: name all of them or none",
          param.boxes.front().tensor);
  param.frozen = saved == 0;
}

std::string adapter_misfit(const nn::AdapterConfig& config, const ModelConfig& model) {
  std::set<std::string> adapted, modules;
  for_each_param(config, model, [&](Param& param) {
    freeze_base(config, param);
    for (const NamedBox& named : param.boxes) {
      const std::string& tensor = named.tensor;
      if (!is_adapter(param)) {
        modules.insert(nn::module_of_tensor(tensor));
      } else if (tensor.ends_with(nn::down_suffix)) {
        adapted.insert(tensor.substr(0, tensor.size() - nn::down_suffix.size()));
      }
    }
  });
  const auto none_of = [](const std::set<std::string>& names, const auto& fits) {
    return std::none_of(names.begin(), names.end(), fits);
  };
  for (const std::string& target : config.targets) {
    if (none_of(adapted, [&](const auto& name) { return nn::fits_target(target, name); }))
      return format(
          "adapter.targets: \"{}\" fits no linear layer in the blocks of this model; "
          "they are {}",
          target, linear_layers(config, model));
  }
  for (const std::string& saved : config.modules_to_save) {
    if (none_of(modules,
                [&](const auto& name) { return nn::ends_with_module(name, saved); }))
      return format(
          "adapter.modules_to_save: \"{}\" fits no module of this model; the last is "
          "called {}",
          saved, *modules.rbegin());
  }
  const auto fits = [](const std::string& pattern) {
    return [&](const auto& name) { return nn::fits_pattern(pattern, name); };
  };
  constexpr auto text = "adapter.{}: \"{}\" fits none of adapter.targets";
  for (const auto& each : config.ranks)
    if (none_of(adapted, fits(each.pattern)))
      return format(text, "rank_pattern", each.pattern);
  for (const auto& each : config.alphas)
    if (none_of(adapted, fits(each.pattern)))
      return format(text, "alpha_pattern", each.pattern);
  return {};
}

bool adapts_experts(const nn::AdapterConfig& config, const ModelConfig& model) {
  bool found = false;
  for_each_param(config, model, [&](const Param& param) {
    found = found || (is_adapter(param) && param.expert);
  });
  return found;
}

std::vector<WholeTensor> adapter_tensors(const nn::AdapterConfig& config,
                                         const ModelConfig& model) {
  std::vector<WholeTensor> all;
  std::set<std::string> seen;
  for_each_param(config, model, [&](Param& param) {
    freeze_base(config, param);
    if (param.frozen) return;
    for (const NamedBox& named : param.boxes)
      if (seen.insert(named.tensor).second)
        all.push_back({named.tensor, named.whole, true});
  });
  return all;
}

}  // namespace trireme::model
