// Writes one page of help to standard output, without starting MPI.
// SPDX-License-Identifier: Apache-2.0
// Installed pages are made so at build time: on some machines MPI starts only in a job.
#include <iostream>

#include "app/help_text.hpp"

int main(int argc, char** argv) {
  const auto page = trireme::app::help_page(argc == 2 ? argv[1] : "");
  if (!page) return 64;
  std::cout << *page << "\n" << std::flush;
  return std::cout.good() ? 0 : 74;
}
