// Pre-tokenizers that cut without a pattern: by length, and where the script changes.
// SPDX-License-Identifier: Apache-2.0
#include "text/plain_cuts.hpp"

#include "text/older_unicode.hpp"
#include "text/pattern.hpp"
#include "text/utf8.hpp"

namespace trireme::text {
namespace {

class FixedLength final : public PreTokenizer {
 public:
  explicit FixedLength(std::int64_t length) : length_(length) {}
  void apply(Pieces& pieces) const override {
    std::vector<Range> cut;
    for (const Range& piece : pieces.ranges) {
      std::size_t at = piece.begin;
      while (at < piece.end) {
        const auto begin = static_cast<std::uint32_t>(at);
        for (std::int64_t i = 0; i < length_ && at < piece.end; ++i)
          at = next_character(pieces.whole.text, at);
        cut.push_back({begin, static_cast<std::uint32_t>(at)});
      }
    }
    pieces.ranges = std::move(cut);
  }

 private:
  std::int64_t length_;
};

// A blank belongs to whatever stands before it; blanks at the beginning are lost, as in
// the reference.
class ByScripts final : public PreTokenizer {
 public:
  void apply(Pieces& pieces) const override {
    std::vector<Range> cut;
    for (const Range& piece : pieces.ranges) {
      std::uint8_t last = any_script;
      for (std::uint32_t at = piece.begin; at < piece.end;) {
        const CodePoint c = code_point_at(pieces.whole.text, at);
        const std::uint8_t script = older_script(c.value);
        const auto end = static_cast<std::uint32_t>(at + c.bytes);
        if (script != any_script && script != last)
          cut.push_back({at, end});
        else if (last != any_script)
          cut.back().end = end;
        if (script != any_script) last = script;
        at = end;
      }
    }
    pieces.ranges = std::move(cut);
  }
};

}  // namespace

std::unique_ptr<PreTokenizer> make_fixed_length(const ConfigNode& node) {
  node.only({"length"});
  const std::int64_t length = node.at("length").integer();
  if (length < 1) node.fail("has a length below 1");
  return std::make_unique<FixedLength>(length);
}

std::unique_ptr<PreTokenizer> make_by_scripts(const ConfigNode& node) {
  node.only({});
  return std::make_unique<ByScripts>();
}

}  // namespace trireme::text
