// The log.
// SPDX-License-Identifier: Apache-2.0
#include "base/log.hpp"

#include <cstdio>
#include <string>

namespace trireme::log {
namespace {

int current_rank = 0;
bool is_quiet = false;

void write(std::FILE* file, std::string_view text) {
  std::string whole(text);
  whole += '\n';  // one write a line, so that lines of several ranks do not mix
  std::fwrite(whole.data(), 1, whole.size(), file);
  std::fflush(file);
}

}  // namespace

void set_rank(int rank) { current_rank = rank; }
void set_quiet(bool quiet) { is_quiet = quiet; }
bool speaks() { return current_rank == 0 && !is_quiet; }
void line(std::string_view text) {
  if (speaks()) write(stdout, text);
}
void error(std::string_view text) { write(stderr, text); }

}  // namespace trireme::log
