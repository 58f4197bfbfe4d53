// `trireme inspect DATA`: what a token file holds.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "app/arguments.hpp"
#include "io/sample_source.hpp"

namespace trireme::app {

// Whether a path is a file of tokens: HDF5 with a dataset "tokens", or one that ends in
// .bin or .idx.
bool is_token_file(const std::string& path);

// Which kind of token file a path or glob names, by its ending, its neighbours or, of a
// file, its first bytes; none: it is text, or nothing is there.
std::optional<io::SourceKind> token_file_kind(const std::string& path);

// Prints counts, lengths of documents and the first sample. Throws as sources do.
void inspect_data(const std::string& path, const Arguments& arguments);

}  // namespace trireme::app
