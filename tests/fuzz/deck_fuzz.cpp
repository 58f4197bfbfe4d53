// Fuzzes decks and overrides: what the table of keys accepts is printed and read back.
// SPDX-License-Identifier: Apache-2.0
#include <sstream>
#include <vector>

#include "config/deck_table.hpp"
#include "fuzz.hpp"
#include "io/deck.hpp"

namespace trireme {
namespace {

// The deck, then a line "--", then an override a line.
void check(std::string_view input) {
  const auto [text, rest] = fuzz::split_at(input, "--");
  std::vector<std::string> overrides;
  std::istringstream lines(rest);
  for (std::string line; std::getline(lines, line);) overrides.push_back(line);
  const auto table = config::deck_table();
  const io::Deck deck = io::Deck::parse_leniently(text, "deck", overrides, table);
  for (const auto& problem : deck.problems())
    if (problem.message().empty()) fuzz::finding("a problem without a message");
  fuzz::unless_refused([&] {
    deck.require_sound();
    return true;
  });
  const std::string effective = deck.effective();
  if (!deck.problems().empty()) return;
  const io::Deck again = io::Deck::parse(effective, "effective", {}, table);
  fuzz::require_equal("the effective deck", effective, again.effective());
}

}  // namespace
}  // namespace trireme

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  trireme::check({reinterpret_cast<const char*>(data), size});
  return 0;
}
