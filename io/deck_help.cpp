// The table of deck keys as help text and as a Markdown page.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "io/deck_value.hpp"

namespace trireme::io {

namespace {

// `text` in lines of at most 88 characters, each behind `indent` spaces.
std::string wrap(const std::string& text, std::size_t indent) {
  constexpr std::size_t width = 88;
  std::string out, line(indent, ' ');
  std::size_t begin = 0;
  while (begin < text.size()) {
    const auto end = std::min(text.find(' ', begin), text.size());
    if (line.size() > indent && line.size() + 1 + end - begin > width) {
      out += line + "\n";
      line.assign(indent, ' ');
    }
    if (line.size() > indent) line += ' ';
    line += text.substr(begin, end - begin);
    begin = end + 1;
  }
  return out + line + "\n";
}

std::string default_text(const DeckKey& key) {
  return key.fallback.empty() ? "required" : "default " + std::string(key.fallback);
}

std::string unit_text(const DeckKey& key) {
  return key.unit.empty() ? "" : " [" + std::string(key.unit) + "]";
}

// Text as a table's cell: "|" would end it, "<" would begin a tag, but not in code.
std::string cell(const std::string& text) {
  std::string out;
  bool code = false;
  for (const char c : text) {
    if (c == '`') code = !code;
    out += c == '|' ? "\\|" : c == '<' && !code ? "&lt;" : std::string(1, c);
  }
  return out;
}

std::string allowed_text(const DeckKey& key) {
  std::string out;
  for (const auto& choice : split_choices(key.choices))
    out += (out.empty() ? "`\"" : ", `\"") + choice + "\"`";
  return out.empty() ? range_text(key) : out;
}

}  // namespace

std::string describe_keys(std::span<const DeckKey> table) {
  std::string out;
  for (const auto& section : section_names(table)) {
    out += (out.empty() ? "[" : "\n[") + section + "]\n";
    for (const auto& key : table) {
      if (key.section != section) continue;
      std::string head = "  " + std::string(key.name);
      if (head.size() < 24) head.resize(24, ' ');
      out += head + "  " + expectation(key) + unit_text(key) + "; " + default_text(key) +
             "\n" + wrap(std::string(key.doc), 8);
    }
  }
  return out;
}

std::string describe_keys_markdown(std::span<const DeckKey> table) {
  std::string out =
      "<!-- The deck reference: every section and key. -->\n"
      "<!-- SPDX-License-Identifier: Apache-2.0 -->\n"
      "# Deck reference\n\n"
      "This page is printed from the table that the program itself reads decks with; a "
      "test\nholds them equal. `trireme help deck` shows the same.\n\n"
      "A deck is a TOML file. An argument `section.key=value` after the deck's name "
      "replaces\none value; its right side is TOML too, and a bare word is a text "
      "(`optimizer.name=sgd`,\n`data.paths='[\"a.txt\", \"b.txt\"]'`). Sizes are bytes, "
      "or texts such as `\"4 GiB\"` or\n`\"25 MB\"`; times are seconds, or texts such as "
      "`\"30 min\"`, `\"2 h\"`, `\"1 d\"` or, as Slurm has them, `\"1-12:00:00\"`. "
      "Relative\npaths are relative to the current "
      "directory. Every rule that a deck breaks is reported\nat once, and `trireme train "
      "--check` does so without training; files that are missing are\n"
      "told of once no rule is broken. The deck in force, with every\n"
      "default filled in, is written to `<run.directory>/deck.toml`. A deck has 1 MiB "
      "at\n"
      "the most.\n";
  for (const auto& section : section_names(table)) {
    out +=
        "\n## `[" + section +
        "]`\n\n| Key | Type | Default | Allowed | Meaning |\n| --- | --- | --- | --- | "
        "--- |\n";
    for (const auto& key : table) {
      if (key.section != section) continue;
      const std::string unit = key.unit.empty() ? "" : ", " + std::string(key.unit);
      const std::string fallback =
          key.fallback.empty() ? "required" : "`" + std::string(key.fallback) + "`";
      out += "| `" + std::string(key.name) + "` | " + type_name(key.type) + unit + " | " +
             cell(fallback) + " | " + cell(allowed_text(key)) + " | " +
             cell(std::string(key.doc)) + " |\n";
    }
  }
  return out;
}

}  // namespace trireme::io
