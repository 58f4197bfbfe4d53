// Filters of templates: Jinja's, with tojson as transformers has it.
// SPDX-License-Identifier: Apache-2.0
#include "data/jinja/filters.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/number.hpp"
#include "data/jinja/lexer.hpp"
#include "text/utf8.hpp"

namespace trireme::data::jinja {
namespace {

Value trim(const Value& value, const Arguments& arguments, Budget& budget) {
  const Value characters = arguments.bind({"chars"})[0];
  return made(stripped(to_text(value, budget), characters, Side::both), budget);
}

template <std::string (*change)(std::string_view)>
Value changed(const Value& value, const Arguments& arguments, Budget& budget) {
  arguments.bind({});
  return made(change(to_text(value, budget)), budget);
}

// Words begin behind white space and opening brackets, otherwise than str.title().
Value title(const Value& value, const Arguments& arguments, Budget& budget) {
  arguments.bind({});
  const std::string all = to_text(value, budget);
  std::string out, word;
  const auto flush = [&] {
    out += capital_case(word);
    word.clear();
  };
  for (std::size_t at = 0; at < all.size();) {
    const text::CodePoint code = text::code_point_at(all, at);
    const std::string character = all.substr(at, code.bytes);
    const bool between = is_python_space(code.value) ||
                         (code.value < 0x80 && std::string_view("-({[<").find(
                                                   character) != std::string_view::npos);
    if (between) flush();
    (between ? out : word) += character;
    at += code.bytes;
  }
  flush();
  return made(std::move(out), budget);
}

Value text(const Value& value, const Arguments& arguments, Budget& budget) {
  arguments.bind({});
  return Value::of(to_text(value, budget));
}

Value same(const Value& value, const Arguments& arguments, Budget&) {
  arguments.bind({});
  return value;
}

Value length(const Value& value, const Arguments& arguments, Budget&) {
  arguments.bind({});
  return Value::of(length_of(value));
}

Value fallback(const Value& value, const Arguments& arguments, Budget&) {
  const List bound = arguments.bind({"default_value", "boolean"});
  const bool missing = !given(value) || (truth(bound[1]) && !truth(value));
  if (!missing) return value;
  return given(bound[0]) || !arguments.positional.empty() ? bound[0]
                                                          : Value::of(std::string());
}

Value json(const Value& value, const Arguments& arguments, Budget& budget) {
  const List bound =
      arguments.bind({"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  style.ascii = truth(bound[0]);
  style.sorted = truth(bound[3]);
  const Value& indent = bound[1];
  if (given(indent) && !indent.is(Kind::none)) {
    style.lines = true;
    style.item_separator = ",";
    if (indent.is(Kind::text))
      style.indent = indent.text();
    else
      style.indent.assign(static_cast<std::size_t>(std::clamp<std::int64_t>(
                              whole_of(indent, "indent"), 0, 1000)),
                          ' ');
  }
  const Value& separators = bound[2];
  if (given(separators) && !separators.is(Kind::none)) {
    if (!separators.is(Kind::sequence) || separators.items().size() != 2)
      refuse("separators must be two texts");
    style.item_separator = text_of(separators.items()[0], "a separator");
    style.key_separator = text_of(separators.items()[1], "a separator");
  }
  return Value::of(to_json(value, style, budget));
}

Value list(const Value& value, const Arguments& arguments, Budget& budget) {
  arguments.bind({});
  return Value::list(items_of(value, budget));
}

Value entries(const Value& value, const Arguments& arguments, Budget& budget) {
  arguments.bind({});
  if (!given(value)) return Value::view({});
  if (!value.is(Kind::mapping)) refuse("'items' takes a dict, not " + type_name(value));
  return method_of(value, "items")(value, {}, budget);
}

template <bool last>
Value end(const Value& value, const Arguments& arguments, Budget& budget) {
  arguments.bind({});
  const List items = items_of(value, budget);
  if (items.empty())
    return Value::undefined(last ? "the last of nothing" : "the first of nothing");
  return last ? items.back() : items.front();
}

Value reverse(const Value& value, const Arguments& arguments, Budget& budget) {
  arguments.bind({});
  const List forward = items_of(value, budget);
  List items(forward.rbegin(), forward.rend());
  if (!value.is(Kind::text)) return Value::view(std::move(items));
  std::string out;
  for (const Value& item : items) out += item.text();
  return made(std::move(out), budget);
}

Value join(const Value& value, const Arguments& arguments, Budget& budget) {
  const List bound = arguments.bind({"d", "attribute"});
  const std::string between = to_text(bound[0], budget);
  std::string out;
  bool first = true;
  for (const Value& item : items_of(value, budget)) {
    if (!std::exchange(first, false)) {
      budget.make(between.size());
      out += between;
    }
    out += to_text(given(bound[1]) ? attribute_by_path(item, bound[1], budget) : item,
                   budget);
  }
  return made(std::move(out), budget);
}

Value replace(const Value& value, const Arguments& arguments, Budget& budget) {
  const List bound = arguments.bind({"old", "new", "count"});
  const bool all = !given(bound[2]) || bound[2].is(Kind::none);
  return Value::of(replaced(to_text(value, budget), text_of(bound[0], "what is replaced"),
                            text_of(bound[1], "what replaces it"),
                            all ? -1 : whole_of(bound[2], "count"), budget));
}

Value indent(const Value& value, const Arguments& arguments, Budget& budget) {
  const List bound = arguments.bind({"width", "first", "blank"});
  std::string margin(4, ' ');
  if (bound[0].is(Kind::text))
    margin = bound[0].text();
  else if (given(bound[0]))
    margin.assign(static_cast<std::size_t>(
                      std::clamp<std::int64_t>(whole_of(bound[0], "width"), 0, 1000)),
                  ' ');
  const std::string whole = to_text(value, budget);
  const List lines = method_of(value.is(Kind::text) ? value : Value::of(whole),
                               "splitlines")(Value::of(whole + "\n"), {}, budget)
                         .items();
  std::string out;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string& line = lines[i].text();
    budget.make(margin.size() + line.size() + 1);
    if (i > 0) out += '\n';
    if (i == 0 ? truth(bound[1]) : truth(bound[2]) || !line.empty()) out += margin;
    out += line;
  }
  return Value::of(std::move(out));
}

Value whole(const Value& value, const Arguments& arguments, Budget&) {
  const List bound = arguments.bind({"default", "base"});
  if (given(bound[1])) refuse("a base of 'int' is not supported");
  if (value.is(Kind::boolean) || value.is(Kind::integer)) return Value::of(value.whole());
  std::optional<double> number;
  if (value.is(Kind::real)) {
    number = value.number();
  } else if (value.is(Kind::text)) {
    const std::string digits = stripped(value.text(), {}, Side::both);
    if (const auto exact = parse_number<std::int64_t>(digits)) return Value::of(*exact);
    number = parse_number<double>(digits);
  }
  if (number && std::abs(*number) < 0x1p63)
    return Value::of(static_cast<std::int64_t>(*number));
  return given(bound[0]) ? bound[0] : Value::of(std::int64_t{0});
}

Value real(const Value& value, const Arguments& arguments, Budget&) {
  const Value otherwise = arguments.bind({"default"})[0];
  if (value.is_number()) return Value::of(value.number());
  if (value.is(Kind::text))
    if (const auto number = parse_number<double>(stripped(value.text(), {}, Side::both)))
      return Value::of(*number);
  return given(otherwise) ? otherwise : Value::of(0.0);
}

Value absolute(const Value& value, const Arguments& arguments, Budget&) {
  arguments.bind({});
  if (value.is(Kind::real)) return Value::of(std::abs(value.number()));
  const std::int64_t number = whole_of(value, "the value of abs");
  if (number == INT64_MIN) refuse("a number is too large");
  return Value::of(std::abs(number));
}

Value round(const Value& value, const Arguments& arguments, Budget&) {
  const List bound = arguments.bind({"precision", "method"});
  if (given(bound[0]) && whole_of(bound[0], "precision") != 0)
    refuse("'round' to digits behind the point is not supported");
  if (!value.is_number()) refuse("'round' takes a number, not " + type_name(value));
  const std::string how = bound[1].is(Kind::text) ? bound[1].text() : "common";
  const double number = value.number();
  if (how == "ceil") return Value::of(std::ceil(number));
  if (how == "floor") return Value::of(std::floor(number));
  return Value::of(std::nearbyint(number));  // to even, as Python
}

Value attribute(const Value& value, const Arguments& arguments, Budget& budget) {
  const Value name = arguments.bind({"name"})[0];
  if (value.is(Kind::object))
    return value.object()->attribute(text_of(name, "an attribute"));
  budget.step();
  return Value::undefined(text_of(name, "an attribute"));  // not of a dictionary
}

const Filters& filters() {
  static const Filters all = {
      {"trim", trim},
      {"tojson", json},
      {"length", length},
      {"count", length},
      {"default", fallback},
      {"d", fallback},
      {"items", entries},
      {"list", list},
      {"first", end<false>},
      {"last", end<true>},
      {"reverse", reverse},
      {"join", join},
      {"replace", replace},
      {"indent", indent},
      {"string", text},
      {"safe", same},
      {"upper", changed<upper_case>},
      {"lower", changed<lower_case>},
      {"capitalize", changed<capital_case>},
      {"title", title},
      {"int", whole},
      {"float", real},
      {"abs", absolute},
      {"round", round},
      {"attr", attribute},
  };
  return all;
}

Filter filter_named(const std::string& name) {
  for (const Filters* all : {&filters(), &list_filters(), &layout_filters()})
    if (const auto found = all->find(name); found != all->end()) return found->second;
  return nullptr;
}

}  // namespace

bool is_filter(const std::string& name) { return filter_named(name) != nullptr; }

Value apply_filter(const std::string& name, const Value& value,
                   const Arguments& arguments, Budget& budget) {
  budget.work(value.weight());
  return filter_named(name)(value, arguments, budget);
}

}  // namespace trireme::data::jinja
