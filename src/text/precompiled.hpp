// SentencePiece's compiled table of characters that become others.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "text/stages.hpp"

namespace trireme::text {

// The table in base64, as tokenizer.json holds it. Throws Error(bad_content).
std::unique_ptr<Normalizer> make_precompiled(const ConfigNode& node);

// The bytes that base64 text stands for; false when it is none.
bool decode_base64(std::string_view text, std::string& bytes);

}  // namespace trireme::text
