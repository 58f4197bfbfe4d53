// Protocol buffers' wire format, to be written: numbers, texts and messages as fields.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>
#include <string>

namespace trireme::io::wire {

// A field is its number and wire type as one varint, then the value.
enum class Type : unsigned { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

template <class T>
std::string little_endian(T value) {
  std::string out;
  for (std::size_t i = 0; i < sizeof value; ++i)
    out += static_cast<char>((value >> (8 * i)) & 0xff);
  return out;
}

inline std::string varint(std::uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out += static_cast<char>((value & 0x7f) | 0x80);
  return out + static_cast<char>(value);
}

inline std::string field(unsigned number, Type type, const std::string& value) {
  return varint(number << 3 | static_cast<unsigned>(type)) + value;
}

// An integer, an enumeration or a truth value.
inline std::string whole(unsigned number, std::uint64_t value) {
  return field(number, Type::varint, varint(value));
}

// A text or a message.
inline std::string bytes(unsigned number, const std::string& value) {
  return field(number, Type::bytes, varint(value.size()) + value);
}

inline std::string real64(unsigned number, double value) {
  return field(number, Type::fixed64, little_endian(std::bit_cast<std::uint64_t>(value)));
}

inline std::string real32(unsigned number, float value) {
  return field(number, Type::fixed32, little_endian(std::bit_cast<std::uint32_t>(value)));
}

}  // namespace trireme::io::wire
