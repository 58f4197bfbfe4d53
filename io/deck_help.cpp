// The table of deck keys as help text and as a Markdown page.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

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

constexpr std::string_view include_doc =
    "`include = \"FILE\"` or a list of files, above the first section, takes what other "
    "decks give: of a key that several give the last counts, and the deck's own come "
    "last. "
    "Names are relative to the deck's folder, and included decks may include others.";

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

// What each choice of a key means, where its doc is a long list of them: "llama: what it
// is; gpt2: ...", in the order of the choices. Empty for any other doc.
std::vector<std::pair<std::string, std::string>> meanings_of(const DeckKey& key) {
  constexpr std::size_t long_for_a_cell = 500;
  std::vector<std::pair<std::string, std::string>> meanings;
  std::string_view rest = key.doc;
  if (rest.size() <= long_for_a_cell) return meanings;
  const std::vector<std::string> choices = split_choices(key.choices);
  for (std::size_t i = 0; i < choices.size(); ++i) {
    const std::string head = choices[i] + ": ";
    if (!rest.starts_with(head)) return {};
    rest.remove_prefix(head.size());
    const auto end = i + 1 < choices.size() ? rest.find("; " + choices[i + 1] + ": ")
                                            : rest.find_last_of('.');
    if (end == rest.npos) return {};
    meanings.emplace_back(choices[i], rest.substr(0, end));
    rest.remove_prefix(std::min(rest.size(), end + 2));
  }
  return meanings;
}

// The section's table of what the choices of a key mean.
std::string choices_markdown(const DeckKey& key) {
  std::string out =
      "\n### Values of `" + full_name(key) + "`\n\n| Value | Meaning |\n| --- | --- |\n";
  for (const auto& [choice, meaning] : meanings_of(key))
    out += "| `\"" + choice + "\"` | " + cell(meaning) + " |\n";
  return out;
}

std::string row_markdown(const DeckKey& key) {
  const std::string unit = key.unit.empty() ? "" : ", " + std::string(key.unit);
  const std::string fallback =
      key.fallback.empty() ? "required" : "`" + std::string(key.fallback) + "`";
  const bool apart = !meanings_of(key).empty();
  return "| `" + std::string(key.name) + "` | " + type_name(key.type) + unit + " | " +
         cell(fallback) + " | " + (apart ? "see below" : cell(allowed_text(key))) +
         " | " + (apart ? "One of the values below." : cell(std::string(key.doc))) +
         " |\n";
}

// The doc below the key's line, a line for each choice where it is a list of them.
std::string doc_text(const DeckKey& key) {
  const auto meanings = meanings_of(key);
  if (meanings.empty()) return wrap(std::string(key.doc), 8);
  std::string out;
  for (const auto& [choice, meaning] : meanings) out += wrap(choice + ": " + meaning, 8);
  return out;
}

}  // namespace

std::string describe_include() { return wrap(std::string(include_doc), 0); }

std::string describe_keys(std::span<const DeckKey> table) {
  std::string out;
  for (const auto& section : section_names(table)) {
    out += (out.empty() ? "[" : "\n[") + section + "]\n";
    for (const auto& key : table) {
      if (key.section != section) continue;
      std::string head = "  " + std::string(key.name);
      if (head.size() < 24) head.resize(24, ' ');
      out += head + "  " + expectation(key) + unit_text(key) + "; " + default_text(key) +
             "\n" + doc_text(key);
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
      "test holds them\nequal. `trireme help deck` shows the same.\n\n"
      "A deck is a TOML file of at most 1 MiB.\n\n"
      "- ";
  out += wrap(std::string(include_doc), 2).substr(2);
  out +=
      "- An argument `section.key=value` behind the deck's name replaces one value. Its "
      "right side is TOML too,\n  and a bare word is a text: `optimizer.name=sgd`, "
      "`data.paths='[\"a.txt\", \"b.txt\"]'`.\n"
      "- Sizes are bytes, or texts such as `\"4 GiB\"` or `\"25 MB\"`.\n"
      "- Times are seconds, or texts such as `\"30 min\"`, `\"2 h\"`, `\"1 d\"` or, as "
      "Slurm has them,\n  `\"1-12:00:00\"`.\n"
      "- Relative paths are relative to the current directory.\n"
      "- Every rule that a deck breaks is reported at once, by `trireme train --check` "
      "without training. Files that\n  are missing are named once no rule is broken.\n"
      "- The deck in force, with every default filled in, is written to "
      "`<run.directory>/deck.toml`.\n";
  for (const auto& section : section_names(table)) {
    out +=
        "\n## `[" + section +
        "]`\n\n| Key | Type | Default | Allowed | Meaning |\n| --- | --- | --- | --- | "
        "--- |\n";
    for (const auto& key : table) {
      if (key.section == section) out += row_markdown(key);
    }
    for (const auto& key : table)
      if (key.section == section && !meanings_of(key).empty())
        out += choices_markdown(key);
  }
  return out;
}

}  // namespace trireme::io
