// Narrow floating-point types and device functions of the emulated CUDA.
// SPDX-License-Identifier: Apache-2.0
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "cuda_emulation/test_support.hpp"

namespace trireme::cuda_emulation {
namespace {

// What the bits of a format mean, by its definition: (-1)^s 2^(e - bias) (1 + m / 2^M).
double by_definition(const Format& format, std::uint32_t bits) {
  const std::uint32_t m = bits & ((1u << format.mantissa) - 1);
  const auto e =
      static_cast<int>(bits >> format.mantissa & ((1u << format.exponent) - 1));
  const double sign = bits >> (format.width() - 1) != 0 ? -1 : 1;
  const double fraction = std::ldexp(m, -format.mantissa);
  return sign * (e == 0 ? std::ldexp(fraction, 1 - format.bias())
                        : std::ldexp(1 + fraction, e - format.bias()));
}

// Every number of the format reads as its definition says, is what itself rounds to, and
// meets the next one half way: ties go to the even one, the nearest doubles on either
// side do not.
template <class Encode, class Decode>
void check_format(const Format& format, Encode encode_x, Decode decode_bits) {
  const std::uint32_t minus = 1u << (format.width() - 1);
  for (std::uint32_t bits = 0; bits <= format.largest; ++bits) {
    const double x = by_definition(format, bits);
    ASSERT_EQ(static_cast<double>(decode_bits(bits)), x) << bits;
    ASSERT_EQ(static_cast<double>(decode_bits(bits | minus)), -x) << bits;
    ASSERT_EQ(encode_x(x), bits);
    ASSERT_EQ(encode_x(-x), bits | minus);
    if (bits == format.largest) break;
    const double middle = (x + by_definition(format, bits + 1)) / 2;
    ASSERT_EQ(encode_x(middle), bits + bits % 2) << bits;
    ASSERT_EQ(encode_x(-middle), (bits + bits % 2) | minus) << bits;
    ASSERT_EQ(encode_x(std::nextafter(middle, 0.0)), bits);
    ASSERT_EQ(encode_x(std::nextafter(middle, 1e300)), bits + 1);
  }
}

std::uint32_t bits_of(__nv_bfloat16 x) { return __bfloat16_as_ushort(x); }
std::uint32_t bits_of(__half x) { return __half_as_ushort(x); }
std::uint16_t narrow(std::uint32_t bits) { return static_cast<std::uint16_t>(bits); }

TEST(Bf16, RoundsDoublesToNearestEven) {
  check_format(
      bf16_format, [](double x) { return bits_of(__double2bfloat16(x)); },
      [](std::uint32_t bits) {
        return __bfloat162float(__ushort_as_bfloat16(narrow(bits)));
      });
}
TEST(Fp16, RoundsDoublesToNearestEven) {
  check_format(
      fp16_format, [](double x) { return bits_of(__double2half(x)); },
      [](std::uint32_t bits) { return __half2float(__ushort_as_half(narrow(bits))); });
}
TEST(Fp8, RoundsDoublesToNearestEven) {
  for (const auto kind : {__NV_E4M3, __NV_E5M2}) {
    const auto encode_x = [kind](double x) {
      return std::uint32_t{__nv_cvt_double_to_fp8(x, __NV_SATFINITE, kind)};
    };
    const auto decode_bits = [kind](std::uint32_t bits) {
      return __half2float(
          __nv_cvt_fp8_to_halfraw(static_cast<__nv_fp8_storage_t>(bits), kind));
    };
    check_format(kind == __NV_E4M3 ? e4m3_format : e5m2_format, encode_x, decode_bits);
  }
}

// All floats in steps, and those around every half-way point: the short way for floats
// agrees with the general one.
TEST(Bf16, RoundsFloatsLikeDoubles) {
  for (std::uint64_t i = 0; i < std::uint64_t{1} << 32; i += 977) {
    const auto x = std::bit_cast<float>(static_cast<std::uint32_t>(i));
    ASSERT_EQ(bits_of(__float2bfloat16_rn(x)), encode(bf16_format, x)) << i;
  }
  for (std::uint32_t high = 0; high < 65536; ++high) {
    for (const std::uint32_t low : {0x0000u, 0x7fffu, 0x8000u, 0x8001u}) {
      const auto x = std::bit_cast<float>(high << 16 | low);
      ASSERT_EQ(bits_of(__float2bfloat16_rn(x)), encode(bf16_format, x)) << high;
    }
  }
}

TEST(Numbers, OverflowInfinityAndNan) {
  const float infinity = INFINITY;
  EXPECT_EQ(bits_of(__float2bfloat16(infinity)), 0x7f80u);
  EXPECT_EQ(bits_of(__float2bfloat16(-std::numeric_limits<float>::max())), 0xff80u);
  EXPECT_EQ(bits_of(__float2bfloat16(NAN)), 0x7fffu);
  EXPECT_EQ(bits_of(__float2half(65519.996f)), 0x7bffu);
  EXPECT_EQ(bits_of(__float2half(65520.0f)), 0x7c00u);
  EXPECT_EQ(bits_of(__float2half(-infinity)), 0xfc00u);
  EXPECT_EQ(bits_of(__float2half(NAN)), 0x7fffu);
  EXPECT_TRUE(std::isnan(__half2float(__ushort_as_half(0x7e01))));
  EXPECT_EQ(__half2float(__ushort_as_half(0xfc00)), -infinity);
  EXPECT_EQ(__bfloat162float(__ushort_as_bfloat16(0xff80)), -infinity);

  const auto fp8 = [](float x, __nv_saturation_t saturate,
                      __nv_fp8_interpretation_t kind) {
    return int{__nv_cvt_float_to_fp8(x, saturate, kind)};
  };
  // The largest is 448; half way to the 480 that does not exist, 464 still rounds down to
  // it.
  EXPECT_EQ(fp8(464.0f, __NV_NOSAT, __NV_E4M3), 0x7e);
  EXPECT_EQ(fp8(464.1f, __NV_NOSAT, __NV_E4M3), 0x7f);
  EXPECT_EQ(fp8(-464.1f, __NV_SATFINITE, __NV_E4M3), 0xfe);
  EXPECT_EQ(fp8(infinity, __NV_SATFINITE, __NV_E4M3), 0x7e);
  EXPECT_EQ(fp8(NAN, __NV_SATFINITE, __NV_E4M3), 0x7f);
  EXPECT_EQ(fp8(61439.0f, __NV_NOSAT, __NV_E5M2), 0x7b);
  EXPECT_EQ(fp8(61440.0f, __NV_NOSAT, __NV_E5M2), 0x7c);
  EXPECT_EQ(fp8(-infinity, __NV_SATFINITE, __NV_E5M2), 0xfb);
  EXPECT_TRUE(std::isnan(static_cast<float>(__nv_fp8_e5m2(NAN))));
  EXPECT_EQ(static_cast<float>(__nv_fp8_e4m3(1000.0f)), 448.0f);
  EXPECT_EQ(static_cast<float>(__nv_fp8_e4m3(__float2half(-0.3f))), -0.3125f);
  const auto four = static_cast<float4>(__nv_fp8x4_e5m2(make_float4(1, -2, 3, 1e9f)));
  EXPECT_EQ(four.x, 1.0f);
  EXPECT_EQ(four.y, -2.0f);
  EXPECT_EQ(four.z, 3.0f);
  EXPECT_EQ(four.w, 57344.0f);
}

// Sums, products and quotients of all pairs from a sample, each rounded once: long double
// has 64 bits and so is exact, or near enough that a second rounding does not matter.
template <class T>
void check_arithmetic(const Format& format) {
  const auto round = [&](long double x) {
    return encode(format, static_cast<double>(x));
  };
  for (std::uint32_t i = 1; i < format.largest; i += 137) {
    for (std::uint32_t j = 3; j < format.largest; j += 1013) {
      const T a(decode(format, i)), b(-decode(format, j));
      const long double x = static_cast<float>(a), y = static_cast<float>(b);
      ASSERT_EQ(bits_of(a + b), round(x + y)) << i << " " << j;
      ASSERT_EQ(bits_of(a - b), round(x - y));
      ASSERT_EQ(bits_of(a * b), round(x * y));
      ASSERT_EQ(bits_of(a / b), round(x / y));
      ASSERT_EQ(a < b, x < y);
      ASSERT_EQ(bits_of(__hmax(a, b)), bits_of(a));
      ASSERT_EQ(bits_of(__hmin(a, b)), bits_of(b));
    }
  }
}
TEST(Bf16, ArithmeticRoundsOnce) { check_arithmetic<__nv_bfloat16>(bf16_format); }
TEST(Fp16, ArithmeticRoundsOnce) { check_arithmetic<__half>(fp16_format); }

// Products half way between two numbers, to the even one below; the least number decides
// otherwise. In bf16 it lies 133 binary places below: more than a double has.
TEST(Numbers, FmaRoundsOnce) {
  const __half a = 1.0f + 0x1p-5f, b = 1.0f + 0x1p-6f, least = __ushort_as_half(0x0001);
  const float even = 1.0f + 0x1p-5f + 0x1p-6f;
  EXPECT_EQ(__half2float(__hfma(a, b, __half(0.0f))), even);
  EXPECT_EQ(__half2float(__hfma(a, b, least)), even + 0x1p-10f);
  EXPECT_EQ(__half2float(__hfma(a, b, -least)), even);
  const __nv_bfloat16 c = 1.0f + 0x1p-4f, tiny = __ushort_as_bfloat16(0x0001);
  EXPECT_EQ(__bfloat162float(__hfma(c, c, __nv_bfloat16(0.0f))), 1.125f);
  EXPECT_EQ(__bfloat162float(__hfma(c, c, tiny)), 1.125f + 0x1p-7f);
  EXPECT_EQ(__bfloat162float(__hfma(-c, c, -tiny)), -1.125f - 0x1p-7f);
  EXPECT_EQ(__bfloat162float(__hfma(c, c, -tiny)), 1.125f);
}

TEST(Numbers, IntegersConvertWithOneRounding) {
  EXPECT_EQ(__bfloat162float(__int2bfloat16_rn(257)), 256.0f);
  EXPECT_EQ(__bfloat162float(__int2bfloat16_rn(-259)), -260.0f);
  // 2^62 + 2^54 is half way between neighbours; one more must decide.
  const long long middle = (1ll << 62) + (1ll << 54);
  EXPECT_EQ(__bfloat162float(__nv_bfloat16(middle)), 0x1p62f);
  EXPECT_EQ(__bfloat162float(__nv_bfloat16(middle + 1)), 0x1p62f + 0x1p55f);
  EXPECT_EQ(__half2float(__uint2half_rn(2049)), 2048.0f);
}

TEST(Numbers, PairsKeepTheirOrder) {
  const __nv_bfloat162 b = __floats2bfloat162_rn(1.0f, 2.0f);
  EXPECT_EQ(std::bit_cast<std::uint32_t>(b), 0x40003f80u);  // the first in the lower bits
  EXPECT_EQ(__low2float(b), 1.0f);
  EXPECT_EQ(__high2float(b), 2.0f);
  EXPECT_EQ(__bfloat1622float2(b + b).y, 4.0f);
  const __half2 h = __float22half2_rn(make_float2(1.0f, -2.0f));
  EXPECT_EQ(std::bit_cast<std::uint32_t>(h), 0xc0003c00u);
  EXPECT_EQ(__half22float2(__hfma2(h, h, h)).y, 2.0f);
}

TEST(Numbers, DeviceFunctions) {
  EXPECT_EQ(__clz(0), 32);
  EXPECT_EQ(__clz(1), 31);
  EXPECT_EQ(__ffs(0), 0);
  EXPECT_EQ(__ffs(0x80), 8);
  EXPECT_EQ(__popcll(~0ull), 64);
  EXPECT_EQ(__brev(1u), 0x80000000u);
  EXPECT_EQ(__byte_perm(0x33221100u, 0x77665544u, 0x7250u), 0x77225500u);
  EXPECT_EQ(__byte_perm(0x00008000u, 0u, 0x9u), 0xffu);
  EXPECT_EQ(__umulhi(~0u, ~0u), 0xfffffffeu);
  EXPECT_EQ(__umul64hi(~0ull, ~0ull), ~0ull - 1);
  EXPECT_EQ(__float2int_rn(2.5f), 2);
  EXPECT_EQ(__float2int_rz(-2.9f), -2);
  EXPECT_EQ(__float2int_rd(-2.1f), -3);
  EXPECT_EQ(__float2int_rn(1e20f), INT32_MAX);
  EXPECT_EQ(__float2int_rn(NAN), 0);
  EXPECT_EQ(__fdividef(1.0f, 0x1.8p126f), 0.0f);
  EXPECT_EQ(__fdividef(6.0f, 3.0f), 2.0f);
  EXPECT_EQ(rsqrtf(4.0f), 0.5f);
  EXPECT_EQ(max(1u, 2u), 2u);
  EXPECT_EQ(::max(NAN, 1.0f), 1.0f);
  EXPECT_EQ(__float_as_uint(1.0f), 0x3f800000u);
  EXPECT_EQ(sizeof(float3), 12u);
  EXPECT_EQ(alignof(float4), 16u);
  EXPECT_EQ(alignof(float2), 8u);
  EXPECT_EQ(alignof(longlong2), 16u);
}

}  // namespace
}  // namespace trireme::cuda_emulation
