// What other training programs call the keys of our decks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string_view>

namespace trireme::io {

struct PeerName {
  std::string_view name;  // "hidden_size"; with a section where it means little alone
  std::string_view key;   // ours: "model.hidden"
};

// Names of transformers, Accelerate, Megatron-LM, DeepSpeed, nanotron and torchtitan,
// each once.
std::span<const PeerName> peer_names();

// Our key for a name of theirs, in whatever section, dashes or underlines; empty where
// none is known.
std::string_view key_of_peers(std::string_view name);

// For a name of theirs that has no key here: what stands in its place; else empty.
std::string_view advice_on(std::string_view name);

}  // namespace trireme::io
