// Memory that is asked for while something else is done, so that it is near when needed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/split.hpp"

namespace trireme::kernels {

// Asks for `bytes` of what is read from end to end and wanted 96 cache lines later, into
// the second cache: what a core fetches by itself of a stream that it multiplies is two
// thirds to three quarters of the rate at which it can read.
[[gnu::always_inline]] inline void fetch_ahead(const void* at, std::int64_t bytes) {
  constexpr std::int64_t line = 64, ahead = 96 * line;
  for (std::int64_t i = 0; i < bytes; i += line)
    __builtin_prefetch(static_cast<const char*>(at) + ahead + i, 0, 2);
}

// Rows of memory whose cache lines are asked for into the second cache, a share at a
// time.
class Ahead {
 public:
  Ahead() = default;  // nothing
  // `rows` of `bytes` each, `stride` bytes apart, in `calls` calls of fetch().
  Ahead(const void* begin, std::int64_t rows, std::int64_t bytes, std::int64_t stride,
        std::int64_t calls)
      : row_(static_cast<const char*>(begin)),
        rows_(rows),
        bytes_(bytes),
        stride_(stride),
        share_(divide_up(rows * (divide_up(bytes, line) + 1), calls)) {}

  void fetch() {
    for (std::int64_t i = 0; i < share_ && rows_ > 0; ++i) {
      __builtin_prefetch(row_ + at_, 0, 2);
      at_ += line;
      if (at_ < bytes_) continue;
      row_ += stride_;
      at_ = 0;
      --rows_;
    }
  }

 private:
  static constexpr std::int64_t line = 64;
  const char* row_ = nullptr;
  std::int64_t rows_ = 0, bytes_ = 0, stride_ = 0, share_ = 0;
  std::int64_t at_ = 0;  // of the row
};

}  // namespace trireme::kernels
