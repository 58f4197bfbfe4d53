// Writing a checkpoint's adapter as PEFT does.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <set>

#include "base/boxes.hpp"
#include "base/directory.hpp"
#include "base/memory.hpp"
#include "convert/adapter_folder.hpp"
#include "convert/adapter_names.hpp"
#include "io/files.hpp"
#include "io/json_fields.hpp"
#include "io/run_lock.hpp"
#include "model/adapted_modules.hpp"

namespace trireme::convert {
namespace {

constexpr std::string_view regex_mark = "re:";

io::Json number(double value) {
  if (value == std::floor(value) && std::abs(value) < 1e15)
    return static_cast<std::int64_t>(value);
  return value;
}

// Names as the deck has them, or those of all adapted modules: an expression of the deck
// is about linear layers alone, and for PEFT about all modules.
io::Json targets_of(const nn::AdapterConfig& config,
                    const std::vector<std::string>& modules) {
  const auto plain = [](const std::string& target) {
    return target != nn::all_linear && !target.starts_with(regex_mark);
  };
  std::set<std::string> names;
  if (std::all_of(config.targets.begin(), config.targets.end(), plain)) {
    names.insert(config.targets.begin(), config.targets.end());
  } else {
    names.insert(modules.begin(), modules.end());
  }
  return names;
}

std::string config_text(const AdapterOrigin& origin, bool fans_in,
                        const std::vector<std::string>& modules,
                        const std::set<std::string>& saved, bool ties) {
  const nn::AdapterConfig& config = origin.config;
  io::Json ranks = io::Json::object(), alphas = io::Json::object();
  for (const auto& each : config.ranks) ranks[each.pattern] = each.value;
  for (const auto& each : config.alphas) alphas[each.pattern] = number(each.value);
  io::Json json;  // its keys are sorted, as PEFT's are
  json["alpha_pattern"] = alphas;
  json["auto_mapping"] = nullptr;
  json["base_model_name_or_path"] = nullptr;
  if (!origin.base.empty()) json["base_model_name_or_path"] = origin.base;
  json["bias"] = "none";
  if (ties) json["ensure_weight_tying"] = true;
  json["exclude_modules"] = nullptr;
  json["fan_in_fan_out"] = fans_in;
  json["inference_mode"] = true;
  json["init_lora_weights"] = true;
  json["layers_pattern"] = nullptr;
  json["layers_to_transform"] = nullptr;
  json["lora_alpha"] = number(config.alpha);
  json["lora_dropout"] = config.dropout;
  json["modules_to_save"] = nullptr;
  // Whole names: PEFT takes "norm" for the end of "input_layernorm", too.
  if (!saved.empty()) json["modules_to_save"] = saved;
  json["peft_type"] = "LORA";
  json["r"] = config.rank;
  json["rank_pattern"] = ranks;
  json["revision"] = nullptr;
  json["target_modules"] = targets_of(config, modules);
  json["target_parameters"] = nullptr;
  json["task_type"] = "CAUSAL_LM";
  json["use_dora"] = config.dora;
  json["use_rslora"] = config.by_root;
  return json.dump(2) + "\n";
}

// What is trained, and the buffers of modules that are saved as a whole: the bias of a
// router's choice is none of its weights.
std::vector<model::WholeTensor> saved_tensors(const nn::AdapterConfig& config,
                                              const model::ModelConfig& model) {
  std::vector<model::WholeTensor> all = model::adapter_tensors(config, model);
  std::set<std::string> modules;
  for (const auto& whole : all)
    if (!nn::is_adapter_tensor(whole.name))
      modules.insert(nn::module_of_tensor(whole.name));
  for (const auto& whole : model::whole_tensors(model))
    if (!whole.learned && modules.contains(module_of(whole))) all.push_back(whole);
  return all;
}

// What one file holds, and where each of its tensors comes from.
class AdapterPlan {
 public:
  AdapterPlan(const io::CheckpointReader& checkpoint, const model::ModelConfig& model,
              const AdapterOrigin& origin, std::optional<DType> dtype)
      : checkpoint_(checkpoint), names_(model) {
    std::vector<io::SafetensorsTensor> tensors;
    std::set<std::string> modules, saved;
    bool ties = false;
    const auto add = [&](const std::string& name, const model::WholeTensor& whole) {
      const bool matrix = nn::is_adapter_tensor(whole.name);
      const Shape shape = matrix ? whole.shape : names_.place_of_tensor(whole.name).shape;
      io::SafetensorsTensor tensor{
          name, &io::safetensors_type(dtype.value_or(stored_type(whole.name))), {}, 0, 0};
      for (int i = 0; i < shape.rank(); ++i) tensor.extents.push_back(shape[i]);
      tensors.push_back(std::move(tensor));
      wholes_[name] = whole;
      const std::string stored = name.substr(adapter_prefix.size());
      if (!matrix && whole.learned) saved.insert(nn::module_of_tensor(stored));
      if (!whole.name.ends_with(nn::down_suffix)) return;
      modules.insert(stored.substr(0, stored.size() - nn::down_suffix.size()));
    };
    for (const auto& whole : saved_tensors(origin.config, model)) {
      add(names_.stored_name(whole.name), whole);
      if (whole.name != names_.tied_table()) continue;
      add(names_.tied_head(), whole);  // else PEFT leaves the head at the old table
      ties = true;
    }
    plan_.emplace(std::move(tensors));
    config_ = config_text(origin, names_.fans_in(), {modules.begin(), modules.end()},
                          saved, ties);
  }

  std::int64_t count() const { return static_cast<std::int64_t>(wholes_.size()); }

  void write(const Directory& folder) const {
    io::SafetensorsWriter writer(folder, adapter_weights_name, *plan_);
    for (const auto& tensor : plan_->tensors()) writer.write(load(tensor).view());
    writer.close();
    io::write_text_atomically(folder, adapter_config_name, config_);
  }

 private:
  DType stored_type(const std::string& name) const {
    return checkpoint_.dtype_of("model/" + name);
  }
  Buffer load(const io::SafetensorsTensor& tensor) const {
    const model::WholeTensor& whole = wholes_.at(tensor.name);
    const DType dtype = *tensor.type->dtype;
    Buffer own(Device::host(), dtype, whole.shape, MemoryClass::data, "adapter's tensor");
    checkpoint_.read("model/" + whole.name, whole.shape, origin_of(whole.shape),
                     own.view());
    if (nn::is_adapter_tensor(whole.name)) return own;
    const FolderPlace& place = names_.place_of_tensor(whole.name);
    if (place.transform == model::Transform::copy) return own;
    Buffer out(Device::host(), dtype, *tensor.shape(), MemoryClass::data,
               "exported tensor");
    to_folder(place, own.view(), out.view());
    return out;
  }

  const io::CheckpointReader& checkpoint_;
  AdapterNames names_;
  std::map<std::string, model::WholeTensor> wholes_;
  std::optional<io::SafetensorsPlan> plan_;
  std::string config_;
};

}  // namespace

std::int64_t write_adapter(comm::World& world, const io::CheckpointReader& checkpoint,
                           const model::ModelConfig& model, const AdapterOrigin& origin,
                           const std::string& path, std::optional<DType> dtype) {
  std::int64_t count = 0;
  world.agree([&] {
    const AdapterPlan plan(checkpoint, model, origin, dtype);
    count = plan.count();
    if (world.rank() != 0) return;
    io::make_directories(parent_of(path));
    const Directory parent(parent_of(path));
    const std::string name = last_name_of(path), temporary = "." + name + ".tmp";
    const io::RunLock lock(parent_of(path), "." + name + ".lock");
    require(!parent.has(name), Status::cannot_create,
            "{}: is there already; nothing is replaced", path);
    if (parent.has(temporary)) parent.remove_tree(temporary);
    parent.make(temporary);
    try {
      const Directory folder = parent.open(temporary);
      plan.write(folder);
      folder.sync();
      parent.rename(temporary, name);
      parent.sync();
    } catch (const Error&) {
      parent.remove_tree(temporary);
      throw;
    }
  });
  return count;
}

}  // namespace trireme::convert
