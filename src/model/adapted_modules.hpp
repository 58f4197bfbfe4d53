// Which modules of a model an adapter's names mean.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "base/param.hpp"
#include "model/model_config.hpp"
#include "model/whole_tensors.hpp"
#include "nn/adapter_config.hpp"

namespace trireme::model {

// A sentence that names what fits nothing in the model, or is a part of what is stored
// together; empty where all is well. Throws as nn::Adapter::attach() does.
std::string adapter_misfit(const nn::AdapterConfig& config, const ModelConfig& model);
bool adapts_experts(const nn::AdapterConfig& config, const ModelConfig& model);

// The name of a module, or of a tensor of one, as adapters have it, and as files have it
// (RenamedModule).
std::string name_in_memory(const ModelConfig& model, std::string name);
std::string name_in_files(const ModelConfig& model, std::string name);

// Marks the Params of a model with adapters: all are frozen but the adapters' own and
// those of modules_to_save. Nothing without adapters. Throws Error(bad_content) where a
// Param stores a saved module with others.
void freeze_base(const nn::AdapterConfig& config, Param& param);

// The matrices of the adapters, and the tensors of modules_to_save, in the order of
// forward.
std::vector<WholeTensor> adapter_tensors(const nn::AdapterConfig& config,
                                         const ModelConfig& model);

}  // namespace trireme::model
