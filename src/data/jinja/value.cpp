// Values of templates: made, compared and gone through as Python does it.
// SPDX-License-Identifier: Apache-2.0
#include "data/jinja/value.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "text/utf8.hpp"

namespace trireme::data::jinja {
namespace {

constexpr int most_depth = 100;
constexpr std::size_t most_weight = 20'000'000;

int deeper(int depth) {
  if (depth >= most_depth)
    refuse(format("lists and dictionaries are nested more than {} deep", most_depth));
  return depth + 1;
}

void add_weight(std::size_t& sum, const Value& value) {
  sum += 1 + value.weight();
  if (sum > most_weight) refuse("a list or dictionary grows too large");
}

}  // namespace

void refuse(const std::string& what) { throw Error(Status::bad_content, one_line(what)); }

Value Value::undefined(std::string name) {
  return Value(Data(std::make_shared<const std::string>(std::move(name))));
}

Value Value::of(std::string text) {
  return Value(Data(std::make_shared<std::string>(std::move(text))));
}

Value Value::sequence(List items, bool tuple) {
  Sequence sequence{std::move(items), tuple, false, 0, 0};
  for (const Value& item : sequence.items) {
    sequence.depth = std::max(sequence.depth, item.depth());
    add_weight(sequence.weight, item);
  }
  sequence.depth = deeper(sequence.depth);
  return Value(Data(std::make_shared<const Sequence>(std::move(sequence))));
}

Value Value::dict(Dict items) {
  Mapping mapping{std::move(items), 0, 0};
  for (const auto& entry : mapping.items) {
    mapping.depth = std::max(mapping.depth, entry.second.depth());
    add_weight(mapping.weight, entry.second);
  }
  mapping.depth = deeper(mapping.depth);
  return Value(Data(std::make_shared<const Mapping>(std::move(mapping))));
}

Value Value::of(const OrderedJson& json, int depth) {
  if (json.is_null()) return none();
  if (json.is_boolean()) return of(json.get<bool>());
  if (json.is_number_unsigned() && json.get<std::uint64_t>() > INT64_MAX)
    refuse("the number " + json.dump() + " is too large");
  if (json.is_number_integer()) return of(json.get<std::int64_t>());
  if (json.is_number()) return of(json.get<double>());
  if (json.is_string()) return of(json.get<std::string>());
  depth = deeper(depth);
  if (json.is_array()) {
    List items;
    for (const OrderedJson& item : json) items.push_back(of(item, depth));
    return list(std::move(items));
  }
  Dict entries;
  for (auto entry = json.begin(); entry != json.end(); ++entry)
    entries.emplace_back(entry.key(), of(entry.value(), depth));
  return dict(std::move(entries));
}

bool Value::is_number() const {
  return is(Kind::boolean) || is(Kind::integer) || is(Kind::real);
}

Value Value::view(List items) {
  Value made = list(std::move(items));
  Sequence sequence = *std::get<std::shared_ptr<const Sequence>>(made.data_);
  sequence.view = true;
  return Value(Data(std::make_shared<const Sequence>(std::move(sequence))));
}

bool Value::is_view() const {
  return is(Kind::sequence) && std::get<std::shared_ptr<const Sequence>>(data_)->view;
}

bool Value::is_tuple() const {
  return is(Kind::sequence) && std::get<std::shared_ptr<const Sequence>>(data_)->tuple;
}

std::int64_t Value::whole() const {
  return is(Kind::boolean) ? std::int64_t{boolean()} : std::get<std::int64_t>(data_);
}

double Value::number() const {
  return is(Kind::real) ? std::get<double>(data_) : static_cast<double>(whole());
}

const std::string& Value::text() const {
  return *std::get<std::shared_ptr<std::string>>(data_);
}

const List& Value::items() const {
  return std::get<std::shared_ptr<const Sequence>>(data_)->items;
}

const Dict& Value::entries() const {
  return std::get<std::shared_ptr<const Mapping>>(data_)->items;
}

const Value* Value::find(std::string_view key) const {
  for (const auto& entry : entries())
    if (entry.first == key) return &entry.second;
  return nullptr;
}

std::string Value::missing_name() const {
  const auto& name = std::get<std::shared_ptr<const std::string>>(data_);
  return name == nullptr ? "a value" : *name;
}

int Value::depth() const {
  if (is(Kind::sequence)) return std::get<std::shared_ptr<const Sequence>>(data_)->depth;
  if (is(Kind::mapping)) return std::get<std::shared_ptr<const Mapping>>(data_)->depth;
  return 0;
}

std::size_t Value::weight() const {
  switch (kind()) {
    case Kind::text: return text().size() / 64;
    case Kind::sequence: return std::get<std::shared_ptr<const Sequence>>(data_)->weight;
    case Kind::mapping: return std::get<std::shared_ptr<const Mapping>>(data_)->weight;
    default: return 0;
  }
}

List Arguments::bind(std::initializer_list<const char*> names) const {
  if (positional.size() > names.size())
    refuse(format("takes at most {} arguments, {} were given", names.size(),
                  positional.size()));
  List bound = positional;
  bound.resize(names.size());
  for (const auto& entry : named) {
    const auto found = std::find(names.begin(), names.end(), entry.first);
    if (found == names.end()) refuse("has no argument named '" + entry.first + "'");
    const auto at = static_cast<std::size_t>(found - names.begin());
    if (at < positional.size())
      refuse("got two values for the argument '" + entry.first + "'");
    bound[at] = entry.second;
  }
  return bound;
}

std::string type_name(const Value& value) {
  switch (value.kind()) {
    case Kind::undefined: return "Undefined";
    case Kind::none: return "NoneType";
    case Kind::boolean: return "bool";
    case Kind::integer: return "int";
    case Kind::real: return "float";
    case Kind::text: return "str";
    case Kind::sequence: return value.is_tuple() ? "tuple" : "list";
    case Kind::mapping: return "dict";
    case Kind::object: return "object";
  }
  return "";
}

bool truth(const Value& value) {
  switch (value.kind()) {
    case Kind::undefined:
    case Kind::none: return false;
    case Kind::boolean: return value.boolean();
    case Kind::integer: return value.whole() != 0;
    case Kind::real: return value.number() != 0;
    case Kind::text: return !value.text().empty();
    case Kind::sequence: return !value.items().empty();
    case Kind::mapping: return !value.entries().empty();
    case Kind::object: return true;
  }
  return false;
}

bool equal(const Value& a, const Value& b) {
  if (a.is_number() && b.is_number())
    return a.is(Kind::real) || b.is(Kind::real) ? a.number() == b.number()
                                                : a.whole() == b.whole();
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::text: return a.text() == b.text();
    case Kind::sequence:
      return a.is_tuple() == b.is_tuple() &&
             std::equal(a.items().begin(), a.items().end(), b.items().begin(),
                        b.items().end(), equal);
    case Kind::mapping:
      if (a.entries().size() != b.entries().size()) return false;
      for (const auto& entry : a.entries()) {
        const Value* other = b.find(entry.first);
        if (other == nullptr || !equal(entry.second, *other)) return false;
      }
      return true;
    case Kind::object: return a.object() == b.object();
    default: return true;  // undefined or none
  }
}

int compare(const Value& a, const Value& b) {
  const auto sign = [](auto x, auto y) { return x < y ? -1 : y < x ? 1 : 0; };
  if (a.is_number() && b.is_number())
    return a.is(Kind::real) || b.is(Kind::real) ? sign(a.number(), b.number())
                                                : sign(a.whole(), b.whole());
  if (a.is(Kind::text) && b.is(Kind::text)) return sign(a.text(), b.text());
  if (a.is(Kind::sequence) && b.is(Kind::sequence) && a.is_tuple() == b.is_tuple()) {
    const std::size_t common = std::min(a.items().size(), b.items().size());
    for (std::size_t i = 0; i < common; ++i)
      if (!equal(a.items()[i], b.items()[i])) return compare(a.items()[i], b.items()[i]);
    return sign(a.items().size(), b.items().size());
  }
  if (a.is(Kind::undefined)) refuse("'" + a.missing_name() + "' is undefined");
  if (b.is(Kind::undefined)) refuse("'" + b.missing_name() + "' is undefined");
  refuse(type_name(a) + " and " + type_name(b) + " have no order");
}

bool contains(const Value& all, const Value& one) {
  switch (all.kind()) {
    case Kind::undefined: return false;
    case Kind::text:
      if (!one.is(Kind::text)) refuse(type_name(one) + " cannot be sought in a str");
      return all.text().find(one.text()) != std::string::npos;
    case Kind::sequence:
      return std::any_of(all.items().begin(), all.items().end(),
                         [&](const Value& item) { return equal(item, one); });
    case Kind::mapping: return one.is(Kind::text) && all.find(one.text()) != nullptr;
    default: refuse("nothing can be sought in " + type_name(all));
  }
}

std::int64_t length_of(const Value& value) {
  switch (value.kind()) {
    case Kind::undefined: return 0;
    case Kind::text:
      return std::count_if(value.text().begin(), value.text().end(),
                           [](char c) { return (c & 0xC0) != 0x80; });
    case Kind::sequence: return std::ssize(value.items());
    case Kind::mapping: return std::ssize(value.entries());
    default: refuse(type_name(value) + " has no length");
  }
}

List items_of(const Value& value, Budget& budget) {
  List items;
  switch (value.kind()) {
    case Kind::undefined: break;
    case Kind::text:
      budget.elements(value.text().size());
      for (std::size_t at = 0; at < value.text().size();) {
        const std::size_t bytes =
            text::length_at(static_cast<unsigned char>(value.text()[at]));
        items.push_back(Value::of(value.text().substr(at, bytes)));
        at += bytes;
      }
      break;
    case Kind::sequence:
      budget.elements(value.items().size());
      items = value.items();
      break;
    case Kind::mapping:
      budget.elements(value.entries().size());
      for (const auto& entry : value.entries()) items.push_back(Value::of(entry.first));
      break;
    default: refuse(type_name(value) + " cannot be gone through");
  }
  return items;
}

std::int64_t offset_of_index(std::int64_t index, std::int64_t length) {
  return index < 0 ? index + length : index;
}

}  // namespace trireme::data::jinja
