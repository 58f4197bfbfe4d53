// Who sends to whom when all places of a job are measured in pairs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace trireme::selftest {

// Twice the logarithm: with neighbours 1, 2, 4, ... places away, on one side and then on
// the other. No round has a place in two pairs, and of three places or more each is
// paired with two others at least, so that a slow one can be told from its partners.
int pair_rounds(int places);

// The place that `place` is paired with in a round; -1: it waits.
int partner_of(int place, int places, int round);

}  // namespace trireme::selftest
