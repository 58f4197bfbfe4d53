// The tokenizer that --tokenizer names.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "app/arguments.hpp"
#include "io/sample_source.hpp"
#include "text/tokenizer.hpp"

namespace trireme::app {

// Throws as its constructor, with the option's name before the file's.
inline text::Tokenizer tokenizer_option(const Arguments& arguments) {
  return io::named("--tokenizer",
                   [&] { return text::Tokenizer(arguments.text("--tokenizer", "")); });
}

}  // namespace trireme::app
