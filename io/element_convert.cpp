// Elements of one type as elements of another.
// SPDX-License-Identifier: Apache-2.0
#include "io/element_convert.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>

namespace trireme::io {
namespace {

constexpr std::int64_t most_bytes = std::int64_t{1} << 62;

template <class F>
void visit_integer(DType type, const F& f) {
  switch (type) {
    case DType::i64: return f(std::int64_t{});
    case DType::i32: return f(std::int32_t{});
    case DType::u16: return f(std::uint16_t{});
    case DType::u8: return f(std::uint8_t{});
    default: fail(Status::internal, "{} is no integer type", name_of(type));
  }
}

template <class To, class From>
To converted(From value) {
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else if constexpr (std::is_integral_v<To> && std::is_integral_v<From>) {
    const auto whole = static_cast<std::int64_t>(value);
    return static_cast<To>(
        std::clamp(whole, static_cast<std::int64_t>(std::numeric_limits<To>::min()),
                   static_cast<std::int64_t>(std::numeric_limits<To>::max())));
  } else if constexpr (std::is_arithmetic_v<To> && std::is_arithmetic_v<From>) {
    return static_cast<To>(value);
  } else {
    return static_cast<To>(static_cast<float>(value));
  }
}

// By way of memcpy, for a box may lie at any byte of a file.
template <class From, class To>
void convert_all(const std::byte* from, std::byte* to, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i, from += sizeof(From), to += sizeof(To)) {
    From value;
    std::memcpy(&value, from, sizeof value);
    const To result = converted<To>(value);
    std::memcpy(to, &result, sizeof result);
  }
}

}  // namespace

bool is_integer(DType dtype) {
  return dtype == DType::i64 || dtype == DType::i32 || dtype == DType::u16 ||
         dtype == DType::u8;
}

bool converts(DType from, DType to) {
  return from == to || (is_floating(from) && is_floating(to)) ||
         (is_integer(from) && is_integer(to));
}

void convert_elements(const void* from, DType from_type, void* to, DType to_type,
                      std::int64_t count) {
  require(converts(from_type, to_type), "{} does not convert to {}", name_of(from_type),
          name_of(to_type));
  if (from_type == to_type) {
    std::memcpy(to, from, static_cast<std::size_t>(count) * size_of(from_type));
    return;
  }
  const auto* source = static_cast<const std::byte*>(from);
  auto* target = static_cast<std::byte*>(to);
  const auto run = [&](auto a, auto b) {
    convert_all<decltype(a), decltype(b)>(source, target, count);
  };
  if (is_floating(from_type)) {
    visit_floating(from_type,
                   [&](auto a) { visit_floating(to_type, [&](auto b) { run(a, b); }); });
  } else {
    visit_integer(from_type,
                  [&](auto a) { visit_integer(to_type, [&](auto b) { run(a, b); }); });
  }
}

std::optional<std::int64_t> bytes_of(const Shape& shape, DType dtype) {
  auto bytes = static_cast<std::int64_t>(size_of(dtype));
  bool empty = false;
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape[i] < 0 || shape[i] > most_bytes) return {};
    empty = empty || shape[i] == 0;
  }
  if (empty) return 0;
  for (int i = 0; i < shape.rank(); ++i) {
    if (bytes > most_bytes / shape[i]) return {};
    bytes *= shape[i];
  }
  return bytes;
}

}  // namespace trireme::io
