// Points of a sweep from --grid and --list.
// SPDX-License-Identifier: Apache-2.0
#include "app/sweep_points.hpp"

#include <algorithm>
#include <set>
#include <sstream>

#include "base/error.hpp"
#include "base/text.hpp"
#include "io/deck_toml.hpp"

namespace trireme::app {
namespace {

using Points = std::vector<std::vector<std::string>>;

constexpr std::size_t most_points = 100000;

void check_key(const std::string& key, const std::string& text,
               std::set<std::string>& keys, Status status, const std::string& where) {
  require(!key.empty() && text.find('=') != std::string::npos, status,
          "{}: '{}' is no section.key=value", where, io::shorten(text, 80));
  require(key != "run.directory", status,
          "{}: run.directory is the sweep's own: each point has a directory beside the "
          "manifest (--directory says where)",
          where);
  require(keys.insert(key).second, status, "{}: {} is given twice", where, key);
}

// "a=1 b=2 # note" without its comment.
std::string without_comment(const std::string& line) {
  char quote = 0;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quote == '"' && c == '\\')
      ++i;
    else if (quote)
      quote = c == quote ? char{0} : quote;
    else if (c == '"' || c == '\'')
      quote = c;
    else if (c == '#')
      return line.substr(0, i);
  }
  return line;
}

Points listed(const std::string& list, const std::string& name) {
  Points points;
  std::istringstream lines(list);
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    std::set<std::string> keys;
    const auto words = split_outside(without_comment(line), ' ');
    if (words.empty()) continue;
    require(points.size() < most_points, Status::bad_content,
            "{}:{}: the list has more than {} points", name, number, most_points);
    for (const auto& word : words)
      check_key(key_of(word), word, keys, Status::bad_content,
                format("{}:{}", name, number));
    points.push_back(words);
  }
  require(!points.empty(), Status::bad_content, "{}: has no point", name);
  return points;
}

}  // namespace

std::string key_of(const std::string& override_text) {
  return trimmed(override_text.substr(0, override_text.find('=')));
}

std::vector<std::string> split_outside(const std::string& text, char separator) {
  std::vector<std::string> parts(1);
  char quote = 0;
  int depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote) {
      if (c == quote) quote = 0;
      parts.back() += c;
      if (c == '\\' && quote == '"' && i + 1 < text.size()) parts.back() += text[++i];
      continue;
    }
    if (c == '"' || c == '\'') quote = c;
    if (c == '[' || c == '{') ++depth;
    if (c == ']' || c == '}') --depth;
    const bool blank = separator == ' ' && (c == '\t' || c == '\r');
    if (depth <= 0 && (c == separator || blank))
      parts.emplace_back();
    else
      parts.back() += c;
  }
  for (auto& part : parts) part = trimmed(part);
  if (separator == ' ') std::erase(parts, "");
  return parts;
}

Points sweep_points(const std::vector<std::string>& grids, const std::string& list,
                    const std::string& list_name) {
  Points points(1);
  std::set<std::string> keys;
  if (!list_name.empty()) {
    points = listed(list, list_name);
    for (const auto& point : points)
      for (const auto& word : point) keys.insert(key_of(word));
  }
  for (const auto& grid : grids) {
    const std::string key = key_of(grid);
    const std::string shown = io::shorten(grid, 80);
    check_key(key, grid, keys, Status::command_line, "--grid " + shown);
    const auto values = split_outside(grid.substr(grid.find('=') + 1), ',');
    for (const auto& value : values)
      require(!value.empty(), Status::command_line,
              "--grid {}: a value is empty{}; write \"\" for an empty text", shown,
              values.size() > 1 ? " (a comma too many?)" : "");
    require(points.size() <= most_points / values.size(), Status::command_line,
            "the grid has more than {} points", most_points);
    Points product;
    product.reserve(points.size() * values.size());
    for (const auto& point : points) {
      for (const auto& value : values) {
        product.push_back(point);
        product.back().push_back(key + "=" + value);
      }
    }
    points = std::move(product);
  }
  return points;
}

}  // namespace trireme::app
