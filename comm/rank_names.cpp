// What ranks are called in names of files, and the host that this one runs on.
// SPDX-License-Identifier: Apache-2.0
#include "comm/rank_names.hpp"

#include <unistd.h>

#include <array>

namespace trireme::comm {

std::string five_digits(int rank) {
  const std::string digits = std::to_string(rank);
  return digits.size() < 5 ? std::string(5 - digits.size(), '0') + digits : digits;
}

std::string own_host() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

}  // namespace trireme::comm
