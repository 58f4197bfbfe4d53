// for_chunks(): how host kernels share their rows among threads.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "base/split.hpp"

namespace trireme::kernels {

// A borrowed callable void(std::int64_t): one indirect call a chunk, no allocation.
class ChunkBody {
 public:
  template <class F>
  ChunkBody(const F& f)  // NOLINT: converts on purpose
      : object_(&f), call_([](const void* object, std::int64_t i) {
          (*static_cast<const F*>(object))(i);
        }) {}
  void operator()(std::int64_t i) const { call_(object_, i); }

 private:
  const void* object_;
  void (*call_)(const void*, std::int64_t);
};

// Calls body(i) for every i in [0, chunks), each once, by all threads of the process, and
// returns when all are done. Thread t gets a contiguous range of chunks. Calls from
// inside a body run serially. Implemented on Kokkos's default host space when that has
// threads (chunks_kokkos.cpp), else on OpenMP threads around Kokkos::Serial
// (chunks_openmp.cpp).
void run_chunks(const char* label, std::int64_t chunks, const ChunkBody& body);

// Calls f(begin, end) for consecutive ranges that cover [0, n), at least `grain` indices
// each (but for the last), in parallel. The ranges depend on the number of threads: use
// it where results of different indices are independent.
template <class F>
void for_ranges(const char* label, std::int64_t n, std::int64_t grain, int threads,
                const F& f) {
  if (n <= 0) return;
  const std::int64_t parts =
      std::clamp<std::int64_t>(n / std::max<std::int64_t>(grain, 1), 1, 4 * threads);
  run_chunks(label, parts, ChunkBody([&](std::int64_t i) {
               const Range range = split_range(n, parts, i);
               f(range.begin, range.end);
             }));
}

// The number of partial sums of a reduction over n indices: a function of n alone, so
// that the order of the sum, and its bits, do not depend on the number of threads.
constexpr std::int64_t reduction_parts(std::int64_t n, std::int64_t grain) {
  return std::clamp<std::int64_t>(n / std::max<std::int64_t>(grain, 1), 1, 32);
}

}  // namespace trireme::kernels
