// Element types: the C++ type of each, sizes, names, and dispatch from a run-time tag.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/error.hpp"

namespace trireme {

// e4m3, e5m2: codes of FP8 numbers (kernels/fp8.hpp); their scales are kept beside them.
enum class DType : std::uint8_t { f64, f32, bf16, f16, i64, i32, u16, u8, e4m3, e5m2 };

// bfloat16: the upper half of an IEEE binary32. Conversion rounds to nearest, ties to
// even; NaN stays NaN.
struct BFloat16 {
  std::uint16_t bits = 0;
  BFloat16() = default;
  explicit BFloat16(float value) {
    const auto u = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
    const std::uint32_t quiet_nan = (u >> 16) | 0x40u;
    bits =
        static_cast<std::uint16_t>((u & 0x7fffffffu) > 0x7f800000u ? quiet_nan : rounded);
  }
  explicit operator float() const {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
  }
};

// IEEE binary16. Conversion rounds to nearest, ties to even, and overflows to infinity.
// Uses the compiler's _Float16, which GCC 12 and Clang 15 have on x86-64 and AArch64.
struct Float16 {
  std::uint16_t bits = 0;
  Float16() = default;
  explicit Float16(float value)
      : bits(std::bit_cast<std::uint16_t>(static_cast<_Float16>(value))) {}
  explicit operator float() const {
    return static_cast<float>(std::bit_cast<_Float16>(bits));
  }
};

// Bytes of one element.
constexpr std::size_t size_of(DType type) {
  switch (type) {
    case DType::f64:
    case DType::i64: return 8;
    case DType::f32:
    case DType::i32: return 4;
    case DType::bf16:
    case DType::f16:
    case DType::u16: return 2;
    case DType::u8:
    case DType::e4m3:
    case DType::e5m2: return 1;
  }
  return 0;
}

// "fp64", "fp32", "bf16", "fp16", "int64", "int32", "uint16", "uint8", "e4m3", "e5m2":
// as decks write it.
constexpr std::string_view name_of(DType type) {
  switch (type) {
    case DType::f64: return "fp64";
    case DType::f32: return "fp32";
    case DType::bf16: return "bf16";
    case DType::f16: return "fp16";
    case DType::i64: return "int64";
    case DType::i32: return "int32";
    case DType::u16: return "uint16";
    case DType::u8: return "uint8";
    case DType::e4m3: return "e4m3";
    case DType::e5m2: return "e5m2";
  }
  return "?";
}

template <class T>
inline constexpr DType dtype_of = DType::u8;
template <>
inline constexpr DType dtype_of<double> = DType::f64;
template <>
inline constexpr DType dtype_of<float> = DType::f32;
template <>
inline constexpr DType dtype_of<BFloat16> = DType::bf16;
template <>
inline constexpr DType dtype_of<Float16> = DType::f16;
template <>
inline constexpr DType dtype_of<std::int64_t> = DType::i64;
template <>
inline constexpr DType dtype_of<std::int32_t> = DType::i32;
template <>
inline constexpr DType dtype_of<std::uint16_t> = DType::u16;

// The type in which sums over elements of type T are kept: double for double, else float.
template <class T>
struct AccumulatorOf {
  using type = float;
};
template <>
struct AccumulatorOf<double> {
  using type = double;
};
template <class T>
using Accumulator = typename AccumulatorOf<T>::type;

constexpr bool is_fp8(DType type) { return type == DType::e4m3 || type == DType::e5m2; }

// Codes of FP8 are not: they are numbers by their scales alone.
constexpr bool is_floating(DType type) {
  return type == DType::f64 || type == DType::f32 || type == DType::bf16 ||
         type == DType::f16;
}

// The same as a tag: f64 for f64, f32 for every other floating type.
constexpr DType accumulator_of(DType type) {
  return type == DType::f64 ? DType::f64 : DType::f32;
}

// Calls f(T{}) with the floating C++ type T of `type`. Throws if `type` is not floating.
template <class F>
decltype(auto) visit_floating(DType type, F&& f) {
  switch (type) {
    case DType::f64: return f(double{});
    case DType::f32: return f(float{});
    case DType::bf16: return f(BFloat16{});
    case DType::f16: return f(Float16{});
    default: fail(Status::internal, "{} is not a floating type", name_of(type));
  }
}

}  // namespace trireme
