// Pre-tokenizers: the steps that cut text into the pieces that a model encodes.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <functional>

#include "text/byte_letters.hpp"
#include "text/older_unicode.hpp"
#include "text/pattern.hpp"
#include "text/plain_cuts.hpp"
#include "text/stages.hpp"
#include "text/unicode.hpp"
#include "text/utf8.hpp"

namespace trireme::text {
namespace {

// What becomes of matches and of the gaps between them.
enum class Behavior {
  isolated,
  removed,
  merged_with_previous,
  merged_with_next,
  contiguous
};

struct Part {
  Range range;
  bool match;
};

void merge_with_previous(std::vector<Part>& parts, const std::vector<Part>& all) {
  bool after_match = false;
  for (const Part& part : all) {
    if (part.match && !after_match && !parts.empty())
      parts.back().range.end = part.range.end;
    else
      parts.push_back(part);
    after_match = part.match;
  }
}

void merge_with_next(std::vector<Part>& parts, const std::vector<Part>& all) {
  bool before_match = false;
  for (auto part = all.rbegin(); part != all.rend(); ++part) {
    if (part->match && !before_match && !parts.empty())
      parts.back().range.begin = part->range.begin;
    else
      parts.push_back(*part);
    before_match = part->match;
  }
  std::reverse(parts.begin(), parts.end());
}

void join_same(std::vector<Part>& parts, const std::vector<Part>& all) {
  bool last = false;
  for (const Part& part : all) {
    if (part.match == last && !parts.empty())
      parts.back().range.end = part.range.end;
    else
      parts.push_back(part);
    last = part.match;
  }
}

void add_parts(const std::vector<Part>& all, Behavior behavior, std::vector<Range>& out) {
  std::vector<Part> parts;
  if (behavior == Behavior::merged_with_previous) merge_with_previous(parts, all);
  if (behavior == Behavior::merged_with_next) merge_with_next(parts, all);
  if (behavior == Behavior::contiguous) join_same(parts, all);
  const bool as_found = behavior == Behavior::isolated || behavior == Behavior::removed;
  for (const Part& part : as_found ? all : parts)
    if (part.range.size() > 0 && !(part.match && behavior == Behavior::removed))
      out.push_back(part.range);
}

class Split final : public PreTokenizer {
 public:
  Split(std::unique_ptr<Pattern> pattern, Behavior behavior, bool invert)
      : pattern_(std::move(pattern)), behavior_(behavior), invert_(invert) {}

  void apply(Pieces& pieces) const override {
    std::vector<Range> cut;
    cut.reserve(pieces.whole.text.size() / 4 + pieces.ranges.size());
    std::vector<Part> parts;
    std::vector<Range> matches;
    const bool plain = behavior_ == Behavior::isolated;
    for (const Range& piece : pieces.ranges) {
      parts.clear();
      matches.clear();
      std::uint32_t done = 0;
      const auto put = [&](Range range, bool match) {
        const Range placed{piece.begin + range.begin, piece.begin + range.end};
        if (!plain)
          parts.push_back({placed, match != invert_});
        else if (placed.size() > 0)
          cut.push_back(placed);
      };
      const std::string_view text = pieces.text(piece);
      pattern_->find_all(text, matches);
      for (const Range& match : matches) {
        if (match.begin > done) put({done, match.begin}, false);
        put(match, true);
        done = match.end;
      }
      if (done < text.size()) put({done, static_cast<std::uint32_t>(text.size())}, false);
      if (!plain) add_parts(parts, behavior_, cut);
    }
    pieces.ranges = std::move(cut);
  }

 private:
  std::unique_ptr<Pattern> pattern_;
  Behavior behavior_;
  bool invert_;
};

// Single characters, or with `runs` the longest runs of them.
class Characters final : public Pattern {
 public:
  using Belongs = std::function<bool(char32_t)>;
  explicit Characters(Belongs belongs, bool runs = false)
      : belongs_(std::move(belongs)), runs_(runs) {}
  std::optional<Range> find(std::string_view text, std::size_t from) const override {
    for (; from < text.size(); from = next_character(text, from)) {
      if (!belongs_(code_point_at(text, from).value)) continue;
      std::size_t end = next_character(text, from);
      while (runs_ && end < text.size() && belongs_(code_point_at(text, end).value))
        end = next_character(text, end);
      return Range{static_cast<std::uint32_t>(from), static_cast<std::uint32_t>(end)};
    }
    return {};
  }

 private:
  Belongs belongs_;
  bool runs_;
};

// \w+|[^\w\s]+ in the words of Rust's engine.
class WordsAndSigns final : public Pattern {
 public:
  std::optional<Range> find(std::string_view text, std::size_t from) const override {
    for (; from < text.size(); from = next_character(text, from)) {
      const char32_t first = code_point_at(text, from).value;
      if (is_space(first)) continue;
      const bool word = is_rust_word(first);
      std::size_t end = from;
      while (end < text.size()) {
        const char32_t code = code_point_at(text, end).value;
        if (is_rust_word(code) != word || is_space(code)) break;
        end = next_character(text, end);
      }
      return Range{static_cast<std::uint32_t>(from), static_cast<std::uint32_t>(end)};
    }
    return {};
  }
};

// Rewrites every piece by write(rewriter, piece), and keeps the pieces apart.
template <class Write>
void rewrite(Pieces& pieces, const Write& write) {
  Pieces made;
  Rewriter out(pieces.whole);
  std::uint32_t end = 0;
  for (const Range& piece : pieces.ranges) {
    const std::uint32_t begin = end;
    end += static_cast<std::uint32_t>(write(out, piece));
    made.ranges.push_back({begin, end});
  }
  made.whole = out.take();
  pieces = std::move(made);
}

class PrefixSpace final : public PreTokenizer {
 public:
  void apply(Pieces& pieces) const override {
    rewrite(pieces, [&](Rewriter& out, const Range& piece) {
      const bool prefix = pieces.whole.text[piece.begin] != ' ';
      if (prefix) out.put(" ", piece.begin, piece.begin);
      out.keep(piece.begin, piece.end);
      return piece.size() + (prefix ? 1 : 0);
    });
  }
};

class Letters final : public PreTokenizer {
 public:
  void apply(Pieces& pieces) const override {
    rewrite(pieces, [&](Rewriter& out, const Range& piece) {
      std::size_t written = 0;
      for (std::uint32_t at = piece.begin; at < piece.end; ++at) {
        const std::string letter =
            utf8_of(letter_of(static_cast<unsigned char>(pieces.whole.text[at])));
        out.put(letter, at, at + 1);
        written += letter.size();
      }
      return written;
    });
  }
};

class Metaspace final : public PreTokenizer {
 public:
  enum class Prepend { always, first, never };
  Metaspace(std::string mark, Prepend prepend)
      : mark_(std::move(mark)), prepend_(prepend) {}
  void apply(Pieces& pieces) const override {
    const std::string& text = pieces.whole.text;
    rewrite(pieces, [&](Rewriter& out, const Range& piece) {
      std::size_t written = 0;
      const auto mark = [&](std::uint32_t begin, std::uint32_t end) {
        out.put(mark_, begin, end);
        written += mark_.size();
      };
      const bool marked =
          text[piece.begin] == ' ' || pieces.text(piece).starts_with(mark_);
      const bool first = pieces.whole.at_start && piece.begin == 0;
      if (!marked &&
          (prepend_ == Prepend::always || (prepend_ == Prepend::first && first)))
        mark(piece.begin, piece.begin);
      for (std::uint32_t at = piece.begin; at < piece.end; ++at) {
        if (text[at] == ' ') {
          mark(at, at + 1);
        } else {
          out.keep(at, at + 1);
          ++written;
        }
      }
      return written;
    });
  }

 private:
  std::string mark_;
  Prepend prepend_;
};

class Sequence final : public PreTokenizer {
 public:
  void add(std::unique_ptr<PreTokenizer> part) {
    if (part) parts_.push_back(std::move(part));
  }
  void apply(Pieces& pieces) const override {
    for (const auto& part : parts_) part->apply(pieces);
  }

 private:
  std::vector<std::unique_ptr<PreTokenizer>> parts_;
};

Behavior behavior_of(const ConfigNode& node) {
  const std::string word = node.text();
  if (word == "Isolated") return Behavior::isolated;
  if (word == "Removed") return Behavior::removed;
  if (word == "MergedWithPrevious") return Behavior::merged_with_previous;
  if (word == "MergedWithNext") return Behavior::merged_with_next;
  if (word == "Contiguous") return Behavior::contiguous;
  node.fail("is \"" + word + "\", which is no behavior of a split");
}

std::unique_ptr<PreTokenizer> by_characters(Characters::Belongs belongs,
                                            Behavior behavior, bool invert = false) {
  return std::make_unique<Split>(std::make_unique<Characters>(std::move(belongs)),
                                 behavior, invert);
}

// The reference's punctuation: signs of ASCII, and what older tables call punctuation.
bool is_punctuation(char32_t c) {
  const bool ascii = (c >= 33 && c <= 47) || (c >= 58 && c <= 64) ||
                     (c >= 91 && c <= 96) || (c >= 123 && c <= 126);
  return ascii || was_punctuation(c);
}

std::unique_ptr<PreTokenizer> make_byte_level(const ConfigNode& node, bool bytes) {
  node.only({"add_prefix_space", "trim_offsets", "use_regex"});
  auto sequence = std::make_unique<Sequence>();
  if (node.boolean("add_prefix_space", true))
    sequence->add(std::make_unique<PrefixSpace>());
  if (node.boolean("use_regex", true))
    sequence->add(
        std::make_unique<Split>(known_splitter(gpt2_regex), Behavior::isolated, false));
  if (!bytes) sequence->add(std::make_unique<Letters>());
  return sequence;
}

std::unique_ptr<PreTokenizer> make_metaspace(const ConfigNode& node) {
  node.only({"replacement", "prepend_scheme", "split", "add_prefix_space", "str_rep"});
  const std::string scheme = node.text(
      "prepend_scheme", node.boolean("add_prefix_space", true) ? "always" : "never");
  if (scheme != "always" && scheme != "first" && scheme != "never")
    node.fail("has the prepend_scheme \"" + scheme +
              "\"; there are always, first, never");
  if (!node.boolean("add_prefix_space", true) && scheme != "never")
    node.fail("says add_prefix_space = false and another prepend_scheme than never");
  const std::string mark = node.text("replacement", "\u2581");
  if (mark.empty() || length_at(static_cast<unsigned char>(mark[0])) != mark.size())
    node.fail("has a replacement that is not one character");
  auto sequence = std::make_unique<Sequence>();
  sequence->add(
      std::make_unique<Metaspace>(mark, scheme == "always"  ? Metaspace::Prepend::always
                                        : scheme == "first" ? Metaspace::Prepend::first
                                                            : Metaspace::Prepend::never));
  const char32_t code = code_point_at(mark, 0).value;
  if (node.boolean("split", true))
    sequence->add(by_characters([code](char32_t c) { return c == code; },
                                Behavior::merged_with_next));
  return sequence;
}

std::unique_ptr<PreTokenizer> make_bert() {
  auto sequence = std::make_unique<Sequence>();
  sequence->add(by_characters(is_space, Behavior::removed));
  sequence->add(by_characters(is_punctuation, Behavior::isolated));
  return sequence;
}

std::unique_ptr<PreTokenizer> make_sequence(const ConfigNode& node, bool bytes) {
  node.only({"pretokenizers"});
  auto sequence = std::make_unique<Sequence>();
  for (const ConfigNode& part : node.at("pretokenizers").elements())
    sequence->add(make_pre_tokenizer(part, bytes));
  return sequence;
}

std::unique_ptr<PreTokenizer> make_by_characters(const ConfigNode& node,
                                                 const std::string& type) {
  if (type == "Digits") {
    node.only({"individual_digits"});
    return by_characters(is_numeric, node.boolean("individual_digits", false)
                                         ? Behavior::isolated
                                         : Behavior::contiguous);
  }
  if (type == "Punctuation") {
    node.only({"behavior"});
    return by_characters(is_punctuation, node.has("behavior")
                                             ? behavior_of(node.at("behavior"))
                                             : Behavior::isolated);
  }
  if (type == "CharDelimiterSplit") {
    node.only({"delimiter"});
    const std::string mark = node.at("delimiter").text();
    if (mark.empty()) node.fail("has an empty delimiter");
    const char32_t code = code_point_at(mark, 0).value;
    return by_characters([code](char32_t c) { return c == code; }, Behavior::removed);
  }
  node.only({});
  if (type == "WhitespaceSplit") return by_characters(is_space, Behavior::removed);
  if (type == "Whitespace")
    return std::make_unique<Split>(std::make_unique<WordsAndSigns>(), Behavior::removed,
                                   true);
  if (type == "BertPreTokenizer") return make_bert();
  node.fail("has the type \"" + type + "\", a pre-tokenizer that is not supported");
}

}  // namespace

std::unique_ptr<PreTokenizer> make_pre_tokenizer(const ConfigNode& node, bool bytes) {
  if (node.is_null()) return nullptr;
  const std::string type = node.type();
  if (type == "Sequence") return make_sequence(node, bytes);
  if (type == "ByteLevel") return make_byte_level(node, bytes);
  if (type == "Metaspace") return make_metaspace(node);
  if (type == "Split") {
    node.only({"pattern", "behavior", "invert"});
    return std::make_unique<Split>(make_pattern(node.at("pattern")),
                                   behavior_of(node.at("behavior")),
                                   node.boolean("invert", false));
  }
  if (type == "FixedLength") return make_fixed_length(node);
  if (type == "UnicodeScripts") return make_by_scripts(node);
  return make_by_characters(node, type);
}

}  // namespace trireme::text
