// Numbers that a file, a command line or the environment gives as text.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace trireme {

// The number that the whole of `text` is: no blanks, no sign but "-", nothing behind it,
// whatever the locale. T is int, std::int64_t, std::uint64_t or double. A double may be
// "inf" or "nan", and one that is too small reads as the nearest that there is, 0 at the
// last. Nothing for any other text, and for a number that is too large for T.
template <class T>
std::optional<T> parse_number(std::string_view text);
template <>
std::optional<double> parse_number(std::string_view text);

// The same of hexadecimal digits without a prefix.
std::optional<std::uint64_t> parse_hexadecimal(std::string_view text);

}  // namespace trireme
