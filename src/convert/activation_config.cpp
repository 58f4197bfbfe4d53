// Activations in a config.json, by the names of transformers.
// SPDX-License-Identifier: Apache-2.0
#include "convert/activation_config.hpp"

#include <algorithm>
#include <array>

namespace trireme::convert {
namespace {

using kernels::Activation;

// The function of a name, with a gate and without. The first name of a function is the
// one that is written. Source: transformers 5, activations.py.
struct ActivationName {
  std::string_view name;
  Activation plain, gated;
};
constexpr std::array names = {
    ActivationName{"silu", Activation::silu, Activation::swiglu},
    ActivationName{"swish", Activation::silu, Activation::swiglu},
    ActivationName{"gelu_pytorch_tanh", Activation::gelu, Activation::geglu},
    ActivationName{"gelu_new", Activation::gelu, Activation::geglu},
    ActivationName{"gelu_fast", Activation::gelu, Activation::geglu},
    ActivationName{"gelu_python_tanh", Activation::gelu, Activation::geglu},
    ActivationName{"gelu", Activation::gelu_erf, Activation::geglu_erf},
    ActivationName{"gelu_python", Activation::gelu_erf, Activation::geglu_erf},
    ActivationName{"relu", Activation::relu, Activation::reglu},
    ActivationName{"relu2", Activation::relu2, Activation::reglu2}};

bool has_gate(const model::ModelConfig& m) { return !m.row().names.gate.empty(); }

std::string all_names() {
  std::string all;
  for (const ActivationName& each : names)
    all += (all.empty() ? "" : ", ") + std::string(each.name);
  return all;
}

}  // namespace

void read_activation(const ConfigFields& fields, const model::HuggingFaceRow& row,
                     model::ModelConfig& m) {
  const std::string_view key = row.keys.activation;
  const std::string name = fields.text(key, row.activation);
  if (name == row.activation || name == row.same_activation) return;
  const auto* const found = std::find_if(
      names.begin(), names.end(), [&](const auto& each) { return each.name == name; });
  if (found == names.end())
    fields.refuse(key, "is no activation that this program computes: " + all_names());
  const Activation own = has_gate(m) ? found->gated : found->plain;
  if (row.one_activation && name != "swish")
    fields.refuse(key, format("is not available: {} computes a function of its own, "
                              "under the name \"{}\"",
                              row.class_name, row.activation));
  if (!row.one_activation && own != m.row().activation) m.mlp.activation = own;
}

std::string_view activation_name(const model::HuggingFaceRow& row,
                                 const model::ModelConfig& m) {
  if (m.activation() == m.row().activation) return row.activation;
  for (const ActivationName& each : names) {
    const bool read_otherwise = each.name == row.same_activation;
    const Activation kind = has_gate(m) ? each.gated : each.plain;
    if (!row.one_activation && !read_otherwise && kind == m.activation())
      return each.name;
  }
  return "";
}

}  // namespace trireme::convert
