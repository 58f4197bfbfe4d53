// The unigram model (Kudo 2018): the segmentation of the highest probability.
// SPDX-License-Identifier: Apache-2.0
#include "text/unigram.hpp"

#include <algorithm>
#include <limits>
#include <map>

#include "base/error.hpp"
#include "text/token_table.hpp"
#include "text/utf8.hpp"

namespace trireme::text {
namespace {

// All pieces by their bytes. A node's children stand next to each other, by byte.
class Trie {
 public:
  explicit Trie(const std::vector<std::pair<std::string, std::int32_t>>& sorted) {
    nodes_.push_back({});
    build(sorted, 0, sorted.size(), 0, 0);
  }
  // Calls take(bytes, id) for every piece that `text` begins with, short ones first.
  template <class Take>
  void for_each_prefix(std::string_view text, const Take& take) const {
    std::uint32_t node = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
      const auto byte = static_cast<unsigned char>(text[i]);
      const Node& from = nodes_[node];
      const auto begin = labels_.begin() + from.first, end = begin + from.count;
      const auto found = std::lower_bound(begin, end, byte);
      if (found == end || *found != byte) return;
      node = from.child + static_cast<std::uint32_t>(found - begin);
      if (nodes_[node].id >= 0) take(i + 1, nodes_[node].id);
    }
  }

 private:
  struct Node {
    std::uint32_t first = 0, child = 0;  // of its labels; the node of the first
    std::uint32_t count = 0;
    std::int32_t id = -1;
  };
  // The node of the pieces [begin, end), which agree in their first `depth` bytes.
  void build(const std::vector<std::pair<std::string, std::int32_t>>& sorted,
             std::size_t begin, std::size_t end, std::size_t depth, std::uint32_t node) {
    for (; begin < end && sorted[begin].first.size() == depth; ++begin)
      nodes_[node].id = sorted[begin].second;
    std::vector<std::size_t> starts;
    for (std::size_t i = begin; i < end; ++i)
      if (i == begin || sorted[i].first[depth] != sorted[i - 1].first[depth])
        starts.push_back(i);
    const auto child = static_cast<std::uint32_t>(nodes_.size());
    nodes_[node].first = static_cast<std::uint32_t>(labels_.size());
    nodes_[node].child = child;
    nodes_[node].count = static_cast<std::uint32_t>(starts.size());
    for (const std::size_t start : starts) {
      labels_.push_back(static_cast<unsigned char>(sorted[start].first[depth]));
      nodes_.push_back({});
    }
    for (std::size_t i = 0; i < starts.size(); ++i)
      build(sorted, starts[i], i + 1 < starts.size() ? starts[i + 1] : end, depth + 1,
            child + static_cast<std::uint32_t>(i));
  }

  std::vector<Node> nodes_;
  std::vector<unsigned char> labels_;
};

struct UnigramConfig {
  std::vector<std::pair<std::string, double>> pieces;
  std::int32_t unknown = -1;
  bool byte_fallback = false;
};

class Unigram final : public Model {
 public:
  explicit Unigram(UnigramConfig config)
      : config_(std::move(config)), trie_(sorted_pieces()) {
    lowest_ = std::numeric_limits<double>::infinity();
    for (const auto& [piece, score] : config_.pieces) lowest_ = std::min(lowest_, score);
  }

  void encode(std::string_view piece, std::vector<Token>& out,
              Workspace&) const override {
    std::vector<Step> steps(piece.size() + 1);
    find_best(piece, steps);
    // Backwards along the best path, where neighbouring unknowns are one.
    std::vector<Range> parts;
    bool in_unknown = false;
    for (auto end = static_cast<std::uint32_t>(piece.size()); end > 0;) {
      const Step& step = steps[end];
      const auto begin = static_cast<std::uint32_t>(step.begin);
      const bool unknown = step.id == config_.unknown;
      if (unknown && in_unknown)
        parts.back().begin = begin;
      else
        parts.push_back({begin, end});
      in_unknown = unknown;
      end = begin;
    }
    for (auto part = parts.rbegin(); part != parts.rend(); ++part)
      add(piece.substr(part->begin, part->size()), out);
  }
  std::optional<std::int32_t> id_of(std::string_view token) const override {
    return table_.id_of(token);
  }
  const std::string* token_of(std::int32_t id) const override {
    const auto index = static_cast<std::size_t>(id);
    return id >= 0 && index < config_.pieces.size() ? &config_.pieces[index].first
                                                    : nullptr;
  }
  std::int64_t size() const override { return std::ssize(config_.pieces); }

 private:
  struct Step {
    double score = 0;
    std::int64_t begin = -1;  // of the last piece of the best path to here; -1: none yet
    std::int32_t id = 0;
  };

  std::vector<std::pair<std::string, std::int32_t>> sorted_pieces() {
    for (std::size_t i = 0; i < config_.pieces.size(); ++i)
      table_.add(config_.pieces[i].first, static_cast<std::int32_t>(i));
    std::vector<std::pair<std::string, std::int32_t>> sorted;
    for (const auto& [piece, score] : config_.pieces)
      if (!piece.empty()) sorted.emplace_back(piece, *table_.id_of(piece));
    std::sort(sorted.begin(), sorted.end());
    return sorted;
  }

  // (Viterbi 1967.) Starts ascend and only a higher score replaces: the first wins a tie.
  void find_best(std::string_view piece, std::vector<Step>& steps) const {
    constexpr double unknown_penalty = 10;
    for (std::size_t at = 0; at < piece.size();) {
      const std::size_t bytes = length_at(static_cast<unsigned char>(piece[at]));
      const double so_far = steps[at].score;
      bool has_character = false;
      const auto offer = [&](std::size_t length, std::int32_t id, double score) {
        Step& step = steps[at + length];
        if (step.begin >= 0 && !(so_far + score > step.score)) return;
        step = {so_far + score, static_cast<std::int64_t>(at), id};
      };
      trie_.for_each_prefix(piece.substr(at), [&](std::size_t length, std::int32_t id) {
        offer(length, id, config_.pieces[static_cast<std::size_t>(id)].second);
        has_character = has_character || length == bytes;
      });
      if (!has_character) {
        require(config_.unknown >= 0, Status::bad_content,
                "the tokenizer has no piece for U+{} and no unk_id",
                static_cast<std::uint32_t>(code_point_at(piece, at).value));
        offer(bytes, config_.unknown, lowest_ - unknown_penalty);
      }
      at += bytes;
    }
  }

  void add(std::string_view part, std::vector<Token>& out) const {
    const auto bytes = static_cast<std::uint32_t>(part.size());
    if (const auto id = table_.id_of(part)) {
      out.push_back({*id, bytes});
      return;
    }
    if (config_.byte_fallback) {
      std::vector<Token> tokens;
      for (const char c : part) {
        static constexpr char digits[] = "0123456789ABCDEF";
        const auto byte = static_cast<unsigned char>(c);
        const auto id = table_.id_of(std::string("<0x") + digits[byte / 16] +
                                     digits[byte % 16] + ">");
        if (!id) break;
        tokens.push_back({*id, 1});
      }
      if (tokens.size() == part.size()) {
        out.insert(out.end(), tokens.begin(), tokens.end());
        return;
      }
    }
    out.push_back({config_.unknown, bytes});
  }

  UnigramConfig config_;
  TokenTable table_;
  Trie trie_;
  double lowest_ = 0;
};

}  // namespace

std::unique_ptr<Model> make_unigram(const ConfigNode& node) {
  node.only({"unk_id", "vocab", "byte_fallback"});
  UnigramConfig config;
  for (const ConfigNode& entry : node.at("vocab").elements()) {
    const auto pair = entry.elements();
    if (pair.size() != 2) entry.fail("must be a piece and its score");
    config.pieces.emplace_back(pair[0].text(), pair[1].number());
  }
  if (config.pieces.empty()) node.fail("has an empty vocabulary");
  if (node.has("unk_id")) {
    const std::int64_t id = node.at("unk_id").integer();
    if (id < 0 || id >= std::ssize(config.pieces))
      node.at("unk_id").fail("is no place in the vocabulary");
    config.unknown = static_cast<std::int32_t>(id);
  }
  config.byte_fallback = node.boolean("byte_fallback", false);
  return std::make_unique<Unigram>(std::move(config));
}

}  // namespace trireme::text
