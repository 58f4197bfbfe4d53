// Reads a deck's files in the order in which their values count.
// SPDX-License-Identifier: Apache-2.0
#include "io/deck_include.hpp"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/error.hpp"
#include "io/deck.hpp"
#include "io/files.hpp"

namespace trireme::io {
namespace {

// A deck with 10,000 paths of 80 characters has less. Parsing takes some 150 bytes for
// each, on every rank at once.
constexpr std::int64_t most_bytes = std::int64_t{1} << 20;
constexpr std::int64_t most_included = 2 * most_bytes;
constexpr std::size_t most_levels = 8;
constexpr std::string_view include_name = "include";

// The files from the deck down to the one that is read.
using Chain = std::vector<std::string>;

struct FileReader {
  std::vector<DeckFile> files;  // done, in the order in which they count
  std::int64_t included_bytes = 0;

  void read(const std::string& text, const std::string& name, Chain chain);
  void include(const TomlValue& value, DeckFile& into, const Chain& chain);
  void include_one(const TomlValue& value, DeckFile& into, const Chain& chain);
};

void add_error(DeckFile& file, const TomlValue& at, const std::string& text) {
  file.errors.emplace_back(text, at.line, at.column);
}

void FileReader::read(const std::string& text, const std::string& name, Chain chain) {
  chain.push_back(name);
  DeckFile file = read_deck_file(text, name);
  auto& members = file.root.members;
  const auto line = std::find_if(members.begin(), members.end(), [](const auto& member) {
    return member.name == include_name;
  });
  if (line != members.end()) {
    const TomlValue value = std::move(line->value);
    members.erase(line);
    include(value, file, chain);
  }
  files.push_back(std::move(file));
}

void FileReader::include(const TomlValue& value, DeckFile& into, const Chain& chain) {
  if (value.kind == TomlValue::Kind::list)
    for (const TomlValue& item : value.items) include_one(item, into, chain);
  else
    include_one(value, into, chain);
}

void FileReader::include_one(const TomlValue& value, DeckFile& into, const Chain& chain) {
  if (value.kind != TomlValue::Kind::text || value.text.empty())
    return add_error(into, value,
                     format("include = {}: write the name of a deck, as include = "
                            "\"models/base.toml\", or a list of names",
                            show(value)));
  const std::filesystem::path given(value.text);
  const std::string path =
      (std::filesystem::path(into.name).parent_path() / given).lexically_normal();
  std::error_code ignored;
  const auto is_same = [&](const std::string& other) {
    return std::filesystem::equivalent(path, other, ignored);
  };
  if (std::any_of(chain.begin(), chain.end(), is_same))
    return add_error(into, value,
                     format("include = {}: the deck would include itself: remove one of "
                            "the lines that lead from {} to {}",
                            show(value), shorten(path), shorten(into.name)));
  if (chain.size() > most_levels)
    return add_error(into, value,
                     format("include = {}: decks include others {} deep at the most",
                            show(value), most_levels));
  try {
    const std::string text = read_deck_text(path);
    included_bytes += std::ssize(text);
    require(included_bytes <= most_included, Status::bad_content,
            "{}: with it included decks have more than {} bytes", path, most_included);
    read(text, path, chain);
  } catch (const Error& error) {
    add_error(into, value, format("include = {}: {}", show(value), error.what()));
  }
}

}  // namespace

std::string read_deck_text(const std::string& path) {
  std::error_code ignored;
  const auto status = std::filesystem::status(path, ignored);
  require(!std::filesystem::is_directory(status), Status::missing_input,
          "{}: is a directory, not a deck", path);
  require(status.type() != std::filesystem::file_type::not_found, Status::missing_input,
          "{}: there is no such deck{}", path,
          path.find('=') != path.npos ? ": it is named before what replaces its keys"
                                      : nearest_deck_text(path));
  // A pipe would be read to its end by the first of many ranks.
  require(!std::filesystem::exists(status) || std::filesystem::is_regular_file(status),
          Status::missing_input, "{}: is not a regular file", path);
  const auto bytes = std::filesystem::file_size(path, ignored);
  require(ignored || bytes <= static_cast<std::uintmax_t>(most_bytes),
          Status::bad_content,
          "{}: has {} bytes; a deck has {} at the most: is this a deck? (many data files "
          "are named by a pattern, data.paths = [\"folder/*.txt\"])",
          path, bytes, most_bytes);
  return read_text(path, most_bytes);
}

DeckFile read_deck_file(const std::string& text, const std::string& name) {
  DeckFile file;
  file.name = name;
  try {
    file.root = parse_toml(text);
  } catch (const TomlError& error) {
    file.errors.push_back(error);
  }
  return file;
}

std::vector<DeckFile> read_deck_files(const std::string& text, const std::string& name) {
  FileReader reader;
  reader.read(text, name, {});
  return std::move(reader.files);
}

std::string self_contained_deck(const std::string& path, std::span<const DeckKey> table) {
  std::string text = read_deck_text(path);
  if (read_deck_files(text, path).size() == 1) return text;
  // What is wrong or missing may be in the overrides that the caller has besides.
  return Deck::load_leniently(path, {}, table).given_text();
}

}  // namespace trireme::io
