// Positions that ranks leave for each other, and what a hang's report makes of them.
// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include "comm/position.hpp"
#include "fuzz.hpp"

namespace trireme {
namespace {

constexpr std::size_t most_lines = 4;

// Two positions, with a line "--" between them.
void check(std::string_view input) {
  const auto [first, second] = fuzz::split_at(input, "--");
  std::vector<std::optional<comm::Position>> positions = {comm::read_position(first),
                                                          comm::read_position(second)};
  if (comm::describe_hang(positions, most_lines).empty()) fuzz::finding("no word");
  for (const auto& position : positions) {
    if (!position) continue;
    const std::string text = comm::write_position(*position);
    const auto again = comm::read_position(text);
    if (!again) fuzz::finding("is written and not read:\n" + text);
    fuzz::require_equal("the position", text, comm::write_position(*again));
  }
}

}  // namespace
}  // namespace trireme

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  trireme::check({reinterpret_cast<const char*>(data), size});
  return 0;
}
