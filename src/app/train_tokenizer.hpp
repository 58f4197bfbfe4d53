// `trireme tokenize --train SIZE`: a tokenizer made from text.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "app/arguments.hpp"

namespace trireme::app {

// Writes the tokenizer.json that `arguments` ask for. Throws what reading and writing do.
void train_tokenizer(const Arguments& arguments, int threads);

}  // namespace trireme::app
