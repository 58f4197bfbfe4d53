// Rows that pass through memory some at a time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

namespace trireme {

// What is read, converted or made on its way elsewhere is held so much of at a time.
inline constexpr std::int64_t window_bytes = std::int64_t{4} << 20;
inline constexpr std::int64_t window_elements = std::int64_t{1} << 20;

// How many of `rows` rows of `row` each are at most `most`, these two in bytes or both in
// elements: at least 1, and no more than there are.
constexpr std::int64_t rows_at_once(std::int64_t rows, std::int64_t row,
                                    std::int64_t most) {
  return std::clamp<std::int64_t>(most / std::max<std::int64_t>(row, 1), 1,
                                  std::max<std::int64_t>(rows, 1));
}

// All rows in their order, so many at a time:
//   for (const auto [first, count] : RowWindows(rows, row_bytes, window_bytes)) ...
class RowWindows {
 public:
  struct Window {
    std::int64_t first, count;
  };
  struct End {};
  struct Iterator {
    std::int64_t first, rows, at_once;

    Window operator*() const { return {first, std::min(at_once, rows - first)}; }
    Iterator& operator++() {
      first += at_once;
      return *this;
    }
    bool operator!=(End) const { return first < rows; }
  };

  RowWindows(std::int64_t rows, std::int64_t row, std::int64_t most)
      : begin_{0, rows, rows_at_once(rows, row, most)} {}

  Iterator begin() const { return begin_; }
  End end() const { return {}; }

 private:
  Iterator begin_;
};

}  // namespace trireme
