// A line of the log about models that no Hugging Face folder can hold.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "model/model_config.hpp"

namespace trireme::app {

// Says which key keeps the model out of a Hugging Face folder, before it is trained;
// nothing of a model that `convert` can write.
void tell_of_export(const model::ModelConfig& model);

}  // namespace trireme::app
