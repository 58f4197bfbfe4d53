// SweepManifest: the points of a parameter sweep, as a file and in memory.
// SPDX-License-Identifier: Apache-2.0
#include "app/sweep_manifest.hpp"

#include <algorithm>

#include "base/directory.hpp"
#include "base/error.hpp"
#include "io/deck_toml.hpp"
#include "io/digest.hpp"
#include "io/files.hpp"

namespace trireme::app {
namespace {

constexpr std::int64_t most_bytes = 256 << 20;
constexpr std::int64_t format_version = 1;

std::string list_toml(const std::vector<std::string>& texts) {
  std::string out;
  for (const auto& text : texts) out += (out.empty() ? "" : ", ") + io::quote_toml(text);
  return "[" + out + "]";
}

std::vector<std::string> texts_of(const io::TomlValue& list) {
  std::vector<std::string> out;
  for (const auto& item : list.items) out.push_back(item.text);
  return out;
}

SweepPoint read_point(const io::TomlValue& table) {
  SweepPoint point;
  for (const auto& [name, line, column, value] : table.members) {
    if (name == "name") point.name = value.text;
    if (name == "overrides") point.overrides = texts_of(value);
    if (name == "digest") point.digest = value.text;
  }
  return point;
}

// Names lie in the manifest's directory and nowhere else.
bool is_plain_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find('/') == std::string::npos;
}

void check(const SweepManifest& manifest, const std::string& path, std::int64_t version,
           std::int64_t count) {
  require(
      version != 0, Status::bad_content,
      "{}: is no sweep, which has a line 'format = {}': give a run's directory, or the "
      "sweep.toml that 'trireme sweep' wrote",
      path, format_version);
  require(version == format_version, Status::bad_content,
          "{}: format {} is not known to this program, which reads {}", path, version,
          format_version);
  require(is_plain_name(manifest.deck) && !manifest.points.empty() &&
              count == static_cast<std::int64_t>(manifest.points.size()),
          Status::bad_content, "{}: {} of {} points are there; the file is damaged", path,
          manifest.points.size(), count);
  for (std::size_t i = 0; i < manifest.points.size(); ++i)
    require(is_plain_name(manifest.points[i].name), Status::bad_content,
            "{}: point {} has no name; the file is damaged", path, i);
  const std::string deck = manifest.directory + "/" + manifest.deck;
  require(io::file_digest(deck) == manifest.deck_digest, Status::bad_content,
          "{}: is not the deck that '{}' was made for; put it back, or make a new sweep",
          deck, path);
}

}  // namespace

SweepManifest SweepManifest::read(const std::string& path) {
  SweepManifest manifest;
  manifest.directory = parent_of(path);
  std::int64_t version = 0, count = 0;
  try {
    for (const auto& [name, line, column, value] :
         io::parse_toml(io::read_text(path, most_bytes)).members) {
      if (name == "format") version = value.whole;
      if (name == "count") count = value.whole;
      if (name == "deck") manifest.deck = value.text;
      if (name == "deck_digest") manifest.deck_digest = value.text;
      if (name == "ranks") manifest.ranks = value.whole;
      if (name == "base") manifest.base = texts_of(value);
      if (name != "point") continue;
      for (const auto& item : value.items) manifest.points.push_back(read_point(item));
    }
  } catch (const io::TomlError& error) {
    fail(Status::bad_content, "{}:{}: {}", path, error.line, error.what());
  }
  check(manifest, path, version, count);
  return manifest;
}

std::string SweepManifest::toml() const {
  std::string text = format(
      "# A sweep of {} points, written by `trireme sweep`.\n"
      "# One point: trireme train --manifest <this file> --index N\n"
      "format = {}\ncount = {}\ndeck = {}\ndeck_digest = {}\nranks = {}\nbase = {}\n",
      points.size(), format_version, points.size(), io::quote_toml(deck),
      io::quote_toml(deck_digest), ranks, list_toml(base));
  for (std::size_t i = 0; i < points.size(); ++i)
    text += format("\n[[point]]\nindex = {}\nname = {}\noverrides = {}\ndigest = {}\n", i,
                   io::quote_toml(points[i].name), list_toml(points[i].overrides),
                   io::quote_toml(points[i].digest));
  return text;
}

std::string SweepManifest::run_directory(std::int64_t index) const {
  return directory + "/" + points[static_cast<std::size_t>(index)].name;
}

std::vector<std::string> SweepManifest::deck_words(std::int64_t index) const {
  std::vector<std::string> words = {directory + "/" + deck};
  words.insert(words.end(), base.begin(), base.end());
  const auto& own = points[static_cast<std::size_t>(index)].overrides;
  words.insert(words.end(), own.begin(), own.end());
  words.push_back(directory_override(run_directory(index)));
  return words;
}

std::vector<std::string> point_words(const Arguments& arguments) {
  const auto manifest = SweepManifest::read(arguments.text("--manifest", ""));
  const auto last = static_cast<std::int64_t>(manifest.points.size()) - 1;
  return manifest.deck_words(arguments.integer("--index", 0, 0, last));
}

std::string point_name(std::int64_t index) {
  std::string number = std::to_string(index);
  if (number.size() < 4) number.insert(0, 4 - number.size(), '0');
  return "point-" + number;
}

std::string directory_override(const std::string& directory) {
  return "run.directory=" + io::quote_toml(directory);
}

}  // namespace trireme::app
