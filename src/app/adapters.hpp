// Adapters that the command line names, added to a model.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "io/tensor_source.hpp"
#include "model/model_config.hpp"

namespace trireme::app {

// "DIR", "DIR=WEIGHT" or several with commas between.
struct NamedAdapter {
  std::string folder;
  double weight = 1;
};
// `option` is named in Error(command_line).
std::vector<NamedAdapter> parse_adapters(const std::string& option,
                                         const std::string& text);

// The model's tensors with these adapters, times `sign`; `base` itself where there are
// none. Throws as convert::AdapterFolder does.
std::unique_ptr<io::TensorSource> with_adapters(std::unique_ptr<io::TensorSource> base,
                                                const model::ModelConfig& model,
                                                const std::vector<NamedAdapter>& adapters,
                                                double sign = 1);

}  // namespace trireme::app
