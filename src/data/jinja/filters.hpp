// Filters, tests and methods of templates by their names.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "data/jinja/value.hpp"

namespace trireme::data::jinja {

using Filter = Value (*)(const Value& value, const Arguments& arguments, Budget& budget);
using Filters = std::map<std::string_view, Filter>;
const Filters& list_filters();  // those that order, choose or add up elements

const Filters& layout_filters();  // those that lay out text and deal out elements

bool is_filter(const std::string& name);
bool is_test(const std::string& name);
// value | name(arguments), value is name(arguments). Names are known. Throw
// Error(bad_content) for what the filter or test cannot take.
Value apply_filter(const std::string& name, const Value& value,
                   const Arguments& arguments, Budget& budget);
bool apply_test(const std::string& name, const Value& value, const Arguments& arguments,
                Budget& budget);

// Of filters that take them as an argument: of a dictionary or an object, "a.b" and
// "a.0" as well.
Value attribute_by_path(const Value& value, const Value& path, Budget& budget);
// value[key], then value.key; undefined where neither is there.
Value item_of(const Value& value, const Value& key, Budget& budget);
// value.name, then value["name"].
Value attribute_of(const Value& value, const std::string& name, Budget& budget);

// Methods of texts, lists and dictionaries; null: there is none of that name.
using Method = Value (*)(const Value& self, const Arguments& arguments, Budget& budget);
using Methods = std::map<std::string_view, Method>;
const Methods& padding_methods();  // of texts: those that pad, partition or test
Method method_of(const Value& value, const std::string& name);

// Something that is called: a function, or a method of `self`.
using Function = std::function<Value(Budget&, const Arguments&)>;
Value function_of(Function function);

// What filters and methods share.
// The text as a value, counted against the budget.
Value made(std::string text, Budget& budget);
// Whether an argument was given.
inline bool given(const Value& value) { return !value.is(Kind::undefined); }
std::string upper_case(std::string_view text);
std::string lower_case(std::string_view text);
std::string capital_case(std::string_view text);
std::string title_case(std::string_view text);
std::string replaced(const std::string& text, const std::string& old,
                     const std::string& with, std::int64_t most, Budget& budget);
enum class Side : std::uint8_t { left, right, both };
// Without the characters at its ends that `characters` holds; undefined or none: white
// space.
std::string stripped(const std::string& text, const Value& characters, Side side);
// Python's form % values.
std::string percent_text(const std::string& form, const List& values, Budget& budget);
const std::string& text_of(const Value& value, const char* what);
std::int64_t whole_of(const Value& value, const char* what);

}  // namespace trireme::data::jinja
