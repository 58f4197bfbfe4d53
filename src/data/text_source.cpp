// The "text" source: documents that are tokenized when it is opened.
// SPDX-License-Identifier: Apache-2.0
#include "data/text_source.hpp"

#include <algorithm>
#include <optional>

#include "base/error.hpp"
#include "data/chat_source.hpp"
#include "data/infilling.hpp"
#include "data/preference_source.hpp"
#include "io/source_stream.hpp"
#include "io/token_table.hpp"
#include "text/corpus.hpp"
#include "text/parallel_encoder.hpp"
#include "text/tokenizer.hpp"

namespace trireme::data {
namespace {

class TextSource final : public io::TokenStream {
 public:
  TextSource(const io::SourceConfig& config, const text::Tokenizer& tokenizer,
             std::int32_t end_token)
      : TokenStream(std::string(name_of(config.kind)), config.sequence),
        end_(end_token),
        texts_(io::made_once([&] { return read_files(config, tokenizer, end_token); })) {
    for (std::size_t part = 0; part < texts_->files.size(); ++part)
      add_part(end_of(part) - texts_->files[part].begin);
    cut_samples(config);
  }

  std::optional<std::int32_t> end_token() const override { return end_; }

 private:
  static io::TextTokens read_files(const io::SourceConfig& config,
                                   const text::Tokenizer& tokenizer,
                                   std::int32_t end_token) {
    io::TextTokens texts;
    std::int64_t bytes = 0;
    const std::vector<std::string> names = text::corpus_files(config.paths);
    require(std::ranges::count(names, "-") == 0, Status::bad_content,
            "data.source = \"text\" reads files; name one instead of \"-\"");
    text::ParallelEncoder encoder(
        tokenizer, config.threads,
        [&](const std::vector<std::int32_t>& ids, std::int64_t text_bytes) {
          bytes += text_bytes;
          texts.ids.insert(texts.ids.end(), ids.begin(), ids.end());
          texts.ids.push_back(end_token);
          texts.ends.push_back(std::ssize(texts.ids));
        });
    for (const std::string& name : names) {
      encoder.in_turn([&, &name = name] {
        texts.files.push_back({name, std::ssize(texts.ids)});
      });
      encoder.add_file(name, {});
    }
    encoder.finish();
    texts.tokens = std::ssize(texts.ids);
    texts.counts = {bytes};
    return texts;
  }

  std::int64_t end_of(std::size_t part) const {
    return part + 1 < texts_->files.size() ? texts_->files[part + 1].begin
                                           : texts_->tokens;
  }
  void read(std::size_t part, std::int64_t begin,
            std::span<std::int32_t> out) const override {
    const auto from = texts_->ids.begin() + texts_->files[part].begin + begin;
    std::copy(from, from + std::ssize(out), out.begin());
  }
  std::optional<std::vector<std::int64_t>> document_ends(
      std::size_t part) const override {
    const std::int64_t begin = texts_->files[part].begin;
    const auto first = std::ranges::upper_bound(texts_->ends, begin);
    const auto last = std::ranges::upper_bound(texts_->ends, end_of(part));
    std::vector<std::int64_t> ends;
    for (auto end = first; end != last; ++end) ends.push_back(*end - begin);
    return ends;
  }
  std::int64_t bytes() const override { return texts_->counts[0]; }
  const std::string& path_of(std::size_t part) const override {
    return texts_->files[part].path;
  }

  std::int32_t end_;
  io::TokenTable::Entry texts_;
};

std::unique_ptr<io::SampleSource> open_text(
    const io::SourceConfig& config, const std::optional<text::Tokenizer>& tokenizer) {
  require(tokenizer.has_value(), Status::bad_content,
          "data.source = \"{}\" needs data.tokenizer: a tokenizer.json or its folder",
          name_of(config.kind));
  const auto end = io::named(config.names.tokenizer, [&] {
    const auto said = tokenizer->end_token();
    require(said.has_value(), Status::bad_content,
            "{} does not say which token ends a document: name it in "
            "tokenizer_config.json beside it, as {\"eos_token\": \"</s>\"}{}",
            config.tokenizer,
            config.kind == io::SourceKind::text
                ? ", or make token files by trireme tokenize --end-token"
                : "");
    return said;
  });
  if (config.kind == io::SourceKind::chat) return open_chat(config, *tokenizer, *end);
  if (config.kind == io::SourceKind::preference)
    return open_preferences(config, *tokenizer, *end);
  return std::make_unique<TextSource>(config, *tokenizer, *end);
}

text::Tokenizer open_tokenizer(const io::SourceConfig& config) try {
  text::Tokenizer tokenizer(config.tokenizer);
  const std::int64_t size = tokenizer.vocabulary();
  require(size <= config.vocabulary, Status::bad_content,
          "{} has {} tokens, but model.vocabulary = {}: set it to {} or more",
          config.tokenizer, size, config.vocabulary, size);
  return tokenizer;
} catch (const Error& error) {
  if (error.status() != Status::missing_input) throw;
  fail(error.status(),
       "{}: write where a tokenizer.json, a SentencePiece .model, a .tiktoken file or a "
       "folder with one lies",
       error.what());
}

// Of token files that do not say which token ends a document; below 0: it does not say
// either, or not soundly, which is for those to tell who need it.
std::int64_t end_of(const text::Tokenizer& tokenizer) try {
  return tokenizer.end_token().value_or(-1);
} catch (const Error&) {
  return -1;
}

}  // namespace

std::unique_ptr<io::SampleSource> open_source(io::SourceConfig config) {
  std::optional<text::Tokenizer> tokenizer;
  if (!config.tokenizer.empty()) {
    io::named(config.names.tokenizer, [&] { tokenizer.emplace(open_tokenizer(config)); });
    config.tokenizer_digest = tokenizer->digest();
    if (config.packing != io::Packing::none || config.infilling.rate > 0)
      config.tokenizer_end = end_of(*tokenizer);
  }
  auto source = io::open_source(
      config, [&](const io::SourceConfig& part) { return open_text(part, tokenizer); });
  if (config.infilling.rate == 0) return source;
  require(tokenizer.has_value(), Status::bad_content,
          "data.fim_rate needs data.tokenizer, which has the three tokens");
  return infilled(std::move(source), config,
                  std::make_shared<const text::Tokenizer>(std::move(*tokenizer)));
}

}  // namespace trireme::data
