// format("{} of {}", a, b): a small stand-in for std::format, which GCC 12 lacks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <sstream>
#include <string>
#include <string_view>

namespace trireme {

// Replaces each "{}" of `text` by the next argument, written with operator<<. Surplus
// arguments are dropped; surplus "{}" stay as they are.
template <class... Args>
std::string format(std::string_view text, const Args&... args) {
  std::ostringstream out;
  [[maybe_unused]] const auto put = [&](const auto& value) {
    const auto at = text.find("{}");
    out << text.substr(0, at);
    if (at == std::string_view::npos) {
      text = {};
      return;
    }
    out << value;
    text.remove_prefix(at + 2);
  };
  (put(args), ...);
  out << text;
  return out.str();
}

// `value` with `digits` digits after the point: fixed(2.0, 3) is "2.000".
std::string fixed(double value, int digits);

// The shortest decimal text that reads back as exactly `value` ("inf", "nan" otherwise).
std::string exact(double value);

// A size for people, in binary units: "1.50 GiB".
std::string human_bytes(double bytes);

// A duration for people: "850 ms", "12.3 s", "3 min 20 s", "2 h 05 min".
std::string human_seconds(double seconds);

// A count for people: "950", "12.3 k", "124 M", "1.30 G".
std::string human_count(double count);

}  // namespace trireme
