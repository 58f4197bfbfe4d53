// Byte-pair encoding: symbols of a word, merged by a heap over a linked list.
// SPDX-License-Identifier: Apache-2.0
#include "text/bpe.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "text/byte_letters.hpp"
#include "text/utf8.hpp"
#include "text/workspace.hpp"

namespace trireme::text {
namespace {

constexpr std::string_view mark = "\u2581";
// Symbols up to which looking through all ranks costs less than a heap.
constexpr std::size_t longest_scan = 256;

std::string fallback_name(unsigned byte) {
  static constexpr char digits[] = "0123456789ABCDEF";
  return std::string("<0x") + digits[byte / 16] + digits[byte % 16] + ">";
}

// Whether a mark stands behind another character than a mark.
bool has_inner_mark(std::string_view token) {
  bool other = false;
  for (std::size_t at = 0; at < token.size();
       at += length_at(static_cast<unsigned char>(token[at]))) {
    const bool is_mark = token.substr(at).starts_with(mark);
    if (is_mark && other) return true;
    other = !is_mark;
  }
  return false;
}

}  // namespace

Bpe::Bpe(BpeConfig config, const ConfigNode& node)
    : config_(std::move(config)), merges_(config_.merges.size() + config_.ranked.size()) {
  bytes_ = config_.byte_level && config_.prefix.empty() && config_.suffix.empty();
  for (unsigned byte = 0; byte < 256; ++byte) {
    const std::string letter = utf8_of(letter_of(static_cast<unsigned char>(byte)));
    byte_ids_[byte] = config_.vocabulary.id_of(letter).value_or(-1);
    fallback_ids_[byte] = config_.vocabulary.id_of(fallback_name(byte)).value_or(-1);
  }
  if (config_.unknown) {
    const auto id = config_.vocabulary.id_of(*config_.unknown);
    if (!id) node.fail("has an unk_token that is not in its vocabulary");
    unknown_ = *id;
  }
  add_merges(node);
  const bool plain = config_.prefix.empty() && config_.suffix.empty();
  scans_ = plain && unknown_ < 0 && config_.vocabulary.distinct();
  const auto& ids = byte_ids_;
  if (!bytes_ || std::any_of(ids.begin(), ids.end(), [](auto id) { return id < 0; }))
    return;
  byte_merges_.reserve(256 * 256);
  for (const std::int32_t left : ids)
    for (const std::int32_t right : ids)
      byte_merges_.push_back(merges_.find(left, right));
}

void Bpe::add_merges(const ConfigNode& node) {
  const bool plain = config_.prefix.empty() && config_.suffix.empty();
  // Marks become neighbours where what stood between them is dropped.
  const bool none_dropped =
      unknown_ >= 0 ||
      (config_.byte_fallback && std::none_of(fallback_ids_.begin(), fallback_ids_.end(),
                                             [](std::int32_t id) { return id < 0; }));
  cuts_ = plain && none_dropped && !bytes_ && config_.vocabulary.id_of(mark).has_value();
  std::int32_t rank = 0;
  for (const auto& [left, right] : config_.merges) {
    const std::size_t cut = right.starts_with(config_.prefix) ? config_.prefix.size() : 0;
    const std::string both = left + right.substr(cut);
    const auto a = config_.vocabulary.id_of(left), b = config_.vocabulary.id_of(right);
    const auto merged = config_.vocabulary.id_of(both);
    if (!a || !b || !merged)
      node.fail(trireme::format(
          "merges \"{}\" and \"{}\" to \"{}\", of which one is not in the "
          "vocabulary",
          left, right, both));
    merges_.add(*a, *b, {rank++, *merged});
    cuts_ = cuts_ && !has_inner_mark(both);
  }
  for (const RankedMerge& known : config_.ranked) {
    merges_.add(known.left, known.right, known.merge);
    cuts_ = cuts_ && !has_inner_mark(*config_.vocabulary.token_of(known.merge.new_id));
  }
  config_.merges = {};
  config_.ranked = {};
}

std::vector<RankedMerge> merges_of_cuts(
    const TokenTable& vocabulary,
    const std::vector<std::pair<std::int32_t, std::int32_t>>& ranks,
    const std::string& source) {
  constexpr std::size_t most_bytes = 1024;  // the work is their square
  std::vector<RankedMerge> merges;
  for (const auto& [id, rank] : ranks) {
    const std::string_view token = *vocabulary.token_of(id);
    require(token.size() <= most_bytes, Status::bad_content,
            "{}: token {} has {} bytes; {} are the most", source, id, token.size(),
            most_bytes);
    for (std::size_t cut = 1; cut < token.size(); ++cut) {
      const auto left = vocabulary.id_of(token.substr(0, cut));
      if (!left) continue;
      const auto right = vocabulary.id_of(token.substr(cut));
      if (right) merges.push_back({*left, *right, {rank, id}});
    }
  }
  return merges;
}

void Bpe::take_over(Workspace& workspace) const {
  if (workspace.owner == this) return;
  if (workspace.owner != nullptr) workspace.cache = PieceCache();
  workspace.owner = this;
}

void Bpe::encode_all(const Pieces& pieces, std::vector<std::int32_t>& ids,
                     Workspace& workspace) const {
  if (config_.whole.size() > 0 || cuts_) return Model::encode_all(pieces, ids, workspace);
  take_over(workspace);
  ids.reserve(ids.size() + pieces.ranges.size() + pieces.ranges.size() / 4);
  std::vector<Token> tokens;
  for (const Range& range : pieces.ranges) {
    const std::string_view piece = pieces.text(range);
    if (piece.empty()) continue;
    const bool is_kept = piece.size() <= PieceCache::longest_piece;
    if (is_kept && workspace.cache.append(piece, ids)) continue;
    tokens.clear();
    encode_word(piece, tokens, workspace);
    if (is_kept) workspace.cache.add(piece, tokens);
    for (const Token& token : tokens) ids.push_back(token.id);
  }
}

void Bpe::encode(std::string_view piece, std::vector<Token>& out,
                 Workspace& workspace) const {
  take_over(workspace);
  if (config_.whole.size() > 0)
    if (const auto id = config_.whole.id_of(piece)) {
      out.push_back({*id, static_cast<std::uint32_t>(piece.size())});
      return;
    }
  if (!cuts_) return encode_part(piece, out, workspace);
  if (config_.ignore_merges)
    if (const auto id = config_.vocabulary.id_of(piece)) {
      out.push_back({*id, static_cast<std::uint32_t>(piece.size())});
      return;
    }
  // Words can be cut apart here, and then most of them have been met before.
  while (!piece.empty()) {
    std::size_t end = 0;
    while (piece.substr(end).starts_with(mark)) end += mark.size();
    end = std::min(piece.find(mark, end), piece.size());
    encode_part(piece.substr(0, end), out, workspace);
    piece.remove_prefix(end);
  }
}

void Bpe::encode_part(std::string_view part, std::vector<Token>& out,
                      Workspace& workspace) const {
  if (part.empty()) return;
  if (part.size() > PieceCache::longest_piece) return encode_word(part, out, workspace);
  std::span<const Token> known;
  if (!workspace.cache.find(part, known)) {
    workspace.tokens.clear();
    encode_word(part, workspace.tokens, workspace);
    workspace.cache.add(part, workspace.tokens);
    known = workspace.tokens;
  }
  out.insert(out.end(), known.begin(), known.end());
}

void Bpe::encode_word(std::string_view word, std::vector<Token>& out,
                      Workspace& workspace) const {
  if (config_.ignore_merges && !cuts_) {
    const auto id =
        config_.vocabulary.id_of(bytes_ ? letters_of(word) : std::string(word));
    if (id) {
      out.push_back({*id, static_cast<std::uint32_t>(word.size())});
      return;
    }
  }
  workspace.symbols.clear();
  if (bytes_)
    add_bytes(word, workspace.symbols);
  else
    add_characters(word, workspace.symbols);
  const bool bytes = !byte_merges_.empty();
  if (scans_ && workspace.symbols.size() <= longest_scan)
    merge_by_scan(bytes ? word : std::string_view(), workspace);
  else
    merge_by_heap(workspace);
  for (const Symbol& symbol : workspace.symbols)
    if (symbol.previous != -2) out.push_back({symbol.id, symbol.bytes});
}

bool Bpe::add_fallback(std::string_view character, std::vector<Symbol>& symbols) const {
  if (!config_.byte_fallback) return false;
  const auto id = [&](char c) { return fallback_ids_[static_cast<unsigned char>(c)]; };
  if (std::any_of(character.begin(), character.end(), [&](char c) { return id(c) < 0; }))
    return false;
  for (const char c : character) symbols.push_back({id(c), 1, 0, 0});
  return true;
}

namespace {

// Characters that the vocabulary lacks. They are written when a known one follows or the
// word ends: behind bytes of a fallback, so, that came later. The reference does so.
class Unknowns {
 public:
  Unknowns(std::int32_t id, bool fuse) : id_(id), fuse_(fuse) {}
  void add(std::uint32_t bytes, std::vector<Symbol>& symbols) {
    if (id_ < 0) return;  // without a token for it, it is dropped
    if (pending_ > 0 && !fuse_) flush(symbols);
    pending_ += bytes;
  }
  void flush(std::vector<Symbol>& symbols) {
    if (pending_ > 0) symbols.push_back({id_, pending_, 0, 0});
    pending_ = 0;
  }

 private:
  std::int32_t id_;
  bool fuse_;
  std::uint32_t pending_ = 0;
};

}  // namespace

void Bpe::add_bytes(std::string_view word, std::vector<Symbol>& symbols) const {
  Unknowns unknowns(unknown_, config_.fuse_unknown);
  for (const char c : word) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte_ids_[byte] >= 0) {
      unknowns.flush(symbols);
      symbols.push_back({byte_ids_[byte], 1, 0, 0});
    } else if (!add_fallback(utf8_of(letter_of(byte)), symbols)) {
      unknowns.add(1, symbols);
    }
  }
  unknowns.flush(symbols);
}

void Bpe::add_characters(std::string_view word, std::vector<Symbol>& symbols) const {
  Unknowns unknowns(unknown_, config_.fuse_unknown);
  std::string name;
  for (std::size_t at = 0; at < word.size();) {
    const std::size_t bytes = length_at(static_cast<unsigned char>(word[at]));
    name.clear();
    if (at > 0) name += config_.prefix;
    name += word.substr(at, bytes);
    if (at + bytes == word.size()) name += config_.suffix;
    at += bytes;
    if (const auto id = config_.vocabulary.id_of(name)) {
      unknowns.flush(symbols);
      symbols.push_back({*id, static_cast<std::uint32_t>(bytes), 0, 0});
    } else if (!add_fallback(name, symbols)) {
      unknowns.add(static_cast<std::uint32_t>(bytes), symbols);
    }
  }
  unknowns.flush(symbols);
}

namespace {

std::pair<std::string, std::string> merge_of(const ConfigNode& node) {
  if (node.value().is_array()) {
    const auto parts = node.elements();
    if (parts.size() != 2) node.fail("must be a pair of tokens");
    return {parts[0].text(), parts[1].text()};
  }
  const std::string text = node.text();
  const auto blank = text.find(' ');
  if (blank == text.npos || text.find(' ', blank + 1) != text.npos)
    node.fail("must be two tokens with a blank between them");
  return {text.substr(0, blank), text.substr(blank + 1)};
}

}  // namespace

std::unique_ptr<Model> make_bpe(const ConfigNode& node, bool byte_level) {
  node.only({"dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix",
             "fuse_unk", "byte_fallback", "ignore_merges", "vocab", "merges"});
  BpeConfig config;
  config.vocabulary = TokenTable(node.at("vocab"));
  const Json& merges = node.at("merges").value();
  if (!merges.is_array()) node.at("merges").fail("must be a list");
  config.merges.reserve(merges.size());
  for (const ConfigNode& merge : node.at("merges").elements())
    config.merges.push_back(merge_of(merge));
  config.unknown = node.optional_text("unk_token");
  config.prefix = node.text("continuing_subword_prefix", "");
  config.suffix = node.text("end_of_word_suffix", "");
  config.fuse_unknown = node.boolean("fuse_unk", false);
  config.byte_fallback = node.boolean("byte_fallback", false);
  config.ignore_merges = node.boolean("ignore_merges", false);
  config.byte_level = byte_level;
  return std::make_unique<Bpe>(std::move(config), node);
}

}  // namespace trireme::text
