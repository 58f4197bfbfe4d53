// A folder of each node's own, as a deck names it for all ranks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace trireme {

// A folder as the deck's `key` writes it, on this rank: "$NAME" at its beginning stands
// for that environment variable of each rank, because the deck is the same on all.
// Throws Error(cannot_create) where the variable names no folder; the message proposes
// `instead`.
std::string node_folder(const std::string& written, std::string_view key,
                        std::string_view instead);

}  // namespace trireme
