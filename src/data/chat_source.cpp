// Samples of conversations, with marks of where each begins and what is learned.
// SPDX-License-Identifier: Apache-2.0
#include "data/chat_source.hpp"

#include <algorithm>
#include <functional>
#include <utility>

#include "base/error.hpp"
#include "base/split.hpp"
#include "data/chat_files.hpp"
#include "io/best_fit_packing.hpp"

namespace trireme::data {
namespace {

class ChatSource final : public io::SampleSource {
 public:
  ChatSource(const io::SourceConfig& config, const text::Tokenizer& tokenizer,
             std::int32_t end_token)
      : sequence_(config.sequence),
        packing_(config.packing),
        end_(end_token),
        chats_(io::made_once([&] { return read_files(config, tokenizer); })) {
    require(!chats_->ends.empty() || count(left_out) > 0, Status::bad_content,
            "{}: holds no conversation: write one a line",
            config.paths.empty() ? "data.paths" : config.paths.front());
    require(!chats_->ends.empty(), Status::bad_content,
            "{}: no conversation has a token to learn{}: look at data.loss_on (of "
            "\"messages\" those of the role assistant are learned){}",
            config.paths.empty() ? "data.paths" : config.paths.front(),
            count(left_out) > 0 ? format(" ({} were read)", count(left_out)) : "",
            config.sequence_by.empty() ? "" : format(" and at {}", config.sequence_by));
    if (packing_ == io::Packing::best_fit)
      rows_.emplace(chats_->ends, sequence_ + 1, config.seed);
  }

  std::int64_t samples() const override {
    if (packing_ == io::Packing::none) return std::ssize(chats_->ends);
    return rows_ ? rows_->rows() : divide_up(tokens() - 1, sequence_);
  }
  std::int64_t tokens() const override { return chats_->tokens; }
  std::int64_t kept_bytes() const override { return rows_ ? rows_->bytes() : 0; }
  std::optional<std::int32_t> end_token() const override { return end_; }

  void sample(std::int64_t index, std::span<std::int32_t> tokens) const override {
    require(std::ssize(tokens) == sequence_ + 1, "{} tokens for a sample of {}",
            tokens.size(), sequence_ + 1);
    auto to = tokens.begin();
    for (const io::DocumentPiece& piece : pieces(index))
      to = std::copy_n(chats_->ids.begin() + piece.begin, piece.tokens, to);
    std::fill(to, tokens.end(), io::ignore_index);
  }

  io::SampleMarks marks(std::int64_t index) const override {
    const auto size = static_cast<std::size_t>(sequence_) + 1;
    io::SampleMarks marks;
    for (const io::DocumentPiece& piece : pieces(index)) {
      const std::int64_t start = std::ssize(marks.starts);
      for (std::int64_t i = 0; i < piece.tokens; ++i) {
        marks.starts.push_back(start);
        marks.no_target.push_back(
            chats_->learned[static_cast<std::size_t>(piece.begin + i)] == 0);
      }
    }
    marks.starts.resize(size, std::ssize(marks.starts));  // what is left is padding
    marks.no_target.resize(size, 1);
    return marks;
  }

  bool has_masks() const override { return true; }

  std::vector<io::SamplePart> parts(std::int64_t index) const override {
    std::vector<io::SamplePart> all;
    for (const io::DocumentPiece& piece : pieces(index)) {
      const io::FileTokens& own = file_of(chats_->files, piece.begin);
      all.push_back({own.path, piece.begin - own.begin, piece.tokens});
    }
    return all;
  }

  std::string describe() const override {
    const std::size_t files = chats_->files.size();
    std::string text = format(
        "chat: {} {}, {} conversations, {} tokens, {} % of them learned, {} samples of "
        "{}",
        files, files == 1 ? "file" : "files", chats_->ends.size(), tokens(),
        fixed(100 * static_cast<double>(count(learned)) / static_cast<double>(tokens()),
              1),
        samples(), sequence_);
    if (count(cut) > 0) text += format("; {} longer ones cut", count(cut));
    if (count(left_out) > 0)
      text += format("; {} without a target left out", count(left_out));
    return text;
  }

 private:
  // Of conversations, and of tokens that are targets.
  enum Counted : std::size_t { cut, left_out, learned, counted };
  std::int64_t count(Counted what) const { return chats_->counts[what]; }

  io::TextTokens read_files(const io::SourceConfig& config,
                            const text::Tokenizer& tokenizer) const {
    io::TextTokens chats{.counts = std::vector<std::int64_t>(counted)};
    read_chat_files(
        config, tokenizer, end_, "chat",
        [&](const std::string& path) {
          chats.files.push_back({path, std::ssize(chats.ids)});
        },
        [&](const ChatEncoder& encoder, const std::string& line,
            const std::string& place) -> std::function<void()> {
          return [this, &chats,
                  chat = encoder.encode(parse_chat_line(line, place), place)]() mutable {
            add(std::move(chat), chats);
          };
        });
    chats.tokens = std::ssize(chats.ids);
    chats.counts[learned] = std::ranges::count(chats.learned, 1);
    return chats;
  }

  void add(EncodedChat chat, io::TextTokens& to) const {
    const bool whole = packing_ != io::Packing::none;
    const std::int64_t size = std::ssize(chat.ids), most = sequence_ + 1;
    const std::int64_t kept = whole ? size : std::min(size, most);
    if (size > 0) chat.learned[0] = 0;  // nothing is before it
    const auto learned_end = chat.learned.begin() + kept;
    if (std::find(chat.learned.begin(), learned_end, 1) == learned_end) {
      ++to.counts[left_out];
      return;
    }
    to.counts[cut] += size > most;
    to.ids.insert(to.ids.end(), chat.ids.begin(), chat.ids.begin() + kept);
    to.learned.insert(to.learned.end(), chat.learned.begin(), learned_end);
    to.ends.push_back(std::ssize(to.ids));
  }

  // What a sample is made of.
  std::vector<io::DocumentPiece> pieces(std::int64_t index) const {
    require(index >= 0 && index < samples(), "sample {} of {}", index, samples());
    if (rows_) {
      const auto row = rows_->row(index);
      return {row.begin(), row.end()};
    }
    const std::vector<std::int64_t>& ends = chats_->ends;
    const auto number = static_cast<std::size_t>(index);
    if (packing_ == io::Packing::none) {
      const std::int64_t begin = number > 0 ? ends[number - 1] : 0;
      return {{begin, ends[number] - begin}};
    }
    std::vector<io::DocumentPiece> all;
    std::int64_t at = index * sequence_;
    const std::int64_t end = std::min(at + sequence_ + 1, tokens());
    for (auto own = std::ranges::upper_bound(ends, at); at < end; ++own) {
      const std::int64_t size = std::min(*own, end) - at;
      all.push_back({at, size});
      at += size;
    }
    return all;
  }

  std::int64_t sequence_;
  io::Packing packing_;
  std::int32_t end_;
  io::TokenTable::Entry chats_;  // each conversation is a document
  std::optional<io::BestFitPacking> rows_;
};

}  // namespace

std::unique_ptr<io::SampleSource> open_chat(const io::SourceConfig& config,
                                            const text::Tokenizer& tokenizer,
                                            std::int32_t end_token) {
  return std::make_unique<ChatSource>(config, tokenizer, end_token);
}

}  // namespace trireme::data
