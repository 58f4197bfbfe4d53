// The written form of steps and ranks that are profiled.
// SPDX-License-Identifier: Apache-2.0
#include "config/profile_window.hpp"

#include <string>

#include "base/error.hpp"
#include "base/number.hpp"

namespace trireme::config {
namespace {

constexpr std::string_view example = "\"10-12@0,3\"";

// One number, or two and '-' between them.
NumberSpan parse_span(std::string_view text, std::string_view what, std::int64_t least) {
  const std::size_t dash = text.find('-');
  const auto first = parse_number<std::int64_t>(text.substr(0, dash));
  const auto last = dash == std::string_view::npos
                        ? first
                        : parse_number<std::int64_t>(text.substr(dash + 1));
  require(first && last, Status::bad_content,
          "\"{}\" is neither a {} nor a span of them: write {}", text, what, example);
  require(*first >= least, Status::bad_content, "{}s are counted from {}: write {}", what,
          least, example);
  require(*first <= *last, Status::bad_content,
          "\"{}\" ends before it begins: write \"{}-{}\"", text, *last, *first);
  return {*first, *last};
}

std::vector<NumberSpan> parse_spans(std::string_view text, std::string_view what,
                                    std::int64_t least) {
  require(!text.empty(), Status::bad_content, "no {}s are named: write {}", what,
          example);
  std::vector<NumberSpan> spans;
  for (bool more = true; more;) {
    const std::size_t comma = text.find(',');
    const NumberSpan span = parse_span(text.substr(0, comma), what, least);
    require(spans.empty() || span.first > spans.back().last, Status::bad_content,
            "{} {} does not lie behind those before it: write ascending {}s, each once",
            what, span.first, what);
    spans.push_back(span);
    more = comma != std::string_view::npos;
    if (more) text.remove_prefix(comma + 1);
  }
  return spans;
}

}  // namespace

ProfileWindow parse_profile(std::string_view text) {
  if (text.empty()) return {};
  const std::size_t at = text.find('@');
  ProfileWindow window;
  window.steps = parse_spans(text.substr(0, at), "step", 1);
  const std::string_view ranks = at == std::string_view::npos ? "0" : text.substr(at + 1);
  window.all_ranks = ranks == "all";
  if (!window.all_ranks) window.ranks = parse_spans(ranks, "rank", 0);
  return window;
}

}  // namespace trireme::config
