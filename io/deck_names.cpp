// Names of deck keys and of decks: the nearest known one to a misspelt one.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "base/format.hpp"
#include "base/text.hpp"
#include "io/deck_value.hpp"
#include "io/peer_names.hpp"

namespace trireme::io {

namespace {

std::string leaf_of(const std::string& name) {
  const auto dot = name.rfind('.');
  return dot == std::string::npos ? name : name.substr(dot + 1);
}

std::string section_of(const std::string& name) {
  const auto dot = name.rfind('.');
  return dot == std::string::npos ? "" : name.substr(0, dot);
}

// How many edits still pass for a slip of the pen.
int tolerance(std::size_t length) { return length <= 3 ? 1 : length <= 6 ? 2 : 3; }

// Edit distance, or a large number at once when the lengths differ by more than 3.
int near_distance(const std::string& a, const std::string& b) {
  const auto gap = std::abs(static_cast<std::ptrdiff_t>(a.size()) -
                            static_cast<std::ptrdiff_t>(b.size()));
  return gap > 3 ? 1000 : edit_distance(a, b);
}

// Whether two keys have the same first word: "optimizer" of "optimizer.groups.name".
bool same_first_word(const std::string& a, const std::string& b) {
  return a.substr(0, a.find('.')) == b.substr(0, b.find('.'));
}

}  // namespace

std::string nearest_section(const std::string& name, std::span<const DeckKey> table) {
  std::string best;
  int least = tolerance(name.size()) + 1;
  for (const auto& section : section_names(table)) {
    const bool same_leaf = leaf_of(name) == leaf_of(section);
    const int distance = same_leaf ? 1 : near_distance(name, section);
    if (distance < least) {
      least = distance;
      best = section;
    }
  }
  return best;
}

// Damerau-Levenshtein distance, optimal string alignment: Boytsov, "Indexing methods for
// approximate dictionary searching", 2011, section 2.2.
int edit_distance(std::string_view a, std::string_view b) {
  std::vector<int> before_last(b.size() + 1), last(b.size() + 1), now(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = static_cast<int>(j);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    now[0] = static_cast<int>(i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const int change = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      now[j] = std::min({last[j] + 1, now[j - 1] + 1, change});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        now[j] = std::min(now[j], before_last[j - 2] + 1);
    }
    std::swap(before_last, last);
    std::swap(last, now);
  }
  return last[b.size()];
}

std::vector<std::string> section_names(std::span<const DeckKey> table) {
  std::vector<std::string> out;
  for (const auto& key : table)
    if (std::find(out.begin(), out.end(), key.section) == out.end())
      out.emplace_back(key.section);
  return out;
}

std::string nearest_key(const std::string& name, std::span<const DeckKey> table) {
  const bool has_section = !section_of(name).empty();
  std::string best;
  int least = tolerance(leaf_of(name).size()) + 1, least_whole = 0;
  for (const auto& key : table) {
    const std::string known = full_name(key);
    // Another section is a slip, and one of another first word two.
    const int elsewhere = has_section && !same_first_word(name, known) ? 2 : 1;
    const int distance =
        std::min(near_distance(name, known),
                 near_distance(leaf_of(name), leaf_of(known)) + elsewhere);
    if (distance > least) continue;
    const int whole = name.size() > 100 ? 1000 : edit_distance(name, known);
    if (distance == least && (best.empty() || whole >= least_whole)) continue;
    best = known;
    least = distance;
    least_whole = whole;
  }
  return best;
}

std::string unknown_key_text(const std::string& name, std::span<const DeckKey> table) {
  if (name == "include" || name.ends_with(".include"))
    return "is no key: a line of a deck's file, above its first section, names the decks "
           "that it includes, as include = \"models/base.toml\"";
  // 1. The nearest key.
  std::string best = nearest_key(name, table);
  // Another program's name for a key of this table says more than likeness does, but
  // for a slip within the key's own section.
  const std::string_view peers = key_of_peers(name);
  const bool known = std::any_of(table.begin(), table.end(), [&](const DeckKey& key) {
    return full_name(key) == peers;
  });
  if (known && (best.empty() || section_of(best) != section_of(name))) best = peers;
  const std::string_view advice = advice_on(name);
  if (!advice.empty() && (best.empty() || section_of(best) != section_of(name)))
    return format("unknown key; {}", advice);
  if (!best.empty()) return "unknown key; did you mean '" + best + "'?";

  // 2. Nothing near: say what there is.
  std::vector<std::string> names;
  for (const auto& key : table)
    if (key.section == section_of(name)) names.emplace_back(key.name);
  if (!names.empty())
    return "unknown key; the keys of [" + section_of(name) + "] are " +
           joined(names, ", ");
  return "unknown key; the sections are " + joined(section_names(table), ", ");
}

std::string unknown_section_text(const std::string& name,
                                 std::span<const DeckKey> table) {
  const std::string best = nearest_section(name, table);
  if (!best.empty()) return "unknown section; did you mean [" + best + "]?";
  return "unknown section; the sections are " + joined(section_names(table), ", ");
}

std::string nearest_deck_text(const std::string& path) {
  const std::filesystem::path given(path);
  const std::string name = given.filename().string();
  std::string best;
  int least = tolerance(name.size()) + 1;
  std::error_code error;
  std::filesystem::directory_iterator entry(
      given.has_parent_path() ? given.parent_path() : ".", error);
  for (; !error && entry != std::filesystem::directory_iterator();
       entry.increment(error)) {
    const std::string known = entry->path().filename().string();
    if (!known.ends_with(".toml")) continue;
    // A name without its ending is one slip.
    const int distance = known == name + ".toml" ? 1 : near_distance(name, known);
    if (distance > least || (distance == least && (best.empty() || known > best)))
      continue;
    best = known;
    least = distance;
  }
  if (best.empty()) return "";
  return format("; did you mean {}?", (given.parent_path() / best).string());
}

}  // namespace trireme::io
