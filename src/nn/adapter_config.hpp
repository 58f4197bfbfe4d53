// AdapterConfig: which linear layers of a model have adapters, and of what rank.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::nn {

// The value of modules whose names a pattern fits: see AdapterConfig.
template <class T>
struct ModulePattern {
  std::string pattern;
  T value{};
};

// Of one module.
struct AdapterModule {
  std::int64_t rank = 0;
  double scale = 0;  // of the product B A
};

// Modules are linear layers by their names in the model's class in transformers, without
// ".weight". What the words mean is PEFT's LoraConfig.
struct AdapterConfig {
  std::int64_t rank = 0;  // 0: there are none
  double alpha = 8;
  double dropout = 0;    // of the input of A, in training
  bool by_root = false;  // rsLoRA: the scale is alpha / sqrt(rank), else alpha / rank
  // DoRA: rows of the sum of a weight and its product have lengths that are learned.
  bool dora = false;
  // Names, whole or their last parts; "re:" and an expression that fits the whole name;
  // or "all-linear".
  std::vector<std::string> targets;
  // Modules that are trained whole beside adapters, by their names or their last parts.
  std::vector<std::string> modules_to_save;
  // Of modules whose names, or last parts of them, a regular expression fits; the first
  // that does.
  std::vector<ModulePattern<std::int64_t>> ranks;
  std::vector<ModulePattern<double>> alphas;

  bool exists() const { return rank > 0; }
  // What the module has; nothing where it is no target.
  std::optional<AdapterModule> of(const std::string& module) const;
  // Whether it is one of modules_to_save.
  bool saves(const std::string& module) const;
};

inline constexpr std::string_view all_linear = "all-linear";

// Whether the module's name is `name`, or ends with a dot and `name`.
bool ends_with_module(std::string_view module, std::string_view name);
// Whether a target of AdapterConfig, or a pattern of its ranks and alphas, fits. Throws
// Error(bad_content) for an expression that cannot be read.
bool fits_target(const std::string& target, const std::string& module);
bool fits_pattern(const std::string& pattern, const std::string& module);
// Why a pattern cannot be read, in the library's words; "" where it can.
std::string pattern_mistake(const std::string& pattern);

// "model.layers.0.mlp.up_proj" of its tensor "....weight"; the name itself where it does
// not end so.
std::string module_of_tensor(const std::string& tensor);

inline constexpr std::string_view down_suffix = ".lora_A.weight";
inline constexpr std::string_view up_suffix = ".lora_B.weight";
inline constexpr std::string_view magnitude_suffix = ".lora_magnitude_vector";
// Whether a tensor is one of an adapter's.
bool is_adapter_tensor(std::string_view tensor);

}  // namespace trireme::nn
