// Fill-in-the-middle of documents, and of the samples of a source.
// SPDX-License-Identifier: Apache-2.0
#include "data/infilling.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "base/format.hpp"
#include "base/philox.hpp"

namespace trireme::data {
namespace {

// Places between the characters of UTF-8, the ends included.
std::vector<std::size_t> places_of(const std::string& text) {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < text.size(); ++i)
    if ((static_cast<unsigned char>(text[i]) & 0xC0) != 0x80) places.push_back(i);
  places.push_back(text.size());
  return places;
}

void append(std::vector<std::int32_t>& to, std::span<const std::int32_t> ids) {
  to.insert(to.end(), ids.begin(), ids.end());
}

}  // namespace

Infilling::Infilling(const io::InfillingConfig& config, const text::Tokenizer& tokenizer,
                     std::uint64_t seed)
    : rate_(config.rate), spm_(config.spm), tokenizer_(tokenizer), seed_(seed) {
  require(config.tokens.size() == 3, Status::bad_content,
          "data.fim_tokens must name three tokens: of the prefix, the suffix and the "
          "middle");
  const std::pair<std::int32_t*, const std::string*> all[] = {
      {&pre_, &config.tokens[0]}, {&suf_, &config.tokens[1]}, {&mid_, &config.tokens[2]}};
  for (const auto& [id, name] : all) {
    const auto found = tokenizer.id_of(*name);
    require(found.has_value(), Status::bad_content,
            "data.fim_tokens: data.tokenizer has no token \"{}\": name its own, as "
            "[\"<fim_prefix>\", \"<fim_suffix>\", \"<fim_middle>\"]",
            *name);
    *id = *found;
  }
}

// Whether text gives the same tokens and characters again; else parts are not to be used.
bool Infilling::cut_text(std::span<const std::int32_t> document, std::uint64_t first,
                         std::uint64_t second, Parts& parts) const {
  const std::string text = tokenizer_.decode(document, false);
  const std::vector<std::int32_t> again =
      tokenizer_.encode(text, text::SpecialTokens::leave_out);
  if (!std::equal(again.begin(), again.end(), document.begin(), document.end()))
    return false;
  const std::vector<std::size_t> places = places_of(text);
  const Random spread(first, second);
  std::size_t a = places[spread.below(0, places.size())];
  std::size_t b = places[spread.below(1, places.size())];
  if (a > b) std::swap(a, b);
  parts.prefix = tokenizer_.encode(text.substr(0, a), text::SpecialTokens::leave_out);
  parts.middle = tokenizer_.encode(text.substr(a, b - a), text::SpecialTokens::leave_out);
  parts.suffix = tokenizer_.encode(text.substr(b), text::SpecialTokens::leave_out);
  // A tokenizer that puts a blank before each text must not put one into a word.
  std::vector<std::int32_t> all = parts.prefix;
  append(all, parts.middle);
  append(all, parts.suffix);
  return tokenizer_.decode(all, false) == text;
}

Infilling::Parts Infilling::cut(std::span<const std::int32_t> document,
                                std::uint64_t first, std::uint64_t second) const {
  Parts parts;
  if (cut_text(document, first, second, parts)) return parts;
  const Random spread(first, second);
  std::uint64_t a = spread.below(0, document.size() + 1);
  std::uint64_t b = spread.below(1, document.size() + 1);
  if (a > b) std::swap(a, b);
  const auto at = [&](std::uint64_t i) {
    return document.begin() + static_cast<std::ptrdiff_t>(i);
  };
  parts.prefix.assign(document.begin(), at(a));
  parts.middle.assign(at(a), at(b));
  parts.suffix.assign(at(b), document.end());
  return parts;
}

std::vector<std::int32_t> Infilling::apply(std::span<const std::int32_t> document,
                                           std::int64_t sample,
                                           std::int64_t place) const {
  std::vector<std::int32_t> as_it_is(document.begin(), document.end());
  static const std::uint64_t stream = hash_name("fill in the middle");
  const Random draw(seed_, stream + static_cast<std::uint64_t>(sample));
  const auto number = 4 * static_cast<std::uint64_t>(place);
  if (draw.uniform(number) >= rate_) return as_it_is;
  Parts parts = cut(document, draw.bits(number + 1), draw.bits(number + 2));
  // 1. room for three tokens more, in the context that the middle is not learned from
  const std::size_t all =
      parts.prefix.size() + parts.middle.size() + parts.suffix.size() + 3;
  std::size_t over = all > document.size() ? all - document.size() : 0;
  const std::size_t of_suffix = std::min(over, parts.suffix.size());
  parts.suffix.resize(parts.suffix.size() - of_suffix);
  over -= of_suffix;
  if (over > parts.prefix.size()) return as_it_is;
  parts.prefix.erase(parts.prefix.begin(),
                     parts.prefix.begin() + static_cast<std::ptrdiff_t>(over));
  // 2. the order
  const bool spm = draw.uniform(number + 3) < spm_;
  std::vector<std::int32_t> out{pre_};
  if (!spm) append(out, parts.prefix);
  out.push_back(suf_);
  append(out, parts.suffix);
  out.push_back(mid_);
  if (spm) append(out, parts.prefix);
  append(out, parts.middle);
  return out;
}

namespace {

class InfilledSource final : public io::SampleSource {
 public:
  InfilledSource(std::unique_ptr<io::SampleSource> source, const io::SourceConfig& config,
                 std::shared_ptr<const text::Tokenizer> tokenizer)
      : source_(std::move(source)),
        tokenizer_(std::move(tokenizer)),
        infilling_(config.infilling, *tokenizer_, config.seed),
        row_(static_cast<std::size_t>(config.sequence) + 1) {
    end_ = source_->end_token();
    if (!end_) end_ = tokenizer_->end_token();
    if (config.end_token >= 0) end_ = static_cast<std::int32_t>(config.end_token);
    require(!source_->has_masks(), Status::bad_content,
            "{} is for texts, but these data mark tokens that are no targets: write "
            "data.fim_rate = 0.0",
            config.names.infilling);
    require(!source_->marks(0).starts.empty() || end_.has_value(), Status::bad_content,
            "{}: the data do not say which token ends a document: set data.end_token",
            config.names.infilling);
    description_ = format("{}; {} % of documents infilled, {} % of these suffix first",
                          source_->describe(), fixed(100 * config.infilling.rate, 1),
                          fixed(100 * config.infilling.spm, 1));
  }

  std::int64_t samples() const override { return source_->samples(); }
  std::int64_t tokens() const override { return source_->tokens(); }
  std::int64_t windows() const override { return source_->windows(); }
  std::optional<std::int32_t> end_token() const override { return source_->end_token(); }
  const io::Blend* blend() const override { return source_->blend(); }
  std::vector<io::SamplePart> parts(std::int64_t index) const override {
    return source_->parts(index);
  }
  std::int64_t kept_bytes() const override { return source_->kept_bytes(); }
  std::string describe() const override { return description_; }

  void sample(std::int64_t index, std::span<std::int32_t> tokens) const override {
    const auto [row, starts] = make(index);
    std::copy(row.begin(), row.end(), tokens.begin());
  }
  io::SampleMarks marks(std::int64_t index) const override {
    if (source_->marks(index).starts.empty()) return {};
    return {.starts = make(index).second, .no_target = {}};
  }

 private:
  // A row, and where the document of each of its tokens begins. What its documents have
  // become shorter by is missing at its end.
  std::pair<std::vector<std::int32_t>, std::vector<std::int64_t>> make(
      std::int64_t index) const {
    std::vector<std::int32_t> before(row_), after;
    source_->sample(index, before);
    const io::SampleMarks marks = source_->marks(index);
    require(marks.no_target.empty(), "sample {} has tokens that are no targets", index);
    std::vector<std::int64_t> starts;
    const auto known = static_cast<std::size_t>(
        std::find_if(before.begin(), before.end(), [](std::int32_t t) { return t < 0; }) -
        before.begin());
    for (std::size_t begin = 0; begin < known;) {
      std::size_t next = begin + 1;
      const auto ends = [&](std::size_t t) {
        return marks.starts.empty() ? before[t - 1] == end_
                                    : marks.starts[t] != marks.starts[t - 1];
      };
      while (next < known && !ends(next)) ++next;
      const bool ended = before[next - 1] == end_;
      const std::span document(&before[begin], next - begin - ended);
      const std::int64_t start = std::ssize(after);
      for (const std::int32_t token :
           infilling_.apply(document, index, static_cast<std::int64_t>(begin)))
        after.push_back(token);
      if (ended) after.push_back(*end_);
      starts.resize(after.size(), start);
      begin = next;
    }
    starts.resize(row_, std::ssize(after));
    after.resize(row_, io::ignore_index);
    return {after, starts};
  }

  std::unique_ptr<io::SampleSource> source_;
  std::shared_ptr<const text::Tokenizer> tokenizer_;
  Infilling infilling_;
  std::size_t row_;  // S + 1
  std::optional<std::int32_t> end_;
  std::string description_;
};

}  // namespace

std::unique_ptr<io::SampleSource> infilled(
    std::unique_ptr<io::SampleSource> source, const io::SourceConfig& config,
    std::shared_ptr<const text::Tokenizer> tokenizer) {
  return std::make_unique<InfilledSource>(std::move(source), config,
                                          std::move(tokenizer));
}

}  // namespace trireme::data
