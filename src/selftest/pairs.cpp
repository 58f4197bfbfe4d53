// Who sends to whom when all places of a job are measured in pairs.
// SPDX-License-Identifier: Apache-2.0
#include "selftest/pairs.hpp"

namespace trireme::selftest {

int pair_rounds(int places) {
  int rounds = 0;
  for (int distance = 1; distance < places; distance *= 2) rounds += 2;
  return rounds;
}

// Places lie in stretches of `distance`. In even rounds each second stretch, from the
// first on, is paired with the next one, in odd rounds each second from the second on.
int partner_of(int place, int places, int round) {
  const int distance = 1 << (round / 2);
  const bool goes_up = place / distance % 2 == round % 2;
  const int partner = goes_up ? place + distance : place - distance;
  return partner >= 0 && partner < places ? partner : -1;
}

}  // namespace trireme::selftest
