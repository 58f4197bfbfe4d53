// The lines of a source's files of conversations or pairs of answers, and which is whose.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "data/chat_encoder.hpp"
#include "io/token_table.hpp"

namespace trireme::data {

// The file that token `at` belongs to; they are in their order.
const io::FileTokens& file_of(std::span<const io::FileTokens> files, std::int64_t at);

// Calls open(path) for each file of data.paths and take(encoder, line, place) for each of
// its lines that is not blank. `source` is the word of data.source, for messages. Throws
// Error(bad_content), Error(missing_input) and Error(io).
void read_chat_files(const io::SourceConfig& config, const text::Tokenizer& tokenizer,
                     std::int32_t end_token, std::string_view source,
                     const std::function<void(const std::string&)>& open,
                     const std::function<void(const ChatEncoder&, const std::string& line,
                                              const std::string& place)>& take);

}  // namespace trireme::data
