// Fuzzes numbers, sizes, times and lists of decks, option values, and names of steps.
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <limits>

#include "app/arguments.hpp"
#include "config/deck_table.hpp"
#include "fuzz.hpp"
#include "io/checkpoint_manifest.hpp"
#include "io/deck_value.hpp"
#include "launch/batch_job.hpp"

namespace trireme {
namespace {

constexpr double unbounded = std::numeric_limits<double>::infinity();
constexpr std::array types = {
    io::KeyType::boolean,  io::KeyType::integer, io::KeyType::real,
    io::KeyType::text,     io::KeyType::bytes,   io::KeyType::seconds,
    io::KeyType::integers, io::KeyType::reals,   io::KeyType::texts};

// What is taken is written so that it is read as the same.
void check_value(const io::TomlValue& raw) {
  for (const io::KeyType type : types) {
    const io::DeckKey key = {"section",  "name",    type, "", "",
                             -unbounded, unbounded, "",   ""};
    io::DeckValue value, again;
    if (!io::read_value(key, raw, value).empty()) continue;
    const std::string text = io::value_toml(value);
    const std::string wrong = io::read_value(key, io::parse_toml_value(text), again);
    if (!wrong.empty()) fuzz::finding(text + " is written and not read: " + wrong);
    fuzz::require_equal("the value", text, io::value_toml(again));
  }
}

void check_option(const std::string& text) {
  static constexpr std::array options = {app::Option{"--value"}};
  fuzz::unless_refused([&] {
    app::Arguments arguments({"--value=" + text});
    arguments.parse("usage", options, 0, 0);
    arguments.real("--value", 0, -1e9, 1e9);
    return arguments.integer("--value", 0, -100, 100);
  });
}

void check(const std::string& text) {
  try {
    check_value(io::parse_toml_value(text));
  } catch (const io::TomlError&) {  // is no value
  }
  check_option(text);
  if (const auto seconds = launch::parse_time_left(text); seconds && !(*seconds >= 0))
    fuzz::finding(format("{} seconds left", *seconds));
  if (const auto step = io::step_of(text))
    fuzz::require_equal("the name of a step", io::step_name(*step), text);
  const auto table = config::deck_table();
  if (text.size() < 200) {
    io::unknown_key_text(text, table);
    io::unknown_section_text(text, table);
  }
}

}  // namespace
}  // namespace trireme

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  trireme::check({reinterpret_cast<const char*>(data), size});
  return 0;
}
