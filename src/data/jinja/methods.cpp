// Methods of texts, lists and dictionaries in templates: Python's.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>

#include "data/jinja/filters.hpp"
#include "data/jinja/lexer.hpp"
#include "text/unicode.hpp"
#include "text/utf8.hpp"

namespace trireme::data::jinja {

namespace {

template <Side side>
Value strip(const Value& self, const Arguments& arguments, Budget& budget) {
  return made(stripped(self.text(), arguments.bind({"chars"})[0], side), budget);
}

// Whether the text, or one of a tuple of texts, stands at the beginning or the end.
template <bool at_begin>
Value has_end(const Value& self, const Arguments& arguments, Budget& budget) {
  const Value what = arguments.bind({"what"})[0];
  const auto fits = [&](const Value& one) {
    const std::string& text = text_of(one, "what a text begins or ends with");
    return at_begin ? self.text().starts_with(text) : self.text().ends_with(text);
  };
  if (!what.is_tuple()) return Value::of(fits(what));
  budget.elements(what.items().size());
  return Value::of(std::any_of(what.items().begin(), what.items().end(), fits));
}

// Pieces between white space.
List words_of(const std::string& text, std::int64_t most, bool from_right) {
  List pieces;
  std::string_view rest = from_right ? strip_right(text) : strip_left(text);
  while (!rest.empty() && (most < 0 || std::ssize(pieces) < most)) {
    std::size_t size = 0;
    if (from_right)
      while (size < rest.size()) {
        const text::CodePoint code = text::code_point_before(rest, rest.size() - size);
        if (is_python_space(code.value)) break;
        size += code.bytes;
      }
    else
      while (size < rest.size() &&
             !is_python_space(text::code_point_at(rest, size).value))
        size += text::code_point_at(rest, size).bytes;
    const std::size_t begin = from_right ? rest.size() - size : 0;
    pieces.push_back(Value::of(std::string(rest.substr(begin, size))));
    rest =
        from_right ? strip_right(rest.substr(0, begin)) : strip_left(rest.substr(size));
  }
  if (!rest.empty()) pieces.push_back(Value::of(std::string(rest)));
  if (from_right) std::reverse(pieces.begin(), pieces.end());
  return pieces;
}

template <bool from_right>
Value split(const Value& self, const Arguments& arguments, Budget& budget) {
  const List bound = arguments.bind({"sep", "maxsplit"});
  const std::int64_t most =
      bound[1].is(Kind::undefined) ? -1 : whole_of(bound[1], "maxsplit");
  const std::string& text = self.text();
  budget.make(text.size());
  if (bound[0].is(Kind::undefined) || bound[0].is(Kind::none))
    return Value::list(words_of(text, most, from_right));
  const std::string& mark = text_of(bound[0], "what a text is split at");
  if (mark.empty()) refuse("a text cannot be split at an empty one");
  List pieces;
  std::size_t begin = 0, end = text.size();
  while (most < 0 || std::ssize(pieces) < most) {
    budget.elements(1);
    const std::size_t found = !from_right         ? text.find(mark, begin)
                              : end < mark.size() ? text.npos
                                                  : text.rfind(mark, end - mark.size());
    if (found == text.npos) break;
    if (from_right) {
      const std::size_t behind = found + mark.size();
      pieces.push_back(Value::of(text.substr(behind, end - behind)));
      end = found;
    } else {
      pieces.push_back(Value::of(text.substr(begin, found - begin)));
      begin = found + mark.size();
    }
  }
  pieces.push_back(Value::of(text.substr(begin, end - begin)));
  if (from_right) std::reverse(pieces.begin(), pieces.end());
  return Value::list(std::move(pieces));
}

Value split_lines(const Value& self, const Arguments& arguments, Budget& budget) {
  const bool keep = truth(arguments.bind({"keepends"})[0]);
  const std::string& text = self.text();
  budget.make(text.size());
  static constexpr std::u32string_view ends = U"\n\r\v\f\x1C\x1D\x1E\x85\u2028\u2029";
  List lines;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.size();) {
    const text::CodePoint code = text::code_point_at(text, at);
    std::size_t behind = at + code.bytes;
    if (ends.find(code.value) != ends.npos) {
      if (code.value == '\r' && text.substr(behind).starts_with('\n')) ++behind;
      lines.push_back(Value::of(text.substr(begin, (keep ? behind : at) - begin)));
      begin = behind;
    }
    at = behind;
  }
  if (begin < text.size()) lines.push_back(Value::of(text.substr(begin)));
  budget.elements(lines.size());
  return Value::list(std::move(lines));
}

template <bool from_right>
Value find(const Value& self, const Arguments& arguments, Budget&) {
  const std::string& what = text_of(arguments.bind({"sub"})[0], "what is sought");
  const std::size_t at = from_right ? self.text().rfind(what) : self.text().find(what);
  if (at == std::string::npos) return Value::of(std::int64_t{-1});
  return Value::of(length_of(Value::of(self.text().substr(0, at))));
}

Value count(const Value& self, const Arguments& arguments, Budget& budget) {
  const Value what = arguments.bind({"sub"})[0];
  std::int64_t found = 0;
  if (self.is(Kind::sequence)) {
    budget.elements(self.items().size());
    for (const Value& item : self.items()) found += equal(item, what);
    return Value::of(found);
  }
  const std::string& text = text_of(what, "what is counted");
  if (text.empty()) return Value::of(length_of(self) + 1);
  for (std::size_t at = self.text().find(text); at != std::string::npos;
       at = self.text().find(text, at + text.size()))
    ++found;
  return Value::of(found);
}

Value replace(const Value& self, const Arguments& arguments, Budget& budget) {
  const List bound = arguments.bind({"old", "new", "count"});
  const std::int64_t most =
      bound[2].is(Kind::undefined) ? -1 : whole_of(bound[2], "count");
  return Value::of(replaced(self.text(), text_of(bound[0], "what is replaced"),
                            text_of(bound[1], "what replaces it"), most, budget));
}

template <std::string (*change)(std::string_view)>
Value changed(const Value& self, const Arguments& arguments, Budget& budget) {
  arguments.bind({});
  return made(change(self.text()), budget);
}

Value join(const Value& self, const Arguments& arguments, Budget& budget) {
  std::string out;
  bool first = true;
  for (const Value& item : items_of(arguments.bind({"iterable"})[0], budget)) {
    if (!std::exchange(first, false)) out += self.text();
    budget.make(self.text().size());
    out += text_of(item, "what is joined");
  }
  return made(std::move(out), budget);
}

template <bool prefix>
Value without(const Value& self, const Arguments& arguments, Budget& budget) {
  const std::string& what = text_of(arguments.bind({"affix"})[0], "what is removed");
  std::string_view text = self.text();
  if (prefix && text.starts_with(what)) text.remove_prefix(what.size());
  if (!prefix && text.ends_with(what)) text.remove_suffix(what.size());
  return made(std::string(text), budget);
}

// Whether there are characters and all are of these categories.
template <text::Categories categories>
Value all_are(const Value& self, const Arguments& arguments, Budget& budget) {
  arguments.bind({});
  budget.make(self.text().size());
  const std::u32string codes = text::code_points(self.text());
  return Value::of(!codes.empty() &&
                   std::all_of(codes.begin(), codes.end(), [](char32_t code) {
                     return text::is_in(code, categories);
                   }));
}

template <bool from_right>
Value index_of(const Value& self, const Arguments& arguments, Budget& budget) {
  const Value found = find<from_right>(self, arguments, budget);
  if (found.whole() < 0) refuse("the text does not hold what its index() seeks");
  return found;
}

Value same(const Value& self, const Arguments& arguments, Budget&) {
  arguments.bind({});
  return self;
}

Value all_space(const Value& self, const Arguments& arguments, Budget&) {
  arguments.bind({});
  return Value::of(!self.text().empty() && strip_left(self.text()).empty());
}

// Some letters have a case, and all that do have this one.
template <text::Category wanted, text::Category other>
Value has_case(const Value& self, const Arguments& arguments, Budget& budget) {
  arguments.bind({});
  budget.make(self.text().size());
  bool some = false;
  for (const char32_t code : text::code_points(self.text())) {
    if (text::is_in(code, bit(other) | bit(text::Category::Lt))) return Value::of(false);
    some = some || text::is_in(code, bit(wanted));
  }
  return Value::of(some);
}

Value entries(const Value& self, const Arguments& arguments, Budget& budget) {
  arguments.bind({});
  budget.elements(self.entries().size());
  List pairs;
  for (const auto& entry : self.entries())
    pairs.push_back(Value::tuple({Value::of(entry.first), entry.second}));
  return Value::view(std::move(pairs));
}

Value keys(const Value& self, const Arguments& arguments, Budget& budget) {
  arguments.bind({});
  return Value::view(items_of(self, budget));
}

Value values(const Value& self, const Arguments& arguments, Budget& budget) {
  arguments.bind({});
  budget.elements(self.entries().size());
  List all;
  for (const auto& entry : self.entries()) all.push_back(entry.second);
  return Value::view(std::move(all));
}

Value get(const Value& self, const Arguments& arguments, Budget&) {
  const List bound = arguments.bind({"key", "default"});
  const Value* found = bound[0].is(Kind::text) ? self.find(bound[0].text()) : nullptr;
  if (found != nullptr) return *found;
  return bound[1].is(Kind::undefined) ? Value::none() : bound[1];
}

Value index(const Value& self, const Arguments& arguments, Budget& budget) {
  const Value what = arguments.bind({"value"})[0];
  budget.elements(self.items().size());
  for (std::size_t i = 0; i < self.items().size(); ++i)
    if (equal(self.items()[i], what)) return Value::of(static_cast<std::int64_t>(i));
  refuse("the list does not hold what its index() seeks");
}

constexpr text::Categories letters_and_numbers = text::letters | text::numbers;

const Methods& text_methods() {
  static const Methods methods = {
      {"strip", strip<Side::both>},
      {"lstrip", strip<Side::left>},
      {"rstrip", strip<Side::right>},
      {"startswith", has_end<true>},
      {"endswith", has_end<false>},
      {"split", split<false>},
      {"rsplit", split<true>},
      {"splitlines", split_lines},
      {"find", find<false>},
      {"rfind", find<true>},
      {"count", count},
      {"replace", replace},
      {"upper", changed<upper_case>},
      {"lower", changed<lower_case>},
      {"capitalize", changed<capital_case>},
      {"title", changed<title_case>},
      {"join", join},
      {"removeprefix", without<true>},
      {"removesuffix", without<false>},
      {"isalpha", all_are<text::letters>},
      {"isalnum", all_are<letters_and_numbers>},
      {"isdecimal", all_are<bit(text::Category::Nd)>},
      {"index", index_of<false>},
      {"rindex", index_of<true>},
      {"isspace", all_space},
      {"isupper", has_case<text::Category::Lu, text::Category::Ll>},
      {"islower", has_case<text::Category::Ll, text::Category::Lu>},
  };
  return methods;
}

const Methods& mapping_methods() {
  static const Methods methods = {{"items", entries},
                                  {"keys", keys},
                                  {"values", values},
                                  {"get", get},
                                  {"copy", same}};
  return methods;
}

const Methods& sequence_methods() {
  static const Methods methods = {{"index", index}, {"count", count}, {"copy", same}};
  return methods;
}

}  // namespace

Method method_of(const Value& value, const std::string& name) {
  const auto find_in = [&](const Methods& methods) -> Method {
    const auto found = methods.find(name);
    return found == methods.end() ? nullptr : found->second;
  };
  if (value.is(Kind::text)) {
    const Method usual = find_in(text_methods());
    return usual != nullptr ? usual : find_in(padding_methods());
  }
  if (value.is(Kind::mapping)) return find_in(mapping_methods());
  if (value.is(Kind::sequence)) return find_in(sequence_methods());
  return nullptr;
}

}  // namespace trireme::data::jinja
