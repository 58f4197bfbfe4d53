// Learning merges: a queue of pairs by their counts, which are kept up to date.
// SPDX-License-Identifier: Apache-2.0
// Some steps look odd because the reference's results need them: a count that a merge has
// used up is not taken back, so that a pair can come up once more where another merge
// makes a token that was there already; it then moves to a later rank.
#include "text/bpe_trainer.hpp"

#include <algorithm>
#include <queue>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "text/byte_letters.hpp"
#include "text/json_lines.hpp"
#include "text/utf8.hpp"
#include "text/word_counts.hpp"

namespace trireme::text {
namespace {

using Pair = std::pair<std::int32_t, std::int32_t>;

struct PairHash {
  std::size_t operator()(const Pair& pair) const {
    const auto both = static_cast<std::uint64_t>(pair.first) << 32 |
                      static_cast<std::uint32_t>(pair.second);
    return static_cast<std::size_t>((both * 0x9E3779B97F4A7C15u) >> 16);
  }
};

struct Word {
  std::vector<std::int32_t> tokens;
  std::int64_t count = 0;
};

// A pair that may be merged, and the words that may hold it.
struct Candidate {
  Pair pair;
  std::int64_t count = 0;
  std::vector<std::uint32_t> words;

  bool operator<(const Candidate& other) const {  // the queue's top is the largest
    return count != other.count ? count < other.count : pair > other.pair;
  }
};

class Learner {
 public:
  Learner(const BpeTraining& training, std::vector<Word> words,
          std::vector<std::string> tokens)
      : training_(training), words_(std::move(words)), tokens_(std::move(tokens)) {
    for (std::size_t i = 0; i < tokens_.size(); ++i)
      ids_[tokens_[i]] = static_cast<std::int32_t>(i);
  }

  void run() {
    for (std::uint32_t i = 0; i < words_.size(); ++i) {
      const auto& tokens = words_[i].tokens;
      for (std::size_t j = 0; j + 1 < tokens.size(); ++j)
        change({tokens[j], tokens[j + 1]}, 1, i);
    }
    queue_new();
    while (std::ssize(tokens_) < training_.size && !queue_.empty()) {
      Candidate top = queue_.top();
      queue_.pop();
      const std::int64_t count = counts_[top.pair];
      if (top.count != count) {  // out of date
        top.count = count;
        queue_.push(std::move(top));
        continue;
      }
      if (count < 1 || count < training_.min_frequency) return;
      merge(top);
    }
  }

  const std::vector<std::string>& tokens() const { return tokens_; }
  // In the order of their ranks: a pair that was merged twice has the later one.
  std::vector<Pair> merges() const {
    std::unordered_map<Pair, std::size_t, PairHash> last;
    for (std::size_t i = 0; i < merges_.size(); ++i) last[merges_[i]] = i;
    std::vector<Pair> ordered;
    for (std::size_t i = 0; i < merges_.size(); ++i)
      if (last[merges_[i]] == i) ordered.push_back(merges_[i]);
    return ordered;
  }

 private:
  // A word has a pair once more, or once less.
  void change(Pair pair, std::int64_t sign, std::uint32_t word) {
    counts_[pair] += sign * words_[word].count;
    if (sign < 0) return;
    auto& places = new_places_[pair];
    if (places.empty() || places.back() != word) places.push_back(word);
  }
  void queue_new() {
    for (auto& [pair, places] : new_places_) {
      const std::int64_t count = counts_[pair];
      if (count > 0) queue_.push({pair, count, std::move(places)});
    }
    new_places_.clear();
  }

  void merge(const Candidate& top) {
    const auto token = [&](std::int32_t id) -> const std::string& {
      return tokens_[static_cast<std::size_t>(id)];
    };
    const std::string both = token(top.pair.first) + token(top.pair.second);
    const auto [place, is_new] =
        ids_.emplace(both, static_cast<std::int32_t>(tokens_.size()));
    if (is_new) tokens_.push_back(both);
    merges_.push_back(top.pair);
    for (const std::uint32_t word : top.words) merge_in(word, top.pair, place->second);
    queue_new();
  }

  // From the left; neighbours see what was merged before them.
  void merge_in(std::uint32_t word, Pair pair, std::int32_t made) {
    auto& tokens = words_[word].tokens;
    std::size_t out = 0;
    for (std::size_t in = 0; in < tokens.size(); ++in, ++out) {
      if (tokens[in] != pair.first || in + 1 == tokens.size() ||
          tokens[in + 1] != pair.second) {
        tokens[out] = tokens[in];
        continue;
      }
      if (out > 0) {
        change({tokens[out - 1], pair.first}, -1, word);
        change({tokens[out - 1], made}, 1, word);
      }
      if (in + 2 < tokens.size()) {
        change({pair.second, tokens[in + 2]}, -1, word);
        change({made, tokens[in + 2]}, 1, word);
      }
      tokens[out] = made;
      ++in;
    }
    tokens.resize(out);
  }

  const BpeTraining& training_;
  std::vector<Word> words_;
  std::vector<std::string> tokens_;
  std::unordered_map<std::string, std::int32_t> ids_;
  std::unordered_map<Pair, std::int64_t, PairHash> counts_;
  std::unordered_map<Pair, std::vector<std::uint32_t>, PairHash> new_places_;
  std::priority_queue<Candidate> queue_;
  std::vector<Pair> merges_;
};

// The library's own order of keys and its indentation.
std::string file_of(const BpeTraining& training, const Learner& learner) {
  constexpr std::string_view byte_level =
      "{\n    \"type\": \"ByteLevel\",\n    \"add_prefix_space\": {},\n"
      "    \"trim_offsets\": true,\n    \"use_regex\": true\n  }";
  std::string out =
      "{\n  \"version\": \"1.0\",\n  \"truncation\": null,\n"
      "  \"padding\": null,\n  \"added_tokens\": [\n    {\n"
      "      \"id\": 0,\n      \"content\": " +
      json_of_text(training.end_token) +
      ",\n      \"single_word\": false,\n      \"lstrip\": false,\n"
      "      \"rstrip\": false,\n      \"normalized\": false,\n"
      "      \"special\": true\n    }\n  ],\n  \"normalizer\": null,\n"
      "  \"pre_tokenizer\": " +
      format(byte_level, "false") +
      ",\n  \"post_processor\": null,\n  \"decoder\": " + format(byte_level, "true") +
      ",\n  \"model\": {\n    \"type\": \"BPE\",\n    \"dropout\": null,\n"
      "    \"unk_token\": null,\n    \"continuing_subword_prefix\": null,\n"
      "    \"end_of_word_suffix\": null,\n    \"fuse_unk\": false,\n"
      "    \"byte_fallback\": false,\n    \"ignore_merges\": false,\n"
      "    \"vocab\": {";
  const auto& tokens = learner.tokens();
  for (std::size_t i = 0; i < tokens.size(); ++i)
    out += (i > 0 ? ",\n      " : "\n      ") + json_of_text(tokens[i]) + ": " +
           std::to_string(i);
  out += "\n    },\n    \"merges\": [";
  const auto merges = learner.merges();
  const auto text = [&](std::int32_t id) {
    return json_of_text(tokens[static_cast<std::size_t>(id)]);
  };
  for (std::size_t i = 0; i < merges.size(); ++i)
    out += (i > 0 ? ",\n      [\n        " : "\n      [\n        ") +
           text(merges[i].first) + ",\n        " + text(merges[i].second) + "\n      ]";
  return out + (merges.empty() ? "]\n  }\n}" : "\n    ]\n  }\n}");
}

}  // namespace

BpeTrainer::BpeTrainer(int threads)
    : counts_(std::make_unique<WordCounts>()),
      threads_(static_cast<std::size_t>(std::max(threads, 1))) {}

BpeTrainer::~BpeTrainer() = default;

void BpeTrainer::add(Document document) {
  constexpr std::size_t batch_bytes = std::size_t{8} << 20;
  bytes_ += document.bytes.size();
  documents_.push_back(std::move(document));
  if (bytes_ >= batch_bytes * threads_) count();
}

std::int64_t BpeTrainer::words() const { return counts_->words(); }

void BpeTrainer::count() {
  text_bytes_ += counts_->add(std::move(documents_), threads_);
  documents_.clear();
  bytes_ = 0;
}

std::string BpeTrainer::train(const BpeTraining& training) {
  count();
  std::vector<std::string> tokens = {training.end_token};
  std::vector<std::pair<char32_t, unsigned>> alphabet;
  for (unsigned byte = 0; byte < 256; ++byte)
    alphabet.emplace_back(letter_of(static_cast<unsigned char>(byte)), byte);
  std::sort(alphabet.begin(), alphabet.end());
  std::vector<std::int32_t> ids(256);
  for (const auto& [letter, byte] : alphabet) {
    const std::string text = utf8_of(letter);
    ids[byte] = text == training.end_token ? 0 : static_cast<std::int32_t>(tokens.size());
    if (text != training.end_token) tokens.push_back(text);
  }
  std::vector<Word> words;
  words.reserve(static_cast<std::size_t>(counts_->words()));
  counts_->for_each([&](std::string_view text, std::int64_t count) {
    Word& word = words.emplace_back();
    word.count = count;
    for (const char c : text) word.tokens.push_back(ids[static_cast<unsigned char>(c)]);
  });
  Learner learner(training, std::move(words), std::move(tokens));
  learner.run();
  return file_of(training, learner);
}

}  // namespace trireme::text
