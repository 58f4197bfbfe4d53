// Filters of templates that lay out text and deal elements out into lists: Jinja's.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "data/jinja/filters.hpp"
#include "text/unicode.hpp"
#include "text/utf8.hpp"

namespace trireme::data::jinja {
namespace {

std::int64_t number_in(const Value& value, std::int64_t otherwise, const char* what) {
  constexpr std::int64_t most = std::int64_t{1} << 40;  // so that sums do not overflow
  return given(value) ? std::clamp(whole_of(value, what), -most, most) : otherwise;
}

// Lists of `count` elements; the last one is filled up where there is something to do so.
Value batch(const Value& value, const Arguments& arguments, Budget& budget) {
  const List bound = arguments.bind({"linecount", "fill_with"});
  const auto count = static_cast<std::size_t>(
      std::max<std::int64_t>(1, whole_of(bound[0], "the size of a batch")));
  const bool fills = given(bound[1]) && !bound[1].is(Kind::none);
  List out, line;
  for (const Value& item : items_of(value, budget)) {
    if (line.size() == count) out.push_back(Value::list(std::exchange(line, {})));
    line.push_back(item);
  }
  if (line.empty()) return Value::view(std::move(out));
  if (fills) budget.elements(count);
  if (fills) line.resize(count, bound[1]);
  out.push_back(Value::list(std::move(line)));
  return Value::view(std::move(out));
}

// So many lists of about the same length, the longer ones first.
Value slice(const Value& value, const Arguments& arguments, Budget& budget) {
  const List bound = arguments.bind({"slices", "fill_with"});
  const std::int64_t count = whole_of(bound[0], "the number of slices");
  if (count < 1) refuse("there must be a slice");
  budget.elements(static_cast<std::size_t>(count));
  const List items = items_of(value, budget);
  const std::int64_t each = std::ssize(items) / count, longer = std::ssize(items) % count;
  List out;
  auto from = items.begin();
  for (std::int64_t i = 0; i < count; ++i) {
    const auto end = from + each + (i < longer ? 1 : 0);
    List part(from, end);
    if (i >= longer && given(bound[1]) && !bound[1].is(Kind::none))
      part.push_back(bound[1]);
    out.push_back(Value::list(std::move(part)));
    from = end;
  }
  return Value::view(std::move(out));
}

// Pairs of a value of the attribute and the elements that have it, in its order.
Value group_by(const Value& value, const Arguments& arguments, Budget& budget) {
  const List bound = arguments.bind({"attribute", "default", "case_sensitive"});
  const auto key_of = [&](const Value& item) {
    const Value key = attribute_by_path(item, bound[0], budget);
    return given(key) ? key : bound[1];
  };
  const auto folded = [&](const Value& key) {
    if (!key.is(Kind::text) || truth(bound[2])) return key;
    return made(lower_case(key.text()), budget);
  };
  std::vector<std::pair<Value, Value>> keyed;
  for (const Value& item : items_of(value, budget))
    keyed.emplace_back(folded(key_of(item)), item);
  budget.elements(keyed.size());
  std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& a, const auto& b) {
    budget.work(a.first.weight());
    return compare(a.first, b.first) < 0;
  });
  List groups;
  for (std::size_t begin = 0, end = 0; begin < keyed.size(); begin = end) {
    List items;
    for (; end < keyed.size() && equal(keyed[end].first, keyed[begin].first); ++end)
      items.push_back(keyed[end].second);
    const Value key = key_of(items.front());
    groups.push_back(Value::tuple({key, Value::list(std::move(items))}));
  }
  return Value::list(std::move(groups));
}

Value word_count(const Value& value, const Arguments& arguments, Budget& budget) {
  arguments.bind({});
  std::int64_t words = 0;
  bool inside = false;
  for (const char32_t code : text::code_points(to_text(value, budget))) {
    const bool word = text::is_in(code, text::letters | text::numbers) || code == U'_';
    words += word && !inside ? 1 : 0;
    inside = word;
  }
  return Value::of(words);
}

Value center(const Value& value, const Arguments& arguments, Budget& budget) {
  const std::int64_t width = number_in(arguments.bind({"width"})[0], 80, "width");
  return method_of(Value::of(std::string()), "center")(Value::of(to_text(value, budget)),
                                                       {{Value::of(width)}, {}}, budget);
}

Value truncate(const Value& value, const Arguments& arguments, Budget& budget) {
  const List bound = arguments.bind({"length", "killwords", "end", "leeway"});
  const std::int64_t length = number_in(bound[0], 255, "length");
  const std::int64_t leeway = number_in(bound[3], 5, "leeway");
  const std::string end = given(bound[2]) ? text_of(bound[2], "the end") : "...";
  const std::string text = to_text(value, budget);
  const std::u32string codes = text::code_points(text);
  const std::int64_t room = length - std::ssize(text::code_points(end));
  if (room < 0 || leeway < 0) refuse("'truncate' has no room for the end of a text");
  if (leeway >= std::ssize(codes) || std::ssize(codes) - leeway <= length)
    return Value::of(text);
  std::string kept;
  for (const char32_t code : codes.substr(0, static_cast<std::size_t>(room)))
    text::append(kept, code);
  if (!truth(bound[1])) kept.resize(std::min(kept.rfind(' '), kept.size()));
  return made(kept + end, budget);
}

Value formatted(const Value& value, const Arguments& arguments, Budget& budget) {
  if (!arguments.named.empty()) refuse("'format' takes values without names only");
  return Value::of(percent_text(text_of(value, "a form"), arguments.positional, budget));
}

}  // namespace

const Filters& layout_filters() {
  static const Filters all = {
      {"batch", batch},      {"slice", slice},       {"groupby", group_by},
      {"center", center},    {"truncate", truncate}, {"wordcount", word_count},
      {"format", formatted},
  };
  return all;
}

}  // namespace trireme::data::jinja
