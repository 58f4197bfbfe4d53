// Decks with something wrong, or something rare, in them.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include "campaign/tool.hpp"

namespace trireme::campaign {
namespace {

constexpr std::array<std::string_view, 40> odd_values = {"0",
                                                         "-1",
                                                         "1",
                                                         "3",
                                                         "2147483647",
                                                         "2147483648",
                                                         "4294967296",
                                                         "9223372036854775807",
                                                         "-9223372036854775808",
                                                         "9223372036854775808",
                                                         "0x7f",
                                                         "1_000",
                                                         "3.0",
                                                         "1e308",
                                                         "1e-310",
                                                         "-0.0",
                                                         "nan",
                                                         "inf",
                                                         "-inf",
                                                         "true",
                                                         "\"\"",
                                                         "\"fp8\"",
                                                         "\"../..\"",
                                                         "\"/dev/zero\"",
                                                         "\"\\u0000\"",
                                                         "\"a\\nb\"",
                                                         "\"\\uD800\"",
                                                         "\"\xc3\xa9\xe2\x82\xac\"",
                                                         "[]",
                                                         "[[[[]]]]",
                                                         "[1, \"a\"]",
                                                         "{}",
                                                         "{a = 1}",
                                                         "1979-05-27",
                                                         "07:32:00",
                                                         "'''\n'''",
                                                         "\"25 MiB\"",
                                                         "\"1 h\"",
                                                         "\"-5 s\"",
                                                         "auto"};

constexpr std::array<std::string_view, 24> keys = {
    "run.seed",           "run.time_limit",     "run.threads",
    "run.device",         "model.hidden",       "model.heads",
    "model.architecture", "model.moe.experts",  "batch.micro",
    "parallel.tensor",    "parallel.pipeline",  "parallel.context",
    "parallel.expert",    "parallel.schedule",  "parallel.sharding_strategy",
    "optimizer.betas",    "optimizer.momentum", "optimizer.clip",
    "precision.compute",  "precision.recipe",   "checkpoint.keep",
    "checkpoint.resume",  "health.spike",       "debug.fault"};

using Lines = std::vector<std::string>;

Lines split(const std::string& text) {
  Lines lines(1);
  for (const char c : text) {
    if (c == '\n')
      lines.emplace_back();
    else
      lines.back() += c;
  }
  return lines;
}

// A line that gives a key its value, where there is one within a few tries.
std::size_t assignment(const Lines& lines, Draws& draws) {
  std::size_t at = 0;
  for (int i = 0; i < 50; ++i) {
    at = draws.below(lines.size());
    if (lines[at].find('=') != std::string::npos) break;
  }
  return at;
}

void set_value(std::string& line, std::string_view value) {
  const auto equals = line.find('=');
  if (equals == std::string::npos)
    line = "x = " + std::string(value);
  else
    line = line.substr(0, equals + 1) + " " + std::string(value);
}

std::string value_of(const std::string& line) {
  const auto equals = line.find('=');
  return equals == std::string::npos ? line : line.substr(equals + 1);
}

// Of a text, bytes that no editor would write.
void spoil_bytes(std::string& line, Draws& draws) {
  constexpr std::array<std::string_view, 8> spoilt = {
      "\xff\xfe",     std::string_view("\0", 1),
      "\r",           "\x1b[31m",
      "\xe2\x80\xae", "\xef\xbb\xbf",
      "\t\v",         "\xed\xa0\x80"};
  line.insert(draws.below(line.size() + 1), draws.one_of(spoilt));
}

void make_huge(std::string& line, Draws& draws) {
  switch (draws.below(4)) {
    case 0: set_value(line, "\"" + std::string(1 << 20, 'a') + "\""); break;
    case 1: set_value(line, std::string(5000, '[') + std::string(5000, ']')); break;
    case 2: set_value(line, std::string(400, '9')); break;
    default: {
      std::string list = "[0";
      for (int i = 0; i < 50000; ++i) list += ",1";
      set_value(line, list + "]");
    }
  }
}

void misspell(std::string& line, Draws& draws) {
  if (line.empty()) return;
  const auto at = draws.below(std::min<std::size_t>(line.size(), 12));
  line[at] = static_cast<char>('a' + draws.below(26));
}

// TOML lets a table be opened once, and a key be a table or a value, not both.
void add_table(Lines& lines, Draws& draws) {
  constexpr std::array<std::string_view, 7> tables = {"[run]",
                                                      "[[run]]",
                                                      "[model.moe]",
                                                      "[unknown]",
                                                      "[optimizer.schedule.name]",
                                                      "[\"a.b\"]",
                                                      "[[optimizer.groups]]"};
  lines.insert(lines.begin() + static_cast<std::ptrdiff_t>(draws.below(lines.size() + 1)),
               std::string(draws.one_of(tables)));
}

void mutate(Lines& lines, Draws& draws) {
  const auto at = assignment(lines, draws);
  const auto other = assignment(lines, draws);
  switch (draws.below(14)) {
    case 0: lines.erase(lines.begin() + static_cast<std::ptrdiff_t>(at)); break;
    case 1:
      lines.insert(lines.begin() + static_cast<std::ptrdiff_t>(at), lines[other]);
      break;
    case 2: std::swap(lines[at], lines[other]); break;
    case 3: set_value(lines[at], value_of(std::string(lines[other]))); break;
    case 4:
    case 5:
    case 6: set_value(lines[at], draws.one_of(odd_values)); break;
    case 7:
    case 8:
      lines.insert(lines.begin(), std::string(draws.one_of(keys)) + " = " +
                                      std::string(draws.one_of(odd_values)));
      break;
    case 9: spoil_bytes(lines[at], draws); break;
    case 10: make_huge(lines[at], draws); break;
    case 11: misspell(lines[at], draws); break;
    case 12: add_table(lines, draws); break;
    default: lines[at].resize(draws.below(lines[at].size() + 1));
  }
  if (lines.empty()) lines.emplace_back();
}

}  // namespace

std::string mutated_deck(const std::string& text, std::uint64_t seed) {
  Draws draws(seed);
  Lines lines = split(text);
  for (std::size_t count = 1 + draws.below(3); count > 0; --count) mutate(lines, draws);
  std::string out;
  for (const auto& line : lines) out += line + "\n";
  out.pop_back();
  return out;
}

}  // namespace trireme::campaign
