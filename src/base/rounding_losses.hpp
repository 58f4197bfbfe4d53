// RoundingLosses: what rounding to few bits has taken from numbers of one class.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace trireme {

// Counts, in double so that they can be summed over ranks.
struct RoundingLosses {
  double elements = 0;   // that were rounded
  double saturated = 0;  // of them were beyond the largest number, infinities too
  double flushed = 0;    // of them became 0 and were not
  double scale = 0;      // the largest of numbers that were not 0
};

}  // namespace trireme
