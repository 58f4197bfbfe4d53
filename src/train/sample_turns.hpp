// SampleOrder: which sample comes at which place of a run, of blends too.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "io/sample_source.hpp"

namespace trireme::train {

// Where a place of a run leads.
struct SamplePlace {
  std::int64_t sample = 0;  // its number in the source
  std::int64_t epoch = 0;   // of the source, or of the blended one that it is from
  std::size_t source = 0;   // which of a blend
};

// In turn, the source that lags furthest behind its weight: place i goes to the one of
// the largest weight * max(i, 1) - samples taken, the first of those. (Megatron-LM,
// build_blending_indices; in double, with its order of operations.)
class SourceInterleave {
 public:
  explicit SourceInterleave(std::vector<double> weights);
  struct Turn {
    std::size_t source;
    std::int64_t number;  // of that source's samples, counted through all epochs
  };
  // Of place `index`. Cost: weights x places since the last call; from the beginning when
  // the index lies before that of the last call.
  Turn at(std::int64_t index);

 private:
  std::vector<double> weights_;
  std::vector<std::int64_t> taken_;
  std::int64_t next_ = 0;
  Turn last_{};
};

// The order of a run: a pure function of (source, seed, index), which any mesh and any
// run that resumes computes alike. One source: sample_at(). A blend: its turns, and each
// source in an order of its own with its own epochs. For one thread.
class SampleOrder {
 public:
  SampleOrder(const io::SampleSource& source, std::uint64_t seed);
  // Place `global_index` of the run, counted from 0. Ascending indices are cheap.
  SamplePlace at(std::int64_t global_index);

 private:
  const io::SampleSource& source_;
  std::uint64_t seed_;
  std::vector<std::uint64_t> seeds_;  // of a blend's sources
  SourceInterleave turns_;
};

}  // namespace trireme::train
