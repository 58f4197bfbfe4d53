// Operations among the lanes of a warp: __syncwarp, shuffles, votes, reductions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstring>
#include <source_location>
#include <type_traits>

#include "cuda_emulation/thread.hpp"

namespace trireme::cuda_emulation {

// A lane's value as it is exchanged, the lane that it wants, and what it gets. A value
// from a lane that takes no part is undefined in CUDA; here all its bits are 1.
struct Shuffle {
  unsigned long long value;
  unsigned source;
  unsigned long long result;
};
void complete_shuffle(Arguments arguments);

struct Vote {
  bool predicate;
  unsigned result;
};
void complete_vote(Arguments arguments);

template <class T>
concept Shuffled = std::is_trivially_copyable_v<T> &&
    (sizeof(T) == 2 || sizeof(T) == 4 || sizeof(T) == 8);

// What CUDA can shuffle; cuda_bf16.h and cuda_fp16.h add their types.
template <class T>
inline constexpr bool is_shuffled = std::is_arithmetic_v<T> &&
                                    (sizeof(T) == 4 || sizeof(T) == 8);

// The lane that each shuffle reads, by the PTX ISA's `shfl.sync` (its `j`).
unsigned shuffle_source(WarpOperation operation, unsigned operand, int width,
                        const Source& where);

struct Match {
  unsigned long long value;
  unsigned result;
};
void complete_match(Arguments arguments);

template <Shuffled T>
T shuffle(WarpOperation operation, unsigned mask, T value, unsigned operand, int width,
          const Source& where) {
  Shuffle mine{0, shuffle_source(operation, operand, width, where), 0};
  std::memcpy(&mine.value, &value, sizeof value);
  meet(operation, mask, &mine, complete_shuffle, where);
  std::memcpy(&value, &mine.result, sizeof value);
  return value;
}

inline unsigned vote(WarpOperation operation, unsigned mask, int predicate,
                     const Source& where) {
  Vote mine{predicate != 0, 0};
  meet(operation, mask, &mine, complete_vote, where);
  return mine.result;
}

template <class T>
struct Reduce {
  T value, result;
};

template <class T, auto combine>
void complete_reduce(Arguments arguments) {
  T total{};
  bool first = true;
  for (int lane = 0; lane < warpSize; ++lane) {
    if (arguments[lane] == nullptr) continue;
    const T value = static_cast<const Reduce<T>*>(arguments[lane])->value;
    total = first ? value : combine(total, value);
    first = false;
  }
  for (int lane = 0; lane < warpSize; ++lane) {
    if (arguments[lane] != nullptr) {
      static_cast<Reduce<T>*>(arguments[lane])->result = total;
    }
  }
}

template <auto combine, class T>
T reduce(WarpOperation operation, unsigned mask, T value, const Source& where) {
  Reduce<T> mine{value, T{}};
  meet(operation, mask, &mine, complete_reduce<T, combine>, where);
  return mine.result;
}

// Unsigned, so that a sum may wrap as it does on a GPU.
inline constexpr auto wrapped_sum = [](auto a, auto b) {
  return static_cast<decltype(a)>(static_cast<unsigned>(a) + static_cast<unsigned>(b));
};
inline constexpr auto smaller = [](auto a, auto b) { return b < a ? b : a; };
inline constexpr auto larger = [](auto a, auto b) { return a < b ? b : a; };
inline constexpr auto bit_and = [](auto a, auto b) { return a & b; };
inline constexpr auto bit_or = [](auto a, auto b) { return a | b; };
inline constexpr auto bit_xor = [](auto a, auto b) { return a ^ b; };

}  // namespace trireme::cuda_emulation

#define TRIREME_SOURCE const std::source_location& where = std::source_location::current()

inline void __syncwarp(unsigned mask = 0xffffffffu, TRIREME_SOURCE) {
  using namespace trireme::cuda_emulation;
  meet(WarpOperation::sync, mask, nullptr, nullptr, where);
}

// The lanes that happen to run together: CUDA promises the caller alone, and so does
// this.
inline unsigned __activemask() { return 1u << trireme::cuda_emulation::lane_index(); }

#define TRIREME_SHUFFLE(name, operation, Operand)                                      \
  template <class T>                                                                   \
  requires trireme::cuda_emulation::is_shuffled<T> T name(                             \
      unsigned mask, T value, Operand operand, int width = warpSize, TRIREME_SOURCE) { \
    using namespace trireme::cuda_emulation;                                           \
    return shuffle(WarpOperation::operation, mask, value,                              \
                   static_cast<unsigned>(operand), width, where);                      \
  }
TRIREME_SHUFFLE(__shfl_sync, shfl, int)
TRIREME_SHUFFLE(__shfl_up_sync, shfl_up, unsigned)
TRIREME_SHUFFLE(__shfl_down_sync, shfl_down, unsigned)
TRIREME_SHUFFLE(__shfl_xor_sync, shfl_xor, int)
#undef TRIREME_SHUFFLE

inline unsigned __ballot_sync(unsigned mask, int predicate, TRIREME_SOURCE) {
  using namespace trireme::cuda_emulation;
  return vote(WarpOperation::ballot, mask, predicate, where);
}
inline int __any_sync(unsigned mask, int predicate, TRIREME_SOURCE) {
  using namespace trireme::cuda_emulation;
  return vote(WarpOperation::any, mask, predicate, where) != 0;
}
inline int __all_sync(unsigned mask, int predicate, TRIREME_SOURCE) {
  using namespace trireme::cuda_emulation;
  return vote(WarpOperation::all, mask, predicate == 0, where) == 0;
}

// The lanes of `mask` whose value has the same bits.
template <class T>
requires trireme::cuda_emulation::is_shuffled<T>
unsigned __match_any_sync(unsigned mask, T value, TRIREME_SOURCE) {
  using namespace trireme::cuda_emulation;
  Match mine{0, 0};
  std::memcpy(&mine.value, &value, sizeof value);
  meet(WarpOperation::match_any, mask, &mine, complete_match, where);
  return mine.result;
}

#define TRIREME_REDUCE(name, operation, combine, T)                       \
  inline T name(unsigned mask, T value, TRIREME_SOURCE) {                 \
    using namespace trireme::cuda_emulation;                              \
    return reduce<combine>(WarpOperation::operation, mask, value, where); \
  }
TRIREME_REDUCE(__reduce_add_sync, reduce_add, wrapped_sum, int)
TRIREME_REDUCE(__reduce_add_sync, reduce_add, wrapped_sum, unsigned)
TRIREME_REDUCE(__reduce_min_sync, reduce_min, smaller, int)
TRIREME_REDUCE(__reduce_min_sync, reduce_min, smaller, unsigned)
TRIREME_REDUCE(__reduce_max_sync, reduce_max, larger, int)
TRIREME_REDUCE(__reduce_max_sync, reduce_max, larger, unsigned)
TRIREME_REDUCE(__reduce_and_sync, reduce_and, bit_and, unsigned)
TRIREME_REDUCE(__reduce_or_sync, reduce_or, bit_or, unsigned)
TRIREME_REDUCE(__reduce_xor_sync, reduce_xor, bit_xor, unsigned)
#undef TRIREME_REDUCE
#undef TRIREME_SOURCE
