// Numbers as text, for logs and messages.
// SPDX-License-Identifier: Apache-2.0
#include "base/format.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>

namespace trireme {

std::string fixed(double value, int digits) {
  if (std::isnan(value)) return "nan";  // whose sign says nothing
  std::array<char, 512> text{};
  // At most 309 digits before the point.
  const int length =
      std::snprintf(text.data(), text.size(), "%.*f", std::clamp(digits, 0, 150), value);
  return {text.data(), static_cast<std::size_t>(length)};
}

std::string exact(double value) {
  std::array<char, 64> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  return {text.data(), end};
}

std::string human_bytes(double bytes) {
  if (!(std::abs(bytes) < 1e21)) return exact(bytes) + " B";
  constexpr std::array units = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  std::size_t unit = 0;
  while (std::abs(bytes) >= 1024.0 && unit + 1 < units.size()) {
    bytes /= 1024.0;
    ++unit;
  }
  return fixed(bytes, unit == 0 ? 0 : 2) + " " + units[unit];
}

std::string human_seconds(double seconds) {
  if (!(seconds >= 0) || std::isinf(seconds)) return "unknown";
  if (seconds < 1) return fixed(seconds * 1e3, 0) + " ms";
  if (seconds < 100) return fixed(seconds, 1) + " s";
  if (seconds > 1e15) return exact(seconds) + " s";  // beyond whole numbers
  const auto total = static_cast<std::int64_t>(std::llround(seconds));
  std::array<char, 64> text{};
  if (total < 3600) {
    std::snprintf(text.data(), text.size(), "%lld min %02lld s",
                  static_cast<long long>(total / 60), static_cast<long long>(total % 60));
  } else {
    std::snprintf(text.data(), text.size(), "%lld h %02lld min",
                  static_cast<long long>(total / 3600),
                  static_cast<long long>(total / 60 % 60));
  }
  return text.data();
}

std::string human_count(double count) {
  if (!(std::abs(count) < 1e24)) return exact(count);
  constexpr std::array units = {"", " k", " M", " G", " T", " P", " E", " Z"};
  std::size_t unit = 0;
  while (std::abs(count) >= 1000.0 && unit + 1 < units.size()) {
    count /= 1000.0;
    ++unit;
  }
  const int digits = unit == 0               ? 0
                     : std::abs(count) < 10  ? 2
                     : std::abs(count) < 100 ? 1
                                             : 0;
  return fixed(count, digits) + units[unit];
}

}  // namespace trireme
