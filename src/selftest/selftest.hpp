// The self-test: every check on every rank, a line each, and who is wrong.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "selftest/check.hpp"

namespace trireme::selftest {

// A result that is spoiled on purpose: the first that `rank` compares in the first check
// whose name fits `pattern`. "PATTERN@RANK" in writing.
struct Fault {
  std::string pattern;
  int rank = 0;
};
std::optional<Fault> parse_fault(std::string_view text);

// Whether a check's name fits a pattern of the shell's kind: * and ?.
bool fits(const std::string& name, const std::string& pattern);

// The checks that the ranks of this world make, in their order.
std::vector<Check> all_checks(comm::World& world, const launch::ComputeDevice& on);

struct Summary {
  int checks = 0, left_out = 0, wrong = 0;
  double seconds = 0;
};

// Makes the checks and prints a line for each, and one for all. Collective over the
// world. Throws Error(corruption), on every rank, naming the ranks that were wrong with
// host and device; else what a check throws, with its name.
Summary run(comm::World& world, const launch::ComputeDevice& on,
            const std::vector<Check>& checks, const std::optional<Fault>& fault);

}  // namespace trireme::selftest
