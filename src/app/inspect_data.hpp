// `trireme inspect DATA`: what a token file holds.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "app/arguments.hpp"

namespace trireme::app {

// Whether a path is a file of tokens: HDF5 with a dataset "tokens", or one that ends in
// .bin or .idx.
bool is_token_file(const std::string& path);

// Prints counts, lengths of documents and the first sample. Throws as sources do.
void inspect_data(const std::string& path, const Arguments& arguments);

}  // namespace trireme::app
