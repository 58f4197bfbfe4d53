// Samples of conversations, with marks of where each begins and what is learned.
// SPDX-License-Identifier: Apache-2.0
#include "data/chat_source.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "data/chat_files.hpp"
#include "io/document_rows.hpp"

namespace trireme::data {
namespace {

class ChatSource final : public io::SampleSource {
 public:
  ChatSource(const io::SourceConfig& config, const text::Tokenizer& tokenizer,
             std::int32_t end_token)
      : sequence_(config.sequence), packing_(config.packing), end_(end_token) {
    read_files(config, tokenizer);
    require(!ends_.empty(), Status::bad_content,
            "{}: no conversation has a token to learn{}: look at data.loss_on and at "
            "model.sequence",
            config.paths.empty() ? "data.paths" : config.paths.front(),
            left_out_ > 0 ? format(" ({} were read)", left_out_) : "");
    if (packing_ == io::Packing::best_fit)
      rows_.emplace(ends_, sequence_ + 1, config.seed);
  }

  std::int64_t samples() const override {
    if (packing_ == io::Packing::none) return std::ssize(ends_);
    return rows_ ? rows_->rows() : (tokens() - 1 + sequence_ - 1) / sequence_;
  }
  std::int64_t tokens() const override { return std::ssize(ids_); }
  std::optional<std::int32_t> end_token() const override { return end_; }

  void sample(std::int64_t index, std::span<std::int32_t> tokens) const override {
    require(std::ssize(tokens) == sequence_ + 1, "{} tokens for a sample of {}",
            tokens.size(), sequence_ + 1);
    auto to = tokens.begin();
    for (const io::DocumentPiece& piece : pieces(index))
      to = std::copy_n(ids_.begin() + piece.begin, piece.tokens, to);
    std::fill(to, tokens.end(), io::ignore_index);
  }

  io::SampleMarks marks(std::int64_t index) const override {
    const auto size = static_cast<std::size_t>(sequence_) + 1;
    io::SampleMarks marks;
    for (const io::DocumentPiece& piece : pieces(index)) {
      const std::int64_t start = std::ssize(marks.starts);
      for (std::int64_t i = 0; i < piece.tokens; ++i) {
        marks.starts.push_back(start);
        marks.no_target.push_back(learned_[static_cast<std::size_t>(piece.begin + i)] ==
                                  0);
      }
    }
    marks.starts.resize(size, std::ssize(marks.starts));  // what is left is padding
    marks.no_target.resize(size, 1);
    return marks;
  }

  std::vector<io::SamplePart> parts(std::int64_t index) const override {
    std::vector<io::SamplePart> all;
    for (const io::DocumentPiece& piece : pieces(index)) {
      const FileTokens& own = file_of(files_, piece.begin);
      all.push_back({own.path, piece.begin - own.begin, piece.tokens});
    }
    return all;
  }

  std::string describe() const override {
    const auto targets = std::count(learned_.begin(), learned_.end(), 1);
    std::string text = format(
        "chat: {} {}, {} conversations, {} tokens, {} % of them learned, {} samples of "
        "{}",
        files_.size(), files_.size() == 1 ? "file" : "files", ends_.size(), tokens(),
        fixed(100 * static_cast<double>(targets) / static_cast<double>(tokens()), 1),
        samples(), sequence_);
    if (cut_ > 0) text += format("; {} longer ones cut", cut_);
    if (left_out_ > 0) text += format("; {} without a target left out", left_out_);
    return text;
  }

 private:
  void read_files(const io::SourceConfig& config, const text::Tokenizer& tokenizer) {
    read_chat_files(
        config, tokenizer, end_, "chat",
        [&](const std::string& path) {
          files_.push_back({path, tokens()});
        },
        [&](const ChatEncoder& encoder, const std::string& line,
            const std::string& place) {
          add(encoder.encode(parse_chat_line(line, place), place));
        });
  }

  void add(EncodedChat chat) {
    const bool whole = packing_ != io::Packing::none;
    const std::int64_t size = std::ssize(chat.ids), most = sequence_ + 1;
    const std::int64_t kept = whole ? size : std::min(size, most);
    if (size > 0) chat.learned[0] = 0;  // nothing is before it
    const auto learned_end = chat.learned.begin() + kept;
    if (std::find(chat.learned.begin(), learned_end, 1) == learned_end) {
      ++left_out_;
      return;
    }
    cut_ += size > most;
    ids_.insert(ids_.end(), chat.ids.begin(), chat.ids.begin() + kept);
    learned_.insert(learned_.end(), chat.learned.begin(), learned_end);
    ends_.push_back(tokens());
  }

  // What a sample is made of.
  std::vector<io::DocumentPiece> pieces(std::int64_t index) const {
    require(index >= 0 && index < samples(), "sample {} of {}", index, samples());
    if (rows_) {
      const auto row = rows_->row(index);
      return {row.begin(), row.end()};
    }
    const auto number = static_cast<std::size_t>(index);
    if (packing_ == io::Packing::none) {
      const std::int64_t begin = number > 0 ? ends_[number - 1] : 0;
      return {{begin, ends_[number] - begin}};
    }
    std::vector<io::DocumentPiece> all;
    std::int64_t at = index * sequence_;
    const std::int64_t end = std::min(at + sequence_ + 1, tokens());
    for (auto own = std::upper_bound(ends_.begin(), ends_.end(), at); at < end; ++own) {
      const std::int64_t size = std::min(*own, end) - at;
      all.push_back({at, size});
      at += size;
    }
    return all;
  }

  std::int64_t sequence_;
  io::Packing packing_;
  std::int32_t end_;
  std::vector<FileTokens> files_;
  std::vector<std::int32_t> ids_;      // of all conversations
  std::vector<std::uint8_t> learned_;  // of each id
  std::vector<std::int64_t> ends_;     // of conversations
  std::optional<io::DocumentRows> rows_;
  std::int64_t cut_ = 0, left_out_ = 0;
};

}  // namespace

std::unique_ptr<io::SampleSource> open_chat(const io::SourceConfig& config,
                                            const text::Tokenizer& tokenizer,
                                            std::int32_t end_token) {
  return std::make_unique<ChatSource>(config, tokenizer, end_token);
}

}  // namespace trireme::data
