// Tests of templates (x is string), and how values are asked for their parts.
// SPDX-License-Identifier: Apache-2.0
#include <map>

#include "base/number.hpp"
#include "data/jinja/filters.hpp"

namespace trireme::data::jinja {
namespace {

using Test = bool (*)(const Value& value, const Value& argument);

template <Kind kind>
bool is_kind(const Value& value, const Value&) {
  return value.is(kind);
}

bool is_even(const Value& value, const Value&) {
  return whole_of(value, "the value of 'even' or 'odd'") % 2 == 0;
}

bool is_divisible(const Value& value, const Value& by) {
  const std::int64_t divisor = whole_of(by, "the divisor");
  if (divisor == 0) refuse("a number is divided by 0");
  if (divisor == -1) return true;
  return whole_of(value, "what is divided") % divisor == 0;
}

bool is_iterable(const Value& value, const Value&) {
  return value.is(Kind::undefined) || value.is(Kind::text) || value.is(Kind::sequence) ||
         value.is(Kind::mapping);
}

bool is_same(const Value& a, const Value& b) {
  if (a.kind() != b.kind()) return false;
  if (a.is(Kind::sequence)) return &a.items() == &b.items();
  if (a.is(Kind::mapping)) return &a.entries() == &b.entries();
  return equal(a, b);
}

struct TestRow {
  Test test;
  bool takes_argument = false;
};

const std::map<std::string_view, TestRow>& tests() {
  using V = const Value&;
  static const std::map<std::string_view, TestRow> all = {
      {"defined", {[](V v, V) { return !v.is(Kind::undefined); }}},
      {"undefined", {is_kind<Kind::undefined>}},
      {"none", {is_kind<Kind::none>}},
      {"string", {is_kind<Kind::text>}},
      {"mapping", {is_kind<Kind::mapping>}},
      {"boolean", {is_kind<Kind::boolean>}},
      {"integer", {is_kind<Kind::integer>}},
      {"float", {is_kind<Kind::real>}},
      {"number", {[](V v, V) { return v.is_number(); }}},
      {"true", {[](V v, V) { return v.is(Kind::boolean) && v.boolean(); }}},
      {"false", {[](V v, V) { return v.is(Kind::boolean) && !v.boolean(); }}},
      {"iterable", {is_iterable}},
      {"sequence", {is_iterable}},  // what has a length and elements; undefined has them
      {"callable", {[](V v, V) { return v.is(Kind::object) && v.object()->callable(); }}},
      {"even", {is_even}},
      {"odd", {[](V v, V) { return !is_even(v, v); }}},
      {"lower", {[](V v, V) { return lower_case(text_of(v, "a text")) == v.text(); }}},
      {"upper", {[](V v, V) { return upper_case(text_of(v, "a text")) == v.text(); }}},
      {"divisibleby", {is_divisible, true}},
      {"sameas", {is_same, true}},
      {"in", {[](V v, V all_values) { return contains(all_values, v); }, true}},
      {"equalto", {equal, true}},
      {"eq", {equal, true}},
      {"ne", {[](V a, V b) { return !equal(a, b); }, true}},
      {"lt", {[](V a, V b) { return compare(a, b) < 0; }, true}},
      {"lessthan", {[](V a, V b) { return compare(a, b) < 0; }, true}},
      {"le", {[](V a, V b) { return compare(a, b) <= 0; }, true}},
      {"gt", {[](V a, V b) { return compare(a, b) > 0; }, true}},
      {"greaterthan", {[](V a, V b) { return compare(a, b) > 0; }, true}},
      {"ge", {[](V a, V b) { return compare(a, b) >= 0; }, true}},
  };
  return all;
}

// A method as a value, which knows of what it is.
Value bound_method(const Value& value, Method method) {
  return function_of([=](Budget& budget, const Arguments& arguments) {
    budget.work(value.weight());
    return method(value, arguments, budget);
  });
}

}  // namespace

bool is_test(const std::string& name) { return tests().contains(name); }

bool apply_test(const std::string& name, const Value& value, const Arguments& arguments,
                Budget& budget) {
  budget.work(value.weight());
  for (const Value& argument : arguments.positional) budget.work(argument.weight());
  const TestRow& row = tests().at(name);
  if (!arguments.named.empty() ||
      arguments.positional.size() != (row.takes_argument ? 1 : 0))
    refuse(format("the test '{}' takes {}", name,
                  row.takes_argument ? "one argument" : "no arguments"));
  return row.test(value, row.takes_argument ? arguments.positional[0] : value);
}

Value attribute_of(const Value& value, const std::string& name, Budget& budget) {
  budget.step();
  if (value.is(Kind::undefined)) refuse("'" + value.missing_name() + "' is undefined");
  if (value.is(Kind::object)) return value.object()->attribute(name);
  if (const Method method = method_of(value, name)) return bound_method(value, method);
  if (value.is_tuple() && value.items().size() == 2) {  // a group of 'groupby'
    if (name == "grouper") return value.items()[0];
    if (name == "list") return value.items()[1];
  }
  const Value* found = value.is(Kind::mapping) ? value.find(name) : nullptr;
  return found != nullptr ? *found : Value::undefined(name);
}

Value item_of(const Value& value, const Value& key, Budget& budget) {
  budget.step();
  if (value.is(Kind::undefined)) refuse("'" + value.missing_name() + "' is undefined");
  const bool numbered = key.is(Kind::integer) || key.is(Kind::boolean);
  if (value.is(Kind::sequence) && numbered) {
    const std::int64_t size = std::ssize(value.items());
    const std::int64_t at = offset_of_index(key.whole(), size);
    if (at < 0 || at >= size) return Value::undefined("an element beyond the list");
    return value.items()[static_cast<std::size_t>(at)];
  }
  if (value.is(Kind::text) && numbered) {
    const List characters = items_of(value, budget);
    const std::int64_t at = offset_of_index(key.whole(), std::ssize(characters));
    if (at < 0 || at >= std::ssize(characters))
      return Value::undefined("a character beyond the text");
    return characters[static_cast<std::size_t>(at)];
  }
  if (!key.is(Kind::text)) return Value::undefined("an element");
  const Value* found = value.is(Kind::mapping) ? value.find(key.text()) : nullptr;
  return found != nullptr ? *found : attribute_of(value, key.text(), budget);
}

Value attribute_by_path(const Value& value, const Value& path, Budget& budget) {
  if (!path.is(Kind::text)) return item_of(value, path, budget);
  Value at = value;
  const std::string& names = path.text();
  for (std::size_t begin = 0; begin <= names.size();) {
    const std::size_t end = std::min(names.find('.', begin), names.size());
    const std::string name = names.substr(begin, end - begin);
    const auto number = parse_number<std::int64_t>(name);
    const bool numbered = number.has_value() && *number >= 0;
    at = item_of(at, numbered ? Value::of(*number) : Value::of(name), budget);
    begin = end + 1;
  }
  return at;
}

}  // namespace trireme::data::jinja
