// Names and shapes of an adapter's tensors in PEFT's files and in checkpoints.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "convert/folder_place.hpp"
#include "model/model_config.hpp"
#include "model/whole_tensors.hpp"

namespace trireme::convert {

// A file's names begin so, because there the model lies in two others.
inline constexpr std::string_view adapter_prefix = "base_model.model.";

// The module that has a tensor, or a buffer: the bias of a router's choice is the
// router's.
std::string module_of(const model::WholeTensor& tensor);

class AdapterNames {
 public:
  explicit AdapterNames(const model::ModelConfig& model);

  // What a name of a file is here; the name in a checkpoint, without "model/", is empty
  // where it is nothing.
  struct Found {
    std::string name, module;
    bool down = false, up = false, magnitude = false;
    bool of_adapter() const { return down || up || magnitude; }
    Shape whole{};        // of the matrix whose adapter it is, or of the tensor itself
    FolderPlace place{};  // of the tensor itself
  };
  Found find(const std::string& stored) const;
  // The name in a file of a tensor of a checkpoint: an adapter's, or a whole module's.
  std::string stored_name(const std::string& tensor) const;
  // Where a whole module's tensor lies in a file, but for the prefix of its name.
  const FolderPlace& place_of_tensor(const std::string& tensor) const;
  // Of a model whose head is tied to its embedding: the name in a file of the head's
  // tensor, which is the table once more, and the table's in a checkpoint. "" of others.
  const std::string& tied_head() const { return tied_head_; }
  const std::string& tied_table() const { return tied_table_; }
  // Whether matrices of the class lie as [in, out] in memory (fan_in_fan_out).
  bool fans_in() const { return fans_in_; }

 private:
  struct Entry {
    model::WholeTensor whole;
    FolderPlace place;
  };
  model::ModelConfig model_;
  std::map<std::string, Entry> entries_;          // by names in a checkpoint
  std::map<std::string, std::string> of_folder_;  // these, by names in a folder
  std::string tied_head_, tied_table_;
  bool fans_in_ = false;
};

}  // namespace trireme::convert
