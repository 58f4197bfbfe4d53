// Statuses that ranks leave for each other, and what a hang's report makes of them.
// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include "comm/rank_status.hpp"
#include "fuzz.hpp"

namespace trireme {
namespace {

constexpr std::size_t most_lines = 4;

// Two statuses, with a line "--" between them.
void check(std::string_view input) {
  const auto [first, second] = fuzz::split_at(input, "--");
  std::vector<std::optional<comm::RankStatus>> statuses = {comm::read_status(first),
                                                           comm::read_status(second)};
  if (comm::describe_hang(statuses, most_lines).empty()) fuzz::finding("no word");
  for (const auto& status : statuses) {
    if (!status) continue;
    const std::string text = comm::write_status(*status);
    const auto again = comm::read_status(text);
    if (!again) fuzz::finding("is written and not read:\n" + text);
    fuzz::require_equal("the status", text, comm::write_status(*again));
  }
}

}  // namespace
}  // namespace trireme

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  trireme::check({reinterpret_cast<const char*>(data), size});
  return 0;
}
