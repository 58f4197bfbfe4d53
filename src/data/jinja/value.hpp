// Value: what an expression of a chat template gives, with Python's rules for it.
// SPDX-License-Identifier: Apache-2.0
// Lists and dictionaries cannot be changed once they were made, as in the sandbox in
// which transformers renders templates; only namespaces can.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "data/jinja/budget.hpp"
#include "io/json.hpp"

namespace trireme::data::jinja {

class Value;
using List = std::vector<Value>;
using Dict = std::vector<std::pair<std::string, Value>>;  // in the order of insertion
using OrderedJson = nlohmann::ordered_json;

// The order is that of Value's alternatives.
enum class Kind : std::uint8_t {
  undefined,
  none,
  boolean,
  integer,
  real,
  text,
  sequence,
  mapping,
  object
};

struct Arguments;

// A namespace, a loop or something that is called.
class Object {
 public:
  virtual ~Object() = default;
  virtual Value attribute(const std::string& name) const = 0;
  // Null for what cannot be set.
  virtual Value* settable(const std::string& /*name*/) { return nullptr; }
  virtual bool callable() const { return false; }
  virtual Value call(Budget& budget, const Arguments& arguments) = 0;
};

class Value {
 public:
  struct None {};
  struct Sequence;
  struct Mapping;

  Value() = default;  // undefined
  static Value none() { return Value(Data(None{})); }
  // Undefined, with what was asked for, for messages.
  static Value undefined(std::string name);
  static Value of(bool value) { return Value(Data(value)); }
  static Value of(std::int64_t value) { return Value(Data(value)); }
  static Value of(double value) { return Value(Data(value)); }
  static Value of(std::string text);
  static Value of(const char* text) = delete;  // it would be a boolean
  static Value of(std::shared_ptr<Object> object) {
    return Value(Data(std::move(object)));
  }
  // Each throws Error(bad_content) for values that are nested too deeply.
  static Value list(List items) { return sequence(std::move(items), false); }
  static Value tuple(List items) { return sequence(std::move(items), true); }
  static Value sequence(List items, bool tuple);
  // What is gone through, but not printed: keys, chosen elements, a range.
  static Value view(List items);
  static Value dict(Dict items);
  static Value of(const OrderedJson& json, int depth = 0);

  Kind kind() const { return static_cast<Kind>(data_.index()); }
  bool is(Kind kind) const { return this->kind() == kind; }
  bool is_number() const;  // true and false are numbers, as in Python
  bool is_tuple() const;
  bool is_view() const;
  // Each only of its kind; whole() and number() of booleans, too.
  bool boolean() const { return std::get<bool>(data_); }
  std::int64_t whole() const;
  double number() const;
  const std::string& text() const;
  const List& items() const;
  const Dict& entries() const;
  const std::shared_ptr<Object>& object() const {
    return std::get<std::shared_ptr<Object>>(data_);
  }
  const Value* find(std::string_view key) const;  // of a dictionary; null: not there
  // What is undefined, for messages.
  std::string missing_name() const;
  int depth() const;  // of nested lists and dictionaries
  // About how many steps it takes to go through all of it. What one list holds twice
  // counts twice: it is bounded when a list is made.
  std::size_t weight() const;

 private:
  using Data =
      std::variant<std::shared_ptr<const std::string>, None, bool, std::int64_t, double,
                   std::shared_ptr<std::string>, std::shared_ptr<const Sequence>,
                   std::shared_ptr<const Mapping>, std::shared_ptr<Object>>;
  explicit Value(Data data) : data_(std::move(data)) {}

  Data data_;
};

struct Value::Sequence {
  List items;
  bool tuple = false;
  bool view = false;
  int depth = 1;
  std::size_t weight = 1;
};
struct Value::Mapping {
  Dict items;
  int depth = 1;
  std::size_t weight = 1;
};

// Of a call.
struct Arguments {
  List positional;
  Dict named;
  // One value for each name, undefined where it is not given. Throws Error(bad_content)
  // for others.
  List bind(std::initializer_list<const char*> names) const;
};

// Throws Error(bad_content): the template or what it is given is wrong.
[[noreturn]] void refuse(const std::string& what);

std::string type_name(const Value& value);  // Python's, for messages
bool truth(const Value& value);
bool equal(const Value& a, const Value& b);
// Below 0, 0, above 0. Throws for kinds that have no order.
int compare(const Value& a, const Value& b);
bool contains(const Value& all, const Value& one);
std::int64_t length_of(const Value& value);
// What a loop goes through. Throws for what is not iterable.
List items_of(const Value& value, Budget& budget);
// str() and repr() of Python.
std::string to_text(const Value& value, Budget& budget);
std::string to_repr(const Value& value, Budget& budget);

struct JsonStyle {
  bool ascii = false, sorted = false;
  std::string indent = {};  // of a level; used if lines
  bool lines = false;
  std::string item_separator = ", ", key_separator = ": ";
};
// json.dumps() of Python.
std::string to_json(const Value& value, const JsonStyle& style, Budget& budget);

// A Python index as an offset from the start: a negative one counts from the end. The
// result may lie outside [0, length); the caller checks.
std::int64_t offset_of_index(std::int64_t index, std::int64_t length);

}  // namespace trireme::data::jinja
