// The "chat" source: conversations that are rendered and tokenized when it is opened.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "io/sample_source.hpp"
#include "text/tokenizer.hpp"

namespace trireme::data {

// The lines of config.paths, each a conversation or text (chat_lines.hpp), in memory.
// Packing none: a sample is a conversation, cut or padded to the length of a sample;
// those without a target in it are left out. Else samples as of text, each conversation a
// document. Throws Error(bad_content) naming file and line, Error(missing_input).
std::unique_ptr<io::SampleSource> open_chat(const io::SourceConfig& config,
                                            const text::Tokenizer& tokenizer,
                                            std::int32_t end_token);

}  // namespace trireme::data
