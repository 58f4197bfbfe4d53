// Text that is rewritten step by step and remembers which bytes of the original it is.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace trireme::text {

// Bytes [begin, end) of a text. A text that is encoded at once has less than 4 GiB.
struct Range {
  std::uint32_t begin = 0, end = 0;
  std::size_t size() const { return end - begin; }
  bool operator==(const Range&) const = default;
};

// Valid UTF-8. `origins` is empty, or holds for each byte the bytes of the original that
// it was made from: whole characters of it.
struct AlignedText {
  std::string text;
  std::vector<Range> origins;
  bool at_start = false;  // its first character is the first of the original

  bool tracks() const { return !origins.empty(); }
  AlignedText part(Range range) const;
};

// The part of `original` as it stands there.
AlignedText aligned(std::string_view original, Range part, bool tracks);

// What became of a text, built from its beginning to its end.
class Rewriter {
 public:
  explicit Rewriter(const AlignedText& from) : from_(from) {
    made_.text.reserve(from.text.size() + from.text.size() / 8);
  }
  // Adds text that bytes [begin, end) of the old one became. An empty range: it is new.
  void put(std::string_view text, std::size_t begin, std::size_t end);
  // Adds the bytes [begin, end) as they are.
  void keep(std::size_t begin, std::size_t end);
  // The new text; the writer is used up.
  AlignedText take() { return std::move(made_); }

 private:
  void note_start(std::size_t begin) {
    if (made_.text.empty()) made_.at_start = from_.at_start && begin == 0;
  }
  const AlignedText& from_;
  AlignedText made_;
};

// A text and the pieces that it is cut into, in order; what lies in none is dropped.
struct Pieces {
  AlignedText whole;
  std::vector<Range> ranges;

  std::string_view text(const Range& range) const {
    return std::string_view(whole.text).substr(range.begin, range.size());
  }
};

}  // namespace trireme::text
