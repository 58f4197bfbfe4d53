// weights_digest: tells whether two sources have the same weights, without reading all.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "io/tensor_source.hpp"
#include "model/model_config.hpp"

namespace trireme::infer {

// XXH3-128 of the names of the model's tensors and of 16 samples of each, as the source
// gives them, adapters included: 256 numbers, as f32, of rows that are spread evenly from
// the first to the last of all outer dims, and from the left of a row to its right.
// Training changes these, and so does an adapter; sources that differ in other numbers
// alone are taken for one. Throws as the source does.
std::string weights_digest(const io::TensorSource& source,
                           const model::ModelConfig& model);

}  // namespace trireme::infer
