// AdapterFolder: an adapter as PEFT writes it, read and written.
// SPDX-License-Identifier: Apache-2.0
// adapter_config.json and adapter_model.safetensors.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/world.hpp"
#include "convert/adapter_names.hpp"
#include "convert/folder_place.hpp"
#include "io/checkpoint.hpp"
#include "io/safetensors_folder.hpp"
#include "io/tensor_source.hpp"
#include "model/adapted_modules.hpp"
#include "model/model_config.hpp"
#include "model/whole_tensors.hpp"

namespace trireme::convert {

inline constexpr auto adapter_config_name = "adapter_config.json";
inline constexpr auto adapter_weights_name = "adapter_model.safetensors";

// Reads the header when it is made, and of the tensors only the boxes that are asked for,
// by the names that they have in a checkpoint: "model/<module>.lora_A.weight", and
// "model/<tensor>" of modules that were trained whole.
class AdapterFolder : public io::TensorSource {
 public:
  // Throws Error(missing_input) when a file is missing, Error(bad_content) when it is no
  // LoRA adapter, when it asks for what this program does not have, or when a tensor is
  // not one of an adapter for `model`, which the message lists.
  AdapterFolder(const std::string& path, const model::ModelConfig& model);

  // Rank, scale and patterns; targets and modules_to_save as the tensors are.
  const nn::AdapterConfig& config() const { return config_; }
  const std::string& path() const { return files_.path(); }
  bool has(const std::string& tensor) const { return by_name_.contains(tensor); }
  // Modules with matrices, sorted.
  std::vector<std::string> modules() const;

  void read(const std::string& path, const Shape& whole, const Shape& begin,
            const TensorView& out) const override;

 private:
  void read_config();
  void match(const model::ModelConfig& model);
  void take(const AdapterNames& names, const io::SafetensorsFolder::Tensor& tensor,
            std::vector<std::string>& wrong);
  void check_tied_head(const AdapterNames& names,
                       const io::SafetensorsFolder::Tensor* head,
                       std::vector<std::string>& wrong) const;
  void check_company(std::vector<std::string>& wrong) const;
  void check_targets(std::vector<std::string>& wrong) const;

  struct Stored {
    const io::SafetensorsFolder::Tensor* tensor = nullptr;
    FolderPlace place;  // of a whole module's tensor
  };

  mutable io::SafetensorsFolder files_;  // which files are open is no state of it
  nn::AdapterConfig config_;
  std::vector<std::string> targets_;  // names of the file
  bool ties_ = false;                 // what PEFT calls ensure_weight_tying
  std::map<std::string, Stored> by_name_;
};

struct AdapterOrigin {
  nn::AdapterConfig config;
  std::string base;  // what it was trained on: base_model_name_or_path
};

// Collective over the world; rank 0 writes `path`, which must not be there, from the
// adapter's tensors of the checkpoint, under a temporary name until it is whole. Returns
// how many tensors. Throws an Agreed Error as write_folder() does.
std::int64_t write_adapter(comm::World& world, const io::CheckpointReader& checkpoint,
                           const model::ModelConfig& model, const AdapterOrigin& origin,
                           const std::string& path, std::optional<DType> dtype);

}  // namespace trireme::convert
