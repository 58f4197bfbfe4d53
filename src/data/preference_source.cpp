// Samples of pairs of answers, with marks of which tokens are learned of which answer.
// SPDX-License-Identifier: Apache-2.0
#include "data/preference_source.hpp"

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "data/chat_files.hpp"
#include "io/best_fit_packing.hpp"

namespace trireme::data {
namespace {

class PreferenceSource final : public io::SampleSource {
 public:
  PreferenceSource(const io::SourceConfig& config, const text::Tokenizer& tokenizer,
                   std::int32_t end_token)
      : sequence_(config.sequence), end_(end_token) {
    require(config.packing != io::Packing::concatenate, Status::bad_content,
            "data.packing = \"concatenate\" would cut pairs of answers: write \"none\" "
            "or \"best_fit\"");
    answers_ = io::made_once([&] { return read_files(config, tokenizer); });
    const std::vector<std::int64_t>& ends = answers_->ends;
    for (std::size_t i = 0; i < ends.size(); i += 2)
      pairs_.push_back({ends[i], ends[i + 1]});
    const std::string first = config.paths.empty() ? "data.paths" : config.paths.front();
    require(
        !pairs_.empty() || count(left_out) > 0, Status::bad_content,
        "{}: holds no pair of answers{}: each line of the files that data.paths names "
        "is to hold one, with \"chosen\" and \"rejected\"",
        first, config.paths.size() > 1 ? ", nor do the others" : "");
    require(!pairs_.empty(), Status::bad_content,
            "{}: no pair of answers fits into a sample ({} were read): look at "
            "model.sequence, which holds both answers of a pair, each behind the prompt",
            first, count(left_out));
    if (config.packing == io::Packing::best_fit) {
      std::vector<std::int64_t> of_pairs;
      for (const Pair& pair : pairs_) of_pairs.push_back(pair.end);
      rows_.emplace(of_pairs, sequence_ + 1, config.seed);
    }
  }

  std::int64_t samples() const override {
    return rows_ ? rows_->rows() : std::ssize(pairs_);
  }
  std::int64_t tokens() const override { return answers_->tokens; }
  std::int64_t answers() const override { return 2 * std::ssize(pairs_); }
  std::int64_t kept_bytes() const override {
    return std::ssize(pairs_) * static_cast<std::int64_t>(sizeof(Pair)) +
           (rows_ ? rows_->bytes() : 0);
  }
  std::optional<std::int32_t> end_token() const override { return end_; }

  void sample(std::int64_t index, std::span<std::int32_t> tokens) const override {
    require(std::ssize(tokens) == sequence_ + 1, "{} tokens for a sample of {}",
            tokens.size(), sequence_ + 1);
    auto to = tokens.begin();
    for (const std::size_t p : pairs_of(index))
      to = std::copy(answers_->ids.begin() + begin_of(p),
                     answers_->ids.begin() + pairs_[p].end, to);
    std::fill(to, tokens.end(), io::ignore_index);
  }

  io::SampleMarks marks(std::int64_t index) const override {
    const auto size = static_cast<std::size_t>(sequence_) + 1;
    io::SampleMarks marks;
    for (const std::size_t p : pairs_of(index)) {
      const Pair& pair = pairs_[p];
      const auto number = static_cast<std::int64_t>(2 * p);
      mark({begin_of(p), pair.middle}, number, marks);
      mark({pair.middle, pair.end}, number + 1, marks);
    }
    marks.starts.resize(size, std::ssize(marks.starts));  // what is left is padding
    marks.no_target.resize(size, 1);
    marks.answers.resize(size, -1);
    return marks;
  }

  bool has_masks() const override { return true; }

  std::vector<io::SamplePart> parts(std::int64_t index) const override {
    std::vector<io::SamplePart> all;
    for (const std::size_t p : pairs_of(index)) {
      const std::int64_t begin = begin_of(p);
      const io::FileTokens& own = file_of(answers_->files, begin);
      all.push_back({own.path, begin - own.begin, pairs_[p].end - begin});
    }
    return all;
  }

  std::string describe() const override {
    const std::size_t files = answers_->files.size();
    std::string text = format(
        "preference: {} {}, {} pairs of answers, {} tokens, {} % of them learned, {} "
        "samples of {}",
        files, files == 1 ? "file" : "files", pairs_.size(), tokens(),
        fixed(100 * static_cast<double>(count(learned)) / static_cast<double>(tokens()),
              1),
        samples(), sequence_);
    if (count(left_out) > 0)
      text += format("; {} left out, longer than a sample: the longest has {} tokens",
                     count(left_out), count(longest));
    return text;
  }

 private:
  // Where its second answer begins, and where it ends.
  struct Pair {
    std::int64_t middle = 0, end = 0;
  };

  // Pairs, and tokens: of the longest pair that was left out, and those that are targets.
  enum Counted : std::size_t { left_out, longest, learned, counted };
  std::int64_t count(Counted what) const { return answers_->counts[what]; }

  io::TextTokens read_files(const io::SourceConfig& config,
                            const text::Tokenizer& tokenizer) const {
    io::TextTokens answers{.counts = std::vector<std::int64_t>(counted)};
    read_chat_files(
        config, tokenizer, end_, "preference",
        [&](const std::string& path) {
          answers.files.push_back({path, std::ssize(answers.ids)});
        },
        [&](const ChatEncoder& encoder, const std::string& line,
            const std::string& place) -> std::function<void()> {
          const auto pair = parse_preference_line(line, place);
          return [this, &answers, place, preferred = encoder.encode(pair[0], place),
                  other = encoder.encode(pair[1], place)]() mutable {
            add(std::move(preferred), std::move(other), place, answers);
          };
        });
    answers.tokens = std::ssize(answers.ids);
    answers.counts[learned] = std::ranges::count(answers.learned, 1);
    return answers;
  }

  void add(EncodedChat preferred, EncodedChat other, const std::string& place,
           io::TextTokens& to) const {
    const std::int64_t size = std::ssize(preferred.ids) + std::ssize(other.ids);
    for (EncodedChat* answer : {&preferred, &other}) {
      if (!answer->learned.empty()) answer->learned[0] = 0;  // nothing is before it
      require(std::ranges::count(answer->learned, 1) > 0, Status::bad_content,
              "{}: \"{}\" has no token behind the prompt: leave the line out", place,
              answer == &preferred ? "chosen" : "rejected");
    }
    if (size > sequence_ + 1) {
      ++to.counts[left_out];
      to.counts[longest] = std::max(to.counts[longest], size);
      return;
    }
    for (const EncodedChat& answer : {preferred, other}) {
      to.ids.insert(to.ids.end(), answer.ids.begin(), answer.ids.end());
      to.learned.insert(to.learned.end(), answer.learned.begin(), answer.learned.end());
      to.ends.push_back(std::ssize(to.ids));
    }
  }

  std::int64_t begin_of(std::size_t pair) const {
    return pair > 0 ? pairs_[pair - 1].end : 0;
  }

  // What a sample is made of.
  std::vector<std::size_t> pairs_of(std::int64_t index) const {
    require(index >= 0 && index < samples(), "sample {} of {}", index, samples());
    if (!rows_) return {static_cast<std::size_t>(index)};
    std::vector<std::size_t> all;
    for (const io::DocumentPiece& piece : rows_->row(index)) {
      const auto found = std::ranges::upper_bound(pairs_, piece.begin, {}, &Pair::end);
      all.push_back(static_cast<std::size_t>(found - pairs_.begin()));
    }
    return all;
  }

  void mark(std::pair<std::int64_t, std::int64_t> answer, std::int64_t number,
            io::SampleMarks& marks) const {
    const std::int64_t start = std::ssize(marks.starts);
    for (std::int64_t i = answer.first; i < answer.second; ++i) {
      const bool is_target = answers_->learned[static_cast<std::size_t>(i)] != 0;
      marks.starts.push_back(start);
      marks.no_target.push_back(!is_target);
      marks.answers.push_back(is_target ? number : -1);
    }
  }

  std::int64_t sequence_;
  std::int32_t end_;
  io::TokenTable::Entry answers_;  // each is a document, two of them a pair
  std::vector<Pair> pairs_;
  std::optional<io::BestFitPacking> rows_;
};

}  // namespace

std::unique_ptr<io::SampleSource> open_preferences(const io::SourceConfig& config,
                                                   const text::Tokenizer& tokenizer,
                                                   std::int32_t end_token) {
  return std::make_unique<PreferenceSource>(config, tokenizer, end_token);
}

}  // namespace trireme::data
