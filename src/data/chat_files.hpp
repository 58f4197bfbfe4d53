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

// Runs on some of `config.threads` threads; what it returns runs on the caller's, in the
// order of the lines.
using EncodeLine = std::function<std::function<void()>(
    const ChatEncoder& encoder, const std::string& line, const std::string& place)>;

// Calls open(path) for each file of data.paths and `encode` for each of its lines that
// is not blank. `source` is the word of data.source, for messages. Throws
// Error(bad_content), Error(missing_input) and Error(io), the first one in the order of
// the lines.
void read_chat_files(const io::SourceConfig& config, const text::Tokenizer& tokenizer,
                     std::int32_t end_token, std::string_view source,
                     const std::function<void(const std::string&)>& open,
                     const EncodeLine& encode);

}  // namespace trireme::data
