// Text that remembers its original: parts of it, and how it is rewritten.
// SPDX-License-Identifier: Apache-2.0
#include "text/aligned_text.hpp"

#include <algorithm>

#include "text/utf8.hpp"

namespace trireme::text {

AlignedText AlignedText::part(Range range) const {
  AlignedText out;
  out.text = text.substr(range.begin, range.size());
  out.at_start = at_start && range.begin == 0;
  if (tracks())
    out.origins.assign(origins.begin() + range.begin, origins.begin() + range.end);
  return out;
}

AlignedText aligned(std::string_view original, Range part, bool tracks) {
  AlignedText out;
  out.text = original.substr(part.begin, part.size());
  out.at_start = part.begin == 0;
  if (!tracks) return out;
  out.origins.reserve(part.size());
  for (std::uint32_t at = part.begin; at < part.end;) {
    const auto bytes =
        static_cast<std::uint32_t>(length_at(static_cast<unsigned char>(original[at])));
    out.origins.insert(out.origins.end(), bytes, Range{at, at + bytes});
    at += bytes;
  }
  return out;
}

void Rewriter::put(std::string_view text, std::size_t begin, std::size_t end) {
  if (text.empty()) return;
  note_start(begin);
  made_.text += text;
  if (!from_.tracks()) return;
  Range origin = from_.origins[std::min(begin, from_.origins.size() - 1)];
  if (begin == end) origin.end = origin.begin;
  for (std::size_t i = begin; i < end; ++i) {
    origin.begin = std::min(origin.begin, from_.origins[i].begin);
    origin.end = std::max(origin.end, from_.origins[i].end);
  }
  made_.origins.insert(made_.origins.end(), text.size(), origin);
}

void Rewriter::keep(std::size_t begin, std::size_t end) {
  if (begin == end) return;
  note_start(begin);
  made_.text.append(from_.text, begin, end - begin);
  if (from_.tracks())
    made_.origins.insert(made_.origins.end(),
                         from_.origins.begin() + static_cast<std::ptrdiff_t>(begin),
                         from_.origins.begin() + static_cast<std::ptrdiff_t>(end));
}

}  // namespace trireme::text
