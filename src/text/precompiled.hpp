// SentencePiece's compiled table of characters that become others.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "text/stages.hpp"

namespace trireme::text {

// The table in base64, as tokenizer.json holds it. Throws Error(bad_content).
std::unique_ptr<Normalizer> make_precompiled(const ConfigNode& node);

}  // namespace trireme::text
