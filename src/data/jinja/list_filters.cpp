// Filters of templates that order, choose or add up the elements of a list: Jinja's.
// SPDX-License-Identifier: Apache-2.0
#include "data/jinja/filters.hpp"

namespace trireme::data::jinja {
namespace {

Value lowered(const std::string& text, Budget& budget) {
  budget.make(text.size());
  return Value::of(lower_case(text));
}

// What elements are ordered by: as text without regard to capitals, unless they count.
Value order_key(const Value& item, const Value& attribute, bool exact, Budget& budget) {
  Value key = given(attribute) ? attribute_by_path(item, attribute, budget) : item;
  return key.is(Kind::text) && !exact ? lowered(key.text(), budget) : key;
}

List sorted(List items, const Value& attribute, bool exact, bool backwards,
            Budget& budget) {
  std::vector<std::pair<Value, Value>> keyed;
  for (Value& item : items) {
    Value key = order_key(item, attribute, exact, budget);
    keyed.emplace_back(std::move(key), std::move(item));
  }
  budget.elements(keyed.size());
  // A comparison may throw, which leaves the elements in some order.
  std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& a, const auto& b) {
    budget.work(a.first.weight());
    return backwards ? compare(b.first, a.first) < 0 : compare(a.first, b.first) < 0;
  });
  for (std::size_t i = 0; i < items.size(); ++i) items[i] = std::move(keyed[i].second);
  return items;
}

Value sort(const Value& value, const Arguments& arguments, Budget& budget) {
  const List bound = arguments.bind({"reverse", "case_sensitive", "attribute"});
  return Value::list(sorted(items_of(value, budget), bound[2], truth(bound[1]),
                            truth(bound[0]), budget));
}

Value sorted_entries(const Value& value, const Arguments& arguments, Budget& budget) {
  const List bound = arguments.bind({"case_sensitive", "by", "reverse"});
  const bool by_value = bound[1].is(Kind::text) && bound[1].text() == "value";
  return Value::list(sorted(apply_filter("items", value, {}, budget).items(),
                            Value::of(std::int64_t{by_value}), truth(bound[0]),
                            truth(bound[2]), budget));
}

template <bool most>
Value extreme(const Value& value, const Arguments& arguments, Budget& budget) {
  const List bound = arguments.bind({"case_sensitive", "attribute"});
  const List items = items_of(value, budget);
  if (items.empty()) return Value::undefined("the extreme of nothing");
  std::size_t at = 0;
  Value best = order_key(items[0], bound[1], truth(bound[0]), budget);
  for (std::size_t i = 1; i < items.size(); ++i) {
    Value key = order_key(items[i], bound[1], truth(bound[0]), budget);
    const int order = compare(key, best);
    if (most ? order <= 0 : order >= 0) continue;
    best = std::move(key);
    at = i;
  }
  return items[at];
}

Value unique(const Value& value, const Arguments& arguments, Budget& budget) {
  const List bound = arguments.bind({"case_sensitive", "attribute"});
  List kept, keys;
  for (const Value& item : items_of(value, budget)) {
    Value key = order_key(item, bound[1], truth(bound[0]), budget);
    const Value known = Value::list(keys);
    budget.work(known.weight());
    if (contains(known, key)) continue;
    keys.push_back(std::move(key));
    kept.push_back(item);
  }
  return Value::view(std::move(kept));
}

Value sum(const Value& value, const Arguments& arguments, Budget& budget) {
  const List bound = arguments.bind({"attribute", "start"});
  std::int64_t exact = 0;
  double total = 0;
  bool is_exact = true;
  List items = items_of(value, budget);
  if (given(bound[0]) && !bound[0].is(Kind::none))
    for (Value& item : items) item = attribute_by_path(item, bound[0], budget);
  if (given(bound[1])) items.insert(items.begin(), bound[1]);
  for (const Value& item : items) {
    if (!item.is_number()) refuse("'sum' takes numbers, not " + type_name(item));
    total += item.number();
    is_exact = is_exact && !item.is(Kind::real);
    if (is_exact && __builtin_add_overflow(exact, item.whole(), &exact))
      refuse("a sum is too large");
  }
  return is_exact ? Value::of(exact) : Value::of(total);
}

// The arguments behind the first `count`.
Arguments behind(const Arguments& arguments, std::size_t count) {
  Arguments rest = arguments;
  rest.positional.erase(rest.positional.begin(),
                        rest.positional.begin() + static_cast<std::ptrdiff_t>(count));
  return rest;
}

Value map(const Value& value, const Arguments& arguments, Budget& budget) {
  List out;
  if (arguments.positional.empty()) {
    const List bound = arguments.bind({"attribute", "default"});
    if (!given(bound[0])) refuse("'map' needs a filter or an attribute");
    for (const Value& item : items_of(value, budget)) {
      Value found = attribute_by_path(item, bound[0], budget);
      out.push_back(given(found) ? std::move(found) : bound[1]);
    }
    return Value::view(std::move(out));
  }
  const std::string& name = text_of(arguments.positional[0], "the filter of 'map'");
  if (!is_filter(name)) refuse("there is no filter '" + name + "'");
  const Arguments rest = behind(arguments, 1);
  const Budget::Level level(budget);  // map("map", "map", ...)
  for (const Value& item : items_of(value, budget))
    out.push_back(apply_filter(name, item, rest, budget));
  return Value::view(std::move(out));
}

// Elements, or those whose attribute, pass a test; without one, those that are true.
template <bool keep, bool by_attribute>
Value select(const Value& value, const Arguments& arguments, Budget& budget) {
  const std::size_t first = by_attribute ? 1 : 0;
  if (arguments.positional.size() < first) refuse("an attribute is missing");
  const bool tested = arguments.positional.size() > first;
  std::string name;
  if (tested) {
    name = text_of(arguments.positional[first], "a test");
    if (!is_test(name)) refuse("there is no test '" + name + "'");
  }
  const Arguments rest = behind(arguments, first + (tested ? 1 : 0));
  List out;
  for (const Value& item : items_of(value, budget)) {
    const Value what =
        by_attribute ? attribute_by_path(item, arguments.positional[0], budget) : item;
    const bool passes = tested ? apply_test(name, what, rest, budget) : truth(what);
    if (passes == keep) out.push_back(item);
  }
  return Value::view(std::move(out));
}

}  // namespace

const Filters& list_filters() {
  static const Filters all = {
      {"sort", sort},
      {"dictsort", sorted_entries},
      {"min", extreme<false>},
      {"max", extreme<true>},
      {"unique", unique},
      {"sum", sum},
      {"map", map},
      {"select", select<true, false>},
      {"reject", select<false, false>},
      {"selectattr", select<true, true>},
      {"rejectattr", select<false, true>},
  };
  return all;
}

}  // namespace trireme::data::jinja
