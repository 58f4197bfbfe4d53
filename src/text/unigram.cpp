// The unigram model (Kudo 2018): the segmentation of the highest probability.
// SPDX-License-Identifier: Apache-2.0
#include "text/unigram.hpp"

#include <algorithm>
#include <limits>
#include <map>

#include "base/error.hpp"
#include "text/piece_trie.hpp"
#include "text/token_table.hpp"
#include "text/utf8.hpp"

namespace trireme::text {
namespace {

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
        require(
            config_.unknown >= 0, Status::bad_content,
            "the tokenizer has no piece for {} and no unk_id: give its model an unk_id, "
            "or take the character out of the text",
            code_point_name(code_point_at(piece, at).value));
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
  PieceTrie trie_;
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
