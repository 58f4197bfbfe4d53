// Reading of files of conversations, line by line.
// SPDX-License-Identifier: Apache-2.0
#include "data/chat_files.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "text/byte_source.hpp"
#include "text/corpus.hpp"

namespace trireme::data {

const io::FileTokens& file_of(std::span<const io::FileTokens> files, std::int64_t at) {
  const auto behind = std::ranges::upper_bound(files, at, {}, &io::FileTokens::begin);
  return *(behind - 1);
}

void read_chat_files(const io::SourceConfig& config, const text::Tokenizer& tokenizer,
                     std::int32_t end_token, std::string_view source,
                     const std::function<void(const std::string&)>& open,
                     const std::function<void(const ChatEncoder&, const std::string& line,
                                              const std::string& place)>& take) {
  const auto chat =
      open_chat_template(tokenizer.folder(), config.chat_template, config.template_date);
  const ChatEncoder encoder(tokenizer, chat ? &*chat : nullptr, config.loss_on,
                            end_token);
  for (const std::string& name : text::corpus_files(config.paths)) {
    require(name != "-", Status::bad_content,
            "data.source = \"{}\" reads files; name one instead of \"-\"", source);
    open(name);
    text::LineInput lines(text::open_bytes(name));
    while (const auto line = lines.next())
      if (line->find_first_not_of(" \t\r") != line->npos)
        take(encoder, *line, lines.place());
  }
}

}  // namespace trireme::data
