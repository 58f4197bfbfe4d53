// What lanes of a warp do when they have met: shuffles and votes.
// SPDX-License-Identifier: Apache-2.0
#include "cuda_emulation/warp.hpp"

#include <bit>

namespace trireme::cuda_emulation {

// PTX ISA, shfl.sync: segments of `width` lanes; a source past the segment's end (or
// before its start, for up) is the lane itself. An xor may reach into segments before the
// lane's own.
unsigned shuffle_source(WarpOperation operation, unsigned operand, int width,
                        const Source& where) {
  const auto lanes = static_cast<unsigned>(width);
  if (lanes > 32 || !std::has_single_bit(lanes)) {
    fail_in_kernel("the width of a shuffle must be 1, 2, 4, 8, 16 or 32", where);
  }
  const unsigned lane = lane_index(), first = lane & ~(lanes - 1),
                 last = first + lanes - 1;
  operand &= 31u;
  switch (operation) {
    case WarpOperation::shfl_up: return lane < first + operand ? lane : lane - operand;
    case WarpOperation::shfl_down: return lane + operand > last ? lane : lane + operand;
    case WarpOperation::shfl_xor: return (lane ^ operand) > last ? lane : lane ^ operand;
    default: return first | (operand & (lanes - 1));
  }
}

void complete_shuffle(Arguments arguments) {
  for (int lane = 0; lane < warpSize; ++lane) {
    auto* mine = static_cast<Shuffle*>(arguments[lane]);
    if (mine == nullptr) continue;
    const auto* source = static_cast<const Shuffle*>(arguments[mine->source]);
    mine->result = source == nullptr ? ~0ull : source->value;
  }
}

void complete_vote(Arguments arguments) {
  unsigned ballot = 0;
  for (int lane = 0; lane < warpSize; ++lane) {
    const auto* vote = static_cast<const Vote*>(arguments[lane]);
    if (vote != nullptr && vote->predicate) ballot |= 1u << lane;
  }
  for (int lane = 0; lane < warpSize; ++lane) {
    if (arguments[lane] != nullptr) static_cast<Vote*>(arguments[lane])->result = ballot;
  }
}

void complete_match(Arguments arguments) {
  for (int lane = 0; lane < warpSize; ++lane) {
    auto* mine = static_cast<Match*>(arguments[lane]);
    if (mine == nullptr) continue;
    for (int other = 0; other < warpSize; ++other) {
      const auto* theirs = static_cast<const Match*>(arguments[other]);
      if (theirs != nullptr && theirs->value == mine->value) mine->result |= 1u << other;
    }
  }
}

}  // namespace trireme::cuda_emulation
