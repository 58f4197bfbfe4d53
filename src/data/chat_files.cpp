// Reading of files of conversations, line by line.
// SPDX-License-Identifier: Apache-2.0
#include "data/chat_files.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "text/byte_source.hpp"
#include "text/corpus.hpp"
#include "text/ordered_work.hpp"

namespace trireme::data {

const io::FileTokens& file_of(std::span<const io::FileTokens> files, std::int64_t at) {
  const auto behind = std::ranges::upper_bound(files, at, {}, &io::FileTokens::begin);
  return *(behind - 1);
}

void read_chat_files(const io::SourceConfig& config, const text::Tokenizer& tokenizer,
                     std::int32_t end_token, std::string_view source,
                     const std::function<void(const std::string&)>& open,
                     const EncodeLine& encode) {
  const auto open_chat = [&] {
    return open_chat_template(tokenizer.folder(), config.chat_template,
                              config.template_date);
  };
  const auto chat = config.chat_template.empty()
                        ? open_chat()
                        : io::named(config.names.chat_template, open_chat);
  const ChatEncoder encoder(tokenizer, chat ? &*chat : nullptr, config.loss_on,
                            end_token);
  const std::vector<std::string> names = text::corpus_files(config.paths);
  require(std::ranges::count(names, "-") == 0, Status::bad_content,
          "data.source = \"{}\" reads files; name one instead of \"-\"", source);
  text::OrderedWork work(config.threads);
  const auto read = [&](const std::string& name) {
    text::LineInput lines(text::open_bytes(name));
    while (auto line = lines.next()) {
      if (line->find_first_not_of(" \t\r") == line->npos) continue;
      const std::size_t bytes = line->size();
      work.add(bytes, [&, own = std::move(*line), place = lines.place()](std::size_t) {
        return encode(encoder, own, place);
      });
    }
  };
  for (const std::string& name : names) {
    work.add(name.size(), [&](std::size_t) { return [&] { open(name); }; });
    try {
      read(name);
    } catch (...) {
      work.finish();  // what is wrong in a line before is told first
      throw;
    }
  }
  work.finish();
}

}  // namespace trireme::data
