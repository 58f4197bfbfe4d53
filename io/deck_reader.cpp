// Reading a deck: its files, then overrides, then every check against the table of keys.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <climits>
#include <compare>
#include <functional>

#include "io/deck.hpp"
#include "io/deck_include.hpp"
#include "io/deck_toml.hpp"
#include "io/deck_value.hpp"
#include "io/peer_names.hpp"

namespace trireme::io {

namespace {

// The deck in force, as checkpoints have it: with every key, and with quotes escaped.
constexpr std::int64_t most_stored_bytes = (2 << 20) + (std::int64_t{1} << 18);
// Beyond this many problems no nearest key is sought: a wrong file of megabytes must not
// take minutes to refuse.
constexpr std::size_t most_suggestions = 100;
constexpr int after_the_files = INT_MAX;

// A search reads the same few defaults and overrides tens of thousands of times.
const TomlValue& short_value(const std::string& text) {
  constexpr std::size_t most_known = 4096;
  thread_local std::map<std::string, TomlValue> known;
  const auto found = known.find(text);
  if (found != known.end()) return found->second;
  TomlValue value = parse_toml_value(text);
  if (known.size() >= most_known) known.clear();
  return known[text] = std::move(value);
}

// Throws TomlError.
TomlValue value_of(const std::string& text) {
  constexpr std::size_t most_short = 64;
  return text.size() <= most_short ? short_value(text) : parse_toml_value(text);
}

// Where something stands, for the order of the report: the number of the file, and the
// place in it.
struct Place {
  int file = after_the_files, line = 0, column = 0;
  auto operator<=>(const Place&) const = default;
};

struct Problem {
  DeckProblem what;
  Place at;
};

// A value that the deck or an override gives for a key.
struct Given {
  TomlValue value;
  std::string where;
  Place at;
};

struct Reader {
  std::string name;  // of the deck
  std::span<const DeckKey> table;
  std::string file_name;  // of the file that is read, and its number
  int file = 0;
  std::string override_name = "command line";
  std::map<std::string, Given, std::less<>> given;
  std::vector<Problem> problems;
  bool syntax_error = false;

  const DeckKey* find_key(const std::string& full) const {
    const auto at = std::find_if(table.begin(), table.end(), [&](const DeckKey& key) {
      return full.size() == key.section.size() + 1 + key.name.size() &&
             full == full_name(key);
    });
    return at == table.end() ? nullptr : &*at;
  }

  // Says whether `full` is a section or holds one.
  bool is_section(const std::string& full) const {
    return std::any_of(table.begin(), table.end(), [&](const DeckKey& key) {
      return key.section.starts_with(full) &&
             (key.section.size() == full.size() || key.section[full.size()] == '.');
    });
  }

  std::string place(int line, int column) const {
    return line > 0 ? format("{}:{}:{}", file_name, line, column) : file_name;
  }

  void add(int line, int column, const std::string& key, const std::string& value,
           const std::string& text) {
    problems.push_back({{place(line, column), key, value, text}, {file, line, column}});
  }

  void add_override(const std::string& key, const std::string& value,
                    const std::string& text) {
    problems.push_back({{override_name, key, value, text}, {.line = 1}});
  }

  std::string section_keys(const std::string& section) const {
    std::string out;
    for (const auto& key : table)
      if (key.section == section || key.section.starts_with(section + "."))
        out += (out.empty() ? "" : ", ") + full_name(key).substr(section.size() + 1);
    return out;
  }

  void read_files(std::span<const DeckFile> files);
  void read_table(const TomlValue& table_value, const std::string& prefix);
  void read_member(const TomlValue::Member& member, const std::string& full);
  void read_unknown(const TomlValue::Member& member, const std::string& full);
  void read_override(const std::string& text);
  bool read_override_value(const DeckKey& key, const std::string& text, TomlValue& out);
  DeckValue resolve(const DeckKey& key);
};

void Reader::read_files(std::span<const DeckFile> files) {
  for (const DeckFile& each : files) {
    file_name = each.name;
    read_table(each.root, "");
    for (const TomlError& error : each.errors)
      add(error.line, error.column, "", "", error.what());
    syntax_error = syntax_error || !each.errors.empty();
    ++file;
  }
}

void Reader::read_table(const TomlValue& table_value, const std::string& prefix) {
  for (const auto& member : table_value.members)
    read_member(member, prefix + quote_key(member.name));
}

void Reader::read_member(const TomlValue::Member& member, const std::string& full) {
  if (find_key(full)) {
    const int line = member.value.line, column = member.value.column;
    given[full] = {member.value, place(line, column), {file, line, column}};
  } else if (!is_section(full)) {
    read_unknown(member, full);
  } else if (member.value.kind == TomlValue::Kind::table) {
    read_table(member.value, full + ".");
  } else {
    add(member.line, member.column, full, show(member.value),
        "is a section, not a key: write [" + full + "] and below it its keys " +
            section_keys(full));
  }
}

// Where another program's section was copied: what its keys are called here.
std::string peers_within(const std::string& name, const TomlValue& section) {
  std::string text;
  for (const TomlValue::Member& member : section.members)
    if (const std::string_view key = key_of_peers(name + '.' + member.name); !key.empty())
      text += (text.empty() ? "; " : ", ") + member.name + " is " + std::string(key);
  return shorten(text, 400);
}

void Reader::read_unknown(const TomlValue::Member& member, const std::string& full) {
  std::string text = "unknown key";
  if (problems.size() < most_suggestions)
    text = member.value.kind == TomlValue::Kind::table
               ? unknown_section_text(full, table) + peers_within(full, member.value)
               : unknown_key_text(full, table);
  add(member.line, member.column, shorten(full), "", text);
}

std::string trimmed(const std::string& text) {
  const auto begin = text.find_first_not_of(" \t");
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find_last_not_of(" \t") + 1 - begin);
}

void Reader::read_override(const std::string& text) {
  const auto equals = text.find('=');
  const std::string key_name = trimmed(text.substr(0, equals));
  const DeckKey* key = find_key(key_name);
  if (equals == std::string::npos) {
    add_override(shorten(text), "", "expected section.key=value");
    return;
  }
  if (!key) {
    const bool section = is_section(key_name);
    add_override(shorten(key_name), "",
                 section ? "is a section; its keys are " + section_keys(key_name)
                         : unknown_key_text(key_name, table));
    return;
  }
  Given found{{}, override_name, {.line = 1}};
  if (read_override_value(*key, trimmed(text.substr(equals + 1)), found.value))
    given[key_name] = std::move(found);
}

// An override's value is TOML; what is not TOML and does not look like a list, a table or
// a quoted text is a text without its quotes. False after reporting a problem.
bool Reader::read_override_value(const DeckKey& key, const std::string& text,
                                 TomlValue& out) {
  if (text.empty()) {
    add_override(full_name(key), "",
                 "no value after '='; an empty text is " + full_name(key) + "='\"\"'");
    return false;
  }
  try {
    out = value_of(text);
    // What TOML takes for a date or a time of the day is a text without its quotes.
    const bool takes_text = key.type == KeyType::seconds ||
                            (key.type == KeyType::text && key.choices.empty());
    if (out.kind != TomlValue::Kind::date || !takes_text) return true;
  } catch (const TomlError& error) {
    if (std::string_view("\"'[{").find(text.front()) != std::string_view::npos) {
      add_override(full_name(key), shorten(text), error.what());
      return false;
    }
  }
  try {
    out = parse_toml_value(quote_toml(text));
    return true;
  } catch (const TomlError& error) {
    add_override(full_name(key), shorten(text), error.what());
    return false;
  }
}

DeckValue default_of(const DeckKey& key) {
  DeckValue value;
  value.type = key.type;
  if (key.fallback.empty()) return value;
  const std::string wrong = read_value(key, value_of(std::string(key.fallback)), value);
  require(wrong.empty(), "the default of deck key {}: {}", full_name(key), wrong);
  return value;
}

// The value of one key: what was given, or its default.
DeckValue Reader::resolve(const DeckKey& key) {
  const std::string full = full_name(key);
  const auto found = given.find(full);
  if (found == given.end()) {
    DeckValue value = default_of(key);
    // After a syntax error nobody knows what the file gives.
    value.sound = !key.fallback.empty() && !syntax_error;
    if (value.sound) return value;
    if (!syntax_error)
      problems.push_back(
          {{name, full, "",
            "must be given: " + expectation(key) + " (" + std::string(key.doc) + ")"},
           {}});
    return value;
  }
  const Given& source = found->second;
  DeckValue value;
  const std::string wrong = read_value(key, source.value, value);
  if (!wrong.empty()) {
    problems.push_back({{source.where, full, show(source.value), wrong}, source.at});
    value = default_of(key);
    value.sound = false;
  }
  value.given = true;
  value.where = source.where;
  return value;
}

}  // namespace

Deck Deck::read_leniently(std::span<const DeckFile> files, const std::string& name,
                          std::span<const std::string> overrides,
                          std::span<const DeckKey> table,
                          std::span<const std::string> presets,
                          const std::string& presets_from) {
  Reader reader;
  reader.name = name;
  reader.table = table;
  reader.read_files(files);
  for (const auto& text_of_override : overrides) reader.read_override(text_of_override);
  reader.override_name = presets_from;
  for (const auto& preset : presets) reader.read_override(preset);
  Deck deck;
  deck.table_ = table;
  for (const auto& key : table) deck.values_[full_name(key)] = reader.resolve(key);

  std::stable_sort(reader.problems.begin(), reader.problems.end(),
                   [](const Problem& a, const Problem& b) { return a.at < b.at; });
  for (auto& problem : reader.problems) deck.problems_.push_back(std::move(problem.what));
  return deck;
}

Deck Deck::parse_leniently(const std::string& text, const std::string& name,
                           std::span<const std::string> overrides,
                           std::span<const DeckKey> table,
                           std::span<const std::string> presets,
                           const std::string& presets_from) {
  require(std::ssize(text) <= most_stored_bytes, Status::bad_content,
          "{}: has {} bytes; a deck has {} at the most", name, text.size(),
          most_stored_bytes);
  const DeckFile file = read_deck_file(text, name);
  return read_leniently({&file, 1}, name, overrides, table, presets, presets_from);
}

Deck Deck::load_leniently(const std::string& path, std::span<const std::string> overrides,
                          std::span<const DeckKey> table,
                          std::span<const std::string> presets,
                          const std::string& presets_from) {
  return read_leniently(read_deck_files(read_deck_text(path), path), path, overrides,
                        table, presets, presets_from);
}

}  // namespace trireme::io
