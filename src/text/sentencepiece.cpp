// SentencePiece's own way from text to tokens and back, as its library goes it.
// SPDX-License-Identifier: Apache-2.0
// (Kudo and Richardson 2018.) It differs from what tokenizer.json's readers do with the
// same pieces: the table of characters takes the longest match, sums are of 32 bits, and
// special pieces are never found in text.
#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "base/error.hpp"
#include "io/digest.hpp"
#include "text/bpe.hpp"
#include "text/character_map.hpp"
#include "text/piece_trie.hpp"
#include "text/sentencepiece_file.hpp"
#include "text/tokenizer_state.hpp"
#include "text/utf8.hpp"

namespace trireme::text {
namespace {

constexpr std::string_view mark = "\u2581";

using SortedPieces = std::vector<std::pair<std::string, std::int32_t>>;

// Pieces of some kinds with their ids, sorted.
SortedPieces pieces_of(const SentencePieceFile& file, std::set<PieceKind> kinds) {
  SortedPieces found;
  for (std::size_t i = 0; i < file.pieces.size(); ++i)
    if (kinds.contains(file.pieces[i].kind))
      found.emplace_back(file.pieces[i].text, static_cast<std::int32_t>(i));
  std::sort(found.begin(), found.end());
  return found;
}

// The longest piece that `text` begins with; 0 bytes where there is none.
std::size_t longest_prefix(const PieceTrie& trie, std::string_view text) {
  std::size_t longest = 0;
  trie.for_each_prefix(text, [&](std::size_t bytes, std::int32_t) { longest = bytes; });
  return longest;
}

std::size_t character_bytes(std::string_view text, std::size_t at) {
  return length_at(static_cast<unsigned char>(text[at]));
}

class SpNormalizer final : public Normalizer {
 public:
  SpNormalizer(const SentencePieceFile& file, const std::string& source)
      : user_defined_(pieces_of(file, {PieceKind::user_defined})),
        space_behind_(file.space_behind),
        add_space_(file.add_space),
        remove_spaces_(file.remove_spaces),
        space_(file.escape_spaces ? mark : std::string_view(" ")) {
    std::string why;
    if (!file.characters.empty()) characters_ = CharacterMap::parse(file.characters, why);
    require(why.empty(), Status::bad_content, "{}: precompiled_charsmap {}", source, why);
  }

  void apply(AlignedText& text) const override {
    const std::string_view all = text.text;
    std::size_t at = 0;
    while (remove_spaces_ && at < all.size()) {
      const auto [image, bytes] = next(all.substr(at));
      if (image != " ") break;
      at += bytes;
    }
    Rewriter out(text);
    const bool empty = at == all.size();
    if (!empty && add_space_ && !space_behind_) out.put(space_, at, at);
    for (bool after_space = remove_spaces_; at < all.size();) {
      auto [image, bytes] = next(all.substr(at));
      while (after_space && image.starts_with(' ')) image.remove_prefix(1);
      for (std::size_t begin = 0; begin < image.size();) {
        const std::size_t end = std::min(image.find(' ', begin), image.size());
        out.put(image.substr(begin, end - begin), at, at + bytes);
        if (end < image.size()) out.put(space_, at, at + bytes);
        begin = end + 1;
      }
      if (!image.empty()) after_space = image.ends_with(' ');
      after_space = after_space && remove_spaces_;
      at += bytes;
    }
    AlignedText made = out.take();
    while (remove_spaces_ && made.text.ends_with(space_)) {
      made.text.resize(made.text.size() - space_.size());
      if (made.tracks()) made.origins.resize(made.text.size());
    }
    if (!empty && add_space_ && space_behind_) {
      if (made.tracks())
        made.origins.insert(made.origins.end(), space_.size(), made.origins.back());
      made.text += space_;
    }
    text = std::move(made);
  }

 private:
  // What the beginning of `text` becomes, and how many bytes become it.
  std::pair<std::string_view, std::size_t> next(std::string_view text) const {
    if (const std::size_t bytes = longest_prefix(user_defined_, text))
      return {text.substr(0, bytes), bytes};
    if (characters_)
      if (const auto match = characters_->longest(text))
        return {match->image, match->bytes};
    const std::size_t bytes = character_bytes(text, 0);
    return {text.substr(0, bytes), bytes};
  }

  PieceTrie user_defined_;
  std::optional<CharacterMap> characters_;
  bool space_behind_, add_space_, remove_spaces_;
  std::string_view space_;
};

// Pieces that the user defined are cut out before anything merges.
class UserDefinedSplit final : public PreTokenizer {
 public:
  explicit UserDefinedSplit(const SortedPieces& pieces) : trie_(pieces) {}

  void apply(Pieces& pieces) const override {
    std::vector<Range> cut;
    for (const Range& range : pieces.ranges) {
      const std::string_view text = pieces.text(range);
      std::size_t done = 0;
      const auto put = [&](std::size_t end) {
        if (end > done)
          cut.push_back({range.begin + static_cast<std::uint32_t>(done),
                         range.begin + static_cast<std::uint32_t>(end)});
        done = end;
      };
      for (std::size_t at = 0; at < text.size();) {
        const std::size_t bytes = longest_prefix(trie_, text.substr(at));
        if (bytes > 0) {
          put(at);
          put(at + bytes);
        }
        at += bytes > 0 ? bytes : character_bytes(text, at);
      }
      put(text.size());
    }
    pieces.ranges = std::move(cut);
  }

 private:
  PieceTrie trie_;
};

class SpUnigram final : public Model {
 public:
  explicit SpUnigram(const SentencePieceFile& file)
      : file_(file),
        trie_(pieces_of(file, {PieceKind::normal, PieceKind::user_defined})) {
    lowest_ = std::numeric_limits<float>::max();
    highest_ = std::numeric_limits<float>::lowest();
    for (std::size_t i = 0; i < file_.pieces.size(); ++i) {
      const SentencePiece& piece = file_.pieces[i];
      table_.add(piece.text, static_cast<std::int32_t>(i));
      longest_ = std::max(longest_, piece.text.size());
      if (piece.kind == PieceKind::byte)
        bytes_[static_cast<std::size_t>(byte_of_piece(piece.text))] =
            static_cast<std::int32_t>(i);
      if (piece.kind != PieceKind::normal) continue;
      lowest_ = std::min(lowest_, piece.score);
      highest_ = std::max(highest_, piece.score);
    }
  }

  void encode(std::string_view piece, std::vector<Token>& out,
              Workspace&) const override {
    std::vector<Step> steps(piece.size() + 1);
    find_best(piece, steps);
    std::vector<Token> backwards;
    for (std::size_t end = piece.size(); end > 0;) {
      const Step& step = steps[end];
      const auto begin = static_cast<std::size_t>(step.begin);
      const auto bytes = static_cast<std::uint32_t>(end - begin);
      if (step.id != file_.unknown)
        backwards.push_back({step.id, bytes});
      else if (file_.byte_fallback)
        for (std::size_t i = end; i > begin; --i)
          backwards.push_back({bytes_[static_cast<unsigned char>(piece[i - 1])], 1});
      else if (!backwards.empty() && backwards.back().id == file_.unknown)
        backwards.back().bytes += bytes;
      else
        backwards.push_back({step.id, bytes});
      end = begin;
    }
    out.insert(out.end(), backwards.rbegin(), backwards.rend());
  }
  std::optional<std::int32_t> id_of(std::string_view token) const override {
    return table_.id_of(token);
  }
  const std::string* token_of(std::int32_t id) const override {
    return table_.token_of(id);
  }
  std::int64_t size() const override { return std::ssize(file_.pieces); }

 private:
  struct Step {
    float score = 0;
    std::int64_t begin = -1;  // of the last piece of the best path to here; -1: none yet
    std::int32_t id = 0;
  };

  // A piece of the user has a bonus that makes it win. (The library's types, in 0.2.3:
  // sums are rounded to 32 bits before they are compared, which decides between ties.)
  float score_of(std::int32_t id, std::size_t bytes) const {
    const SentencePiece& piece = file_.pieces[static_cast<std::size_t>(id)];
    if (piece.kind != PieceKind::user_defined) return piece.score;
    return static_cast<float>(double{static_cast<float>(bytes) * highest_} - 0.1);
  }

  // Large sums would lose the digits that decide: the library counts from here anew.
  void rebase(std::size_t at, std::vector<Step>& steps) const {
    constexpr float lowest_sum = -100'000;
    const float so_far = steps[at].score;
    if (!(so_far < lowest_sum)) return;
    const std::size_t end = std::min(steps.size(), at + longest_ + 1);
    for (std::size_t i = at; i < end; ++i)
      if (steps[i].begin >= 0) steps[i].score -= so_far;
  }

  void find_best(std::string_view piece, std::vector<Step>& steps) const {
    constexpr float unknown_penalty = 10;
    for (std::size_t at = 0; at < piece.size();) {
      const std::size_t bytes = character_bytes(piece, at);
      rebase(at, steps);
      const float so_far = steps[at].score;
      bool has_character = false;
      const auto offer = [&](std::size_t length, std::int32_t id, float score) {
        Step& step = steps[at + length];
        if (step.begin >= 0 && !(score > step.score)) return;
        step = {score, static_cast<std::int64_t>(at), id};
      };
      trie_.for_each_prefix(piece.substr(at), [&](std::size_t length, std::int32_t id) {
        offer(length, id, score_of(id, length) + so_far);
        has_character = has_character || length == bytes;
      });
      if (!has_character) offer(bytes, file_.unknown, lowest_ - unknown_penalty + so_far);
      at += bytes;
    }
  }

  SentencePieceFile file_;
  TokenTable table_;
  PieceTrie trie_;
  std::array<std::int32_t, 256> bytes_{};
  float lowest_, highest_;
  std::size_t longest_ = 4;  // bytes of a piece, or of a character
};

// Pieces of equal score have one rank: then the leftmost merges first.
std::unique_ptr<Model> make_sp_bpe(const SentencePieceFile& file,
                                   const std::string& source) {
  BpeConfig config;
  std::map<float, std::int32_t, std::greater<>> ranks;
  for (std::size_t i = 0; i < file.pieces.size(); ++i) {
    const SentencePiece& piece = file.pieces[i];
    const auto id = static_cast<std::int32_t>(i);
    config.vocabulary.add(piece.text, id);
    if (piece.kind == PieceKind::normal) ranks[piece.score] = 0;
    if (piece.kind == PieceKind::user_defined) config.whole.add(piece.text, id);
  }
  std::int32_t next = 0;
  for (auto& [score, rank] : ranks) rank = next++;
  std::vector<std::pair<std::int32_t, std::int32_t>> merged;
  for (std::size_t i = 0; i < file.pieces.size(); ++i)
    if (file.pieces[i].kind == PieceKind::normal)
      merged.emplace_back(static_cast<std::int32_t>(i), ranks[file.pieces[i].score]);
  config.ranked = merges_of_cuts(config.vocabulary, merged, source);
  config.unknown = file.pieces[static_cast<std::size_t>(file.unknown)].text;
  config.fuse_unknown = true;
  config.byte_fallback = file.byte_fallback;
  const Json none;
  return std::make_unique<Bpe>(std::move(config), ConfigNode(none, source));
}

class SpDecoder final : public Decoder {
 public:
  explicit SpDecoder(const SentencePieceFile& file)
      : unknown_text_(file.unknown_text),
        drops_space_(file.add_space || file.remove_spaces),
        drops_spaces_(file.remove_spaces) {
    for (const SentencePiece& piece : file.pieces)
      if (piece.kind == PieceKind::unknown || piece.kind == PieceKind::control ||
          piece.kind == PieceKind::byte)
        kinds_[piece.text] = piece.kind;
  }

  void apply(std::vector<std::string>& tokens) const override {
    std::string text, bytes;
    bool at_start = true, dropped = false;
    const auto flush = [&] {
      append_bytes(text, bytes);
      bytes.clear();
    };
    for (const std::string& token : tokens) {
      const auto found = kinds_.find(token);
      const PieceKind kind = found == kinds_.end() ? PieceKind::normal : found->second;
      if (kind == PieceKind::byte) {
        bytes += static_cast<char>(byte_of_piece(token));
        continue;
      }
      flush();
      if (dropped || !text.empty()) at_start = false;
      dropped = false;
      if (kind == PieceKind::unknown) text += unknown_text_;
      if (kind != PieceKind::normal) continue;
      std::string_view rest = token;
      if (at_start && drops_space_ && rest.starts_with(mark)) {
        rest.remove_prefix(mark.size());
        dropped = !drops_spaces_;
      }
      append_spaced(text, rest);
    }
    flush();
    tokens.assign(1, std::move(text));
  }

 private:
  // Characters of the bytes, and one U+FFFD for each byte that is in none.
  static void append_bytes(std::string& text, std::string_view bytes) {
    while (!bytes.empty()) {
      const std::size_t valid = valid_bytes(bytes);
      text += bytes.substr(0, valid);
      bytes.remove_prefix(valid);
      if (bytes.empty()) return;
      text += "\uFFFD";
      bytes.remove_prefix(1);
    }
  }
  static void append_spaced(std::string& text, std::string_view piece) {
    for (std::size_t at; (at = piece.find(mark)) != piece.npos;) {
      text += piece.substr(0, at);
      text += ' ';
      piece.remove_prefix(at + mark.size());
    }
    text += piece;
  }

  std::map<std::string, PieceKind> kinds_;
  std::string unknown_text_;
  bool drops_space_, drops_spaces_;  // one at the start; all that stand there
};

}  // namespace

TokenizerState state_of_sentencepiece(std::string_view bytes, const std::string& source) {
  const SentencePieceFile file = read_sentencepiece(bytes, source);
  TokenizerState state;
  state.digest = io::digest_of(bytes);
  state.normalizer = std::make_unique<SpNormalizer>(file, source);
  const SortedPieces user_defined = pieces_of(file, {PieceKind::user_defined});
  if (file.is_bpe && !user_defined.empty())
    state.pre_tokenizer = std::make_unique<UserDefinedSplit>(user_defined);
  state.model =
      file.is_bpe ? make_sp_bpe(file, source) : std::make_unique<SpUnigram>(file);
  state.decoder = std::make_unique<SpDecoder>(file);
  state.joins_bytes = true;
  for (std::size_t i = 0; i < file.pieces.size(); ++i)
    if (file.pieces[i].kind == PieceKind::control)
      state.added.add({.id = static_cast<std::int32_t>(i),
                       .content = file.pieces[i].text,
                       .special = true},
                      false);
  return state;
}

}  // namespace trireme::text
