// What the ranks of an emulated communicator share: who they are, and bytes on their way.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "kernels/cuda_emulation/stall.hpp"

namespace trireme::cuda_emulation::nccl {

inline constexpr int most_ranks = 16;

// Bytes from one rank to another, in order. One process writes, one reads.
struct Ring {
  static constexpr std::size_t capacity = std::size_t{1} << 16;

  alignas(64) std::atomic<std::uint64_t> written;
  alignas(64) std::atomic<std::uint64_t> read;
  alignas(64) std::array<char, capacity> bytes;

  // As many of `count` bytes as there is room for, or as have come; returns how many.
  std::size_t write(const char* from, std::size_t count);
  std::size_t take(char* to, std::size_t count);
};

// How another process finds a segment: what ncclUniqueId holds.
struct SegmentName {
  std::uint64_t magic = 0;
  int process = 0, file = 0;
  bool is_valid() const;
};

// A rank's word in a split: its color and key, and, from the first rank of a color, the
// new segment.
struct SplitWord {
  std::atomic<std::uint64_t> splits;  // that this rank has spoken in
  int color, key;
  std::atomic<std::uint64_t> made;  // splits for which `made_segment` holds
  SegmentName made_segment;
};

struct Member {
  std::atomic<bool> has_come;
  StallPage page;
  std::atomic<bool> wants_collectives;  // has called its first one: connections are made
  std::array<std::atomic<bool>, most_ranks> wants_peer;  // the same of a send or receive
  // Of the last two splits: a rank may be in the next one while another still reads.
  std::array<SplitWord, 2> split;
};

struct Segment {
  std::array<Member, most_ranks> members;
  std::array<std::array<Ring, most_ranks>, most_ranks> rings;  // [from][to]

  static SegmentName create();
  static Segment* attach(const SegmentName& name);
  static void detach(Segment* segment);
  static void close(const SegmentName& name);  // by its creator, when all have attached
};

}  // namespace trireme::cuda_emulation::nccl
