// The unigram model of SentencePiece, as tokenizer.json describes it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "text/stages.hpp"

namespace trireme::text {

// {"vocab": [[piece, score], ...], "unk_id", "byte_fallback"}. Throws Error(bad_content).
std::unique_ptr<Model> make_unigram(const ConfigNode& node);

}  // namespace trireme::text
