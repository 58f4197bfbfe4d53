// The table of deck keys as a JSON Schema, for editors and tools.
// SPDX-License-Identifier: Apache-2.0
#include "io/deck_schema.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/text.hpp"
#include "io/deck_toml.hpp"
#include "io/deck_value.hpp"
#include "io/json.hpp"

namespace trireme::io {
namespace {

using Json = nlohmann::ordered_json;

Json number_json(double value) {
  constexpr double exact_integers = 9007199254740992.0;  // 2^53
  if (value == std::floor(value) && std::abs(value) < exact_integers)
    return static_cast<std::int64_t>(value);
  return value;
}

Json value_json(const TomlValue& value) {
  switch (value.kind) {
    case TomlValue::Kind::boolean: return value.flag;
    case TomlValue::Kind::integer: return value.whole;
    case TomlValue::Kind::real: return value.number;
    case TomlValue::Kind::list: {
      Json list = Json::array();
      for (const auto& item : value.items) list.push_back(value_json(item));
      return list;
    }
    default: return value.text;
  }
}

Json number_schema(const DeckKey& key, const char* type) {
  Json schema = {{"type", type}};
  if (std::isfinite(key.minimum))
    schema[key.minimum_excluded ? "exclusiveMinimum" : "minimum"] =
        number_json(key.minimum);
  if (std::isfinite(key.maximum))
    schema[key.maximum_excluded ? "exclusiveMaximum" : "maximum"] =
        number_json(key.maximum);
  return schema;
}

Json text_schema(const DeckKey& key) {
  Json schema = {{"type", "string"}};
  if (!key.choices.empty()) schema["enum"] = split_choices(key.choices);
  return schema;
}

// A plain number, or a text with a unit.
Json with_unit(const DeckKey& key, const char* type) {
  return {{"anyOf", {number_schema(key, type), {{"type", "string"}}}}};
}

Json list_of(Json items) { return {{"type", "array"}, {"items", std::move(items)}}; }

Json value_schema(const DeckKey& key) {
  switch (key.type) {
    case KeyType::boolean: return {{"type", "boolean"}};
    case KeyType::integer: return number_schema(key, "integer");
    case KeyType::real: return number_schema(key, "number");
    case KeyType::text: return text_schema(key);
    case KeyType::bytes: return with_unit(key, "integer");
    case KeyType::seconds: return with_unit(key, "number");
    case KeyType::integers: return list_of(number_schema(key, "integer"));
    case KeyType::reals: return list_of(number_schema(key, "number"));
    case KeyType::texts: return list_of(text_schema(key));
  }
  fail(Status::internal, "key type {}", static_cast<int>(key.type));
}

Json object_schema() {
  return {{"type", "object"},
          {"additionalProperties", false},
          {"properties", Json::object()}};
}

// The schema of a section: each part of "optimizer.schedule" is an object in the one
// before. A required key makes the sections on its way required.
Json& section_schema(Json& root, std::string_view section, bool required) {
  Json* at = &root;
  while (!section.empty()) {
    const auto dot = section.find('.');
    const std::string part(section.substr(0, dot));
    section = dot == std::string_view::npos ? "" : section.substr(dot + 1);
    auto& names = (*at)["required"];
    if (required && std::find(names.begin(), names.end(), part) == names.end())
      names.push_back(part);
    if (names.is_null()) at->erase("required");
    Json& properties = (*at)["properties"];
    if (!properties.contains(part)) properties[part] = object_schema();
    at = &properties[part];
  }
  return *at;
}

// A section whose key "from" says where the rest may come from needs that or the rest.
void allow_from(Json& section) {
  if (!section["properties"].contains("from") || !section.contains("required")) return;
  Json from, rest;
  from["required"] = Json::array({"from"});
  rest["required"] = section["required"];
  section["anyOf"] = Json::array({from, rest});
  section.erase("required");
}

// What a section and those within it require, taken out of them.
Json take_required(Json& section) {
  Json taken = Json::object();
  for (const char* rule : {"required", "anyOf"}) {
    if (!section.contains(rule)) continue;
    taken[rule] = std::move(section[rule]);
    section.erase(rule);
  }
  for (auto& [name, property] : section["properties"].items()) {
    if (!property.contains("properties")) continue;
    Json within = take_required(property);
    if (!within.empty()) taken["properties"][name] = std::move(within);
  }
  return taken;
}

// The line that names other decks: one that has it may leave to them what must be given.
void add_include(Json& root) {
  const Json name = {{"type", "string"}, {"minLength", 1}};
  Json with, without = take_required(root);
  with["required"] = Json::array({"include"});
  root["anyOf"] = Json::array({std::move(with), std::move(without)});
  root["properties"]["include"] = {
      {"anyOf", Json::array({name, list_of(name)})},
      {"description",
       "Decks whose keys this one takes, relative to its folder; of a key that several "
       "give the last counts, and the deck's own come last."}};
}

}  // namespace

std::string deck_schema(std::span<const DeckKey> table) {
  Json root = {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
               {"title", "Trireme input deck"}};
  root.update(object_schema());
  for (const auto& key : table) {
    const bool required = key.fallback.empty();
    Json& section = section_schema(root, key.section, required);
    Json schema = value_schema(key);
    std::string doc(key.doc);
    if (!key.unit.empty()) doc += " Unit: " + std::string(key.unit) + ".";
    schema["description"] = doc;
    if (required)
      section["required"].push_back(key.name);
    else
      schema["default"] = value_json(parse_toml_value(std::string(key.fallback)));
    section["properties"][std::string(key.name)] = std::move(schema);
  }
  for (auto& section : root["properties"]) allow_from(section);
  add_include(root);
  return root.dump(2);
}

std::string schema_line() {
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return "";
  const auto schema =
      program.parent_path().parent_path() / "share/trireme/deck.schema.json";
  if (!std::filesystem::is_regular_file(schema, error)) return "";
  return "#:schema " + one_line(schema.string()) + "\n";
}

}  // namespace trireme::io
