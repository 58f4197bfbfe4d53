// The log.
// SPDX-License-Identifier: Apache-2.0
#include "base/log.hpp"

#include <cstdio>
#include <string>

#include "base/output.hpp"
#include "base/text.hpp"

namespace trireme::log {
namespace {

int current_rank = 0;
bool is_quiet = false;

// One write a line, so that lines of several ranks do not mix.
std::string whole_line(std::string_view text) { return for_terminal(text) + '\n'; }

}  // namespace

void set_rank(int rank) { current_rank = rank; }
void set_quiet(bool quiet) { is_quiet = quiet; }
bool speaks() { return current_rank == 0 && !is_quiet; }
void line(std::string_view text) {
  if (speaks()) output::write(whole_line(text));
}
void error(std::string_view text) {
  const std::string whole = whole_line(text);
  std::fwrite(whole.data(), 1, whole.size(), stderr);
  std::fflush(stderr);
}

}  // namespace trireme::log
