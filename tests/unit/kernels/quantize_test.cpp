// FP8: every code, rounding, scales, blocks, and products of FP8 matrices.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/quantize.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "kernels/gemm.hpp"
#include "kernels/reference/fp8.hpp"
#include "unit/kernels/elementwise_tensors.hpp"

namespace trireme::kernels {
namespace {

using test::Tensor;
using test::Vector;

constexpr Fp8Format formats[] = {Fp8Format::e4m3, Fp8Format::e5m2};
constexpr double inf = std::numeric_limits<double>::infinity();

double meaning(int code, Fp8Format format) { return reference::fp8_value(code, format); }
int nearest(double x, Fp8Format format) { return reference::fp8_nearest(x, format); }

// A tensor of bytes on the device of the test, in rows `stride` apart.
class Codes {
 public:
  Codes(std::int64_t rows, std::int64_t columns, std::int64_t padding = 0)
      : buffer_(test::test_device(), DType::u8, {rows, columns + padding},
                MemoryClass::data, "codes"),
        view_(buffer_.view().columns(0, columns)) {}
  const TensorView& view() const { return view_; }
  void set(const std::vector<std::uint8_t>& codes) {
    std::vector<std::uint8_t> bytes = codes;
    Stream stream(test::test_device());
    copy_bytes(stream, TensorView(bytes.data(), DType::u8, view_.shape()), view_);
    stream.synchronize();
  }
  std::vector<std::uint8_t> get() const {
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(view_.elements()));
    Stream stream(test::test_device());
    copy_bytes(stream, view_, TensorView(bytes.data(), DType::u8, view_.shape()));
    return bytes;
  }

 private:
  Buffer buffer_;
  TensorView view_;
};

Vector doubles_of(const std::vector<std::uint8_t>& codes, Fp8Format format) {
  Vector values;
  for (const auto code : codes) values.push_back(meaning(code, format));
  return values;
}

// Numbers of every magnitude: each code's value, the middles between neighbours, the
// nearest floats on both sides of a middle, and beyond the ends.
Vector probes(Fp8Format format) {
  Vector values = {0.0, -0.0, inf, -inf, std::nan(""), 1e30, -1e30, 1e-30, -1e-30};
  for (int code = 0; code < 0x7f; ++code) {
    const double here = meaning(code, format), next = meaning(code + 1, format);
    if (!std::isfinite(here)) continue;
    values.insert(values.end(), {here, -here});
    if (!std::isfinite(next)) continue;
    const auto middle = static_cast<float>((here + next) / 2);
    for (const float x :
         {middle, std::nextafter(middle, 0.0f), std::nextafter(middle, 1e9f)})
      values.insert(values.end(), {double{x}, -double{x}});
  }
  return values;
}

TEST(Fp8, DecodesEveryCode) {
  for (const Fp8Format format : formats) {
    Codes codes(1, 256);
    std::vector<std::uint8_t> all(256);
    for (int i = 0; i < 256; ++i)
      all[static_cast<std::size_t>(i)] = static_cast<std::uint8_t>(i);
    codes.set(all);
    const Tensor scale(DType::f32, {1}, Vector{1.0}), y(DType::f32, {1, 256});
    Stream stream(test::test_device());
    dequantize(stream, {codes.view(), format, Fp8Scaling::tensor, scale}, y);
    const Vector got = y.values(), want = doubles_of(all, format);
    for (std::size_t i = 0; i < 256; ++i) {
      if (std::isnan(want[i])) {
        EXPECT_TRUE(std::isnan(got[i])) << name_of(format) << " " << i;
      } else {
        EXPECT_EQ(got[i], want[i]) << name_of(format) << " " << i;
        EXPECT_EQ(std::signbit(got[i]), std::signbit(want[i]));
      }
    }
  }
}

TEST(Fp8, EncodesToTheNearestEven) {
  for (const Fp8Format format : formats) {
    for (const DType type : {DType::f32, DType::f64, DType::bf16, DType::f16}) {
      const Vector given = probes(format);
      const auto n = static_cast<std::int64_t>(given.size());
      const Tensor x(type, {1, n}, given), scale(DType::f32, {1}, Vector{1.0});
      const Codes codes(1, n);
      Stream stream(test::test_device());
      quantize(stream, x, {codes.view(), format, Fp8Scaling::tensor, scale});
      const Vector rounded = x.values();  // as the type holds it
      const auto got = codes.get();
      for (std::size_t i = 0; i < got.size(); ++i)
        EXPECT_EQ(got[i], nearest(rounded[i], format))
            << name_of(format) << " of " << name_of(type) << " " << rounded[i];
    }
  }
}

// Beside a middle of two codes by less than a float can tell.
TEST(Fp8, DoublesAreRoundedOnce) {
  const double above = 1.0625 + 0x1p-40, below = 1.1875 - 0x1p-40;
  const Tensor x(DType::f64, {1, 2}, {above, below}), scale(DType::f32, {1}, Vector{1.0});
  const Codes codes(1, 2);
  Stream stream(test::test_device());
  quantize(stream, x, {codes.view(), Fp8Format::e4m3, Fp8Scaling::tensor, scale});
  const auto got = codes.get();
  EXPECT_EQ(meaning(got[0], Fp8Format::e4m3), 1.125);
  EXPECT_EQ(meaning(got[1], Fp8Format::e4m3), 1.125);
}

double amax_of(const Tensor& x) {
  const Tensor result(DType::f32, {1}, Vector{5.0});
  Stream stream(test::test_device());
  amax(stream, x, result);
  return result.values()[0];
}

TEST(Amax, IsTheLargestMagnitude) {
  for (const DType type : {DType::f32, DType::f64, DType::bf16, DType::f16}) {
    for (const std::int64_t columns : {1, 3, 8, 31, 1024, 4097}) {
      for (const std::int64_t padding : {0, 5}) {
        const Tensor x = Tensor::normal(type, {7, columns}, 3, padding);
        double want = 0;
        for (const double v : x.values()) want = std::max(want, std::abs(v));
        EXPECT_EQ(amax_of(x), static_cast<double>(static_cast<float>(want)));
      }
    }
  }
  EXPECT_EQ(amax_of(Tensor(DType::f32, {0, 4})), 0);
  EXPECT_EQ(amax_of(Tensor(DType::f32, {2}, {-2.0, -inf})), inf);
  EXPECT_TRUE(std::isnan(amax_of(Tensor(DType::bf16, {3}, {inf, std::nan(""), 1.0}))));
}

TEST(Amax, ScaleBringsItToTheLargestCode) {
  Stream stream(test::test_device());
  for (const Fp8Format format : formats) {
    const float most = format == Fp8Format::e4m3 ? 448.0f : 57344.0f;
    const double given[] = {448.0, 1.0, 3.0e38, 0.0, inf, std::nan(""), 1e-44};
    for (const double value : given) {
      const Tensor amax_1(DType::f32, {1}, Vector{value}), scale(DType::f32, {1});
      scale_of_amax(stream, amax_1, format, scale);
      const auto amax = static_cast<float>(value);
      const float want = !(amax > 0) || std::isinf(amax)
                             ? 1.0f
                             : std::max(amax / most, std::numeric_limits<float>::min());
      EXPECT_EQ(scale.values()[0], double{want}) << value;
    }
  }
}

TEST(Amax, APowerOfTwoKeepsCodes) {
  Stream stream(test::test_device());
  for (const Fp8Format format : formats) {
    // Every positive code times a power of two, the largest of which may be missing.
    for (const int last : {0x7e, 0x70, 0x41}) {
      Vector values;
      for (int code = 0; code <= last; ++code) {
        const double value = fp8_decode(static_cast<std::uint8_t>(code), format);
        if (std::isfinite(value)) values.push_back(value * 0x1p-9);
      }
      const auto n = static_cast<std::int64_t>(values.size());
      const Tensor x(DType::bf16, {1, n}, values), back(DType::bf16, {1, n});
      const Tensor amax_1(DType::f32, {1}), scale(DType::f32, {1});
      amax(stream, x, amax_1);
      scale_of_amax(stream, amax_1, format, scale, ScaleSteps::powers_of_two);
      const Buffer codes(test::test_device(), DType::u8, {1, n}, MemoryClass::workspace,
                         "codes");
      const Fp8Matrix y{codes.view(), format, Fp8Scaling::tensor, scale};
      quantize(stream, x, y);
      dequantize(stream, y, back);
      EXPECT_EQ(back.values(), values);
      EXPECT_EQ(std::exp2(std::round(std::log2(scale.values()[0]))), scale.values()[0]);
      const Tensor scales(DType::f32, fp8_scales_shape(Fp8Scaling::block_128, 1, n));
      const Fp8Matrix squares{codes.view(), format, Fp8Scaling::block_128, scales,
                              ScaleSteps::powers_of_two};
      quantize(stream, x, squares);
      dequantize(stream, squares, back);
      EXPECT_EQ(back.values(), values);
    }
  }
}

// Codes, scales and the way back of blocks against their definition.
void expect_blocks(DType type, Fp8Format format, Fp8Scaling scaling, std::int64_t M,
                   std::int64_t K, std::int64_t padding) {
  SCOPED_TRACE(trireme::format("{} {} [{}, {}]", name_of(type), name_of(format), M, K));
  Tensor x = Tensor::normal(type, {M, K}, 11, padding);
  Vector values = x.values();
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] *= std::exp2(double(i % 25) - 12);
  x.set(values);
  values = x.values();
  const Shape shape = fp8_scales_shape(scaling, M, K);
  const Tensor scales(DType::f32, shape,
                      Vector(static_cast<std::size_t>(shape.elements()), 9.0));
  const Codes codes(M, K, padding);
  const Fp8Matrix matrix{codes.view(), format, scaling, scales};
  Stream stream(test::test_device());
  quantize(stream, x, matrix);
  const Tensor back(DType::f32, {M, K});
  dequantize(stream, matrix, back);

  const std::int64_t height = scaling == Fp8Scaling::row_128 ? 1 : 128;
  const auto got = codes.get();
  const Vector got_scales = scales.values(), decoded = back.values();
  const float most = format == Fp8Format::e4m3 ? 448.0f : 57344.0f;
  Vector seen(got_scales.size(), 0);
  for (std::int64_t i = 0; i < M; i += height) {
    for (std::int64_t j = 0; j < K; j += 128) {
      std::vector<std::size_t> block;
      for (std::int64_t r = i; r < std::min(M, i + height); ++r)
        for (std::int64_t c = j; c < std::min(K, j + 128); ++c)
          block.push_back(static_cast<std::size_t>(r * K + c));
      float amax = 0;
      for (const auto at : block)
        amax = std::max(amax, std::abs(static_cast<float>(values[at])));
      const float scale = amax / most, inverse = 1.0f / scale;
      const auto place = static_cast<std::size_t>(scaling == Fp8Scaling::row_128
                                                      ? j / 128 * M + i
                                                      : i / 128 * shape[1] + j / 128);
      seen[place] = 1;
      ASSERT_EQ(got_scales[place], double{scale});
      for (const auto at : block) {
        const double scaled = type == DType::f64
                                  ? values[at] * (1.0 / double{scale})
                                  : double{static_cast<float>(values[at]) * inverse};
        ASSERT_EQ(got[at], nearest(scaled, format)) << at;
        const auto meant = static_cast<float>(meaning(got[at], format));
        ASSERT_EQ(decoded[at], double{meant * scale}) << at;
      }
    }
  }
  for (std::size_t i = 0; i < seen.size(); ++i) {
    if (seen[i] == 0) {
      EXPECT_EQ(got_scales[i], 0.0) << "padding";
    }
  }
}

TEST(Fp8Blocks, MatchTheirDefinition) {
  for (const Fp8Scaling scaling : {Fp8Scaling::row_128, Fp8Scaling::block_128})
    for (const DType type : {DType::f32, DType::f64, DType::bf16, DType::f16})
      for (const Fp8Format format : formats) {
        expect_blocks(type, format, scaling, 3, 130, 5);
        expect_blocks(type, format, scaling, 130, 256, 0);
      }
  for (const Fp8Scaling scaling : {Fp8Scaling::row_128, Fp8Scaling::block_128}) {
    expect_blocks(DType::bf16, Fp8Format::e4m3, scaling, 1, 1, 3);
    expect_blocks(DType::bf16, Fp8Format::e4m3, scaling, 129, 641, 0);
  }
}

TEST(Fp8Blocks, NaNStaysAndZerosStay) {
  const Tensor x(DType::f32, {1, 256}, [] {
    Vector values(256, 0.0);
    values[130] = std::nan("");
    values[131] = 2.0;
    return values;
  }());
  const Codes codes(1, 256);
  const Tensor scales(DType::f32, {2, 1});
  Stream stream(test::test_device());
  quantize(stream, x, {codes.view(), Fp8Format::e4m3, Fp8Scaling::row_128, scales});
  EXPECT_EQ(scales.values(), (Vector{1.0, 1.0}));
  const auto got = codes.get();
  for (std::size_t i = 0; i < 256; ++i) {
    const double want = i == 130 ? 0x7f : i == 131 ? 0x40 : 0;
    EXPECT_EQ(got[i], want) << i;
  }
}

TEST(Fp8Checks, RefusesWhatDoesNotFit) {
  Stream stream(test::test_device());
  const Tensor x(DType::f32, {4, 256}), one(DType::f32, {1});
  const Codes codes(4, 256), narrow(4, 255);
  EXPECT_THROW(
      quantize(stream, x, {narrow.view(), Fp8Format::e4m3, Fp8Scaling::tensor, one}),
      Error);
  EXPECT_THROW(
      quantize(stream, x, {codes.view(), Fp8Format::e4m3, Fp8Scaling::row_128, one}),
      Error);
}

// An FP8 matrix of random codes on the device, and what it means.
struct Operand {
  Codes codes;
  Tensor scales;
  Fp8Matrix matrix;
  Vector values;

  Operand(std::int64_t rows, std::int64_t depth, Fp8Format format, Fp8Scaling scaling,
          std::uint64_t seed)
      : codes(rows, depth, 16),
        scales(DType::f32, fp8_scales_shape(scaling, rows, depth)),
        matrix{codes.view(), format, scaling, scales} {
    const Random random(seed, 1);
    std::vector<std::uint8_t> given(static_cast<std::size_t>(rows * depth));
    for (std::size_t i = 0; i < given.size(); ++i)
      given[i] = fp8_encode(static_cast<float>(2 * random.uniform(i) - 1), format);
    codes.set(given);
    Vector of_blocks(static_cast<std::size_t>(scales.view().elements()));
    for (std::size_t i = 0; i < of_blocks.size(); ++i)
      of_blocks[i] = static_cast<float>(0.25 + random.uniform(given.size() + i));
    scales.set(of_blocks);
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < depth; ++j)
        values.push_back(meaning(given[static_cast<std::size_t>(i * depth + j)], format) *
                         of_blocks[static_cast<std::size_t>(
                             fp8_scale_at(scaling, rows, depth, i, j))]);
  }
};

struct Fp8Case {
  std::int64_t m, n, k;
  Fp8Format a, b;
  Fp8Scaling a_scaling = Fp8Scaling::tensor, b_scaling = Fp8Scaling::tensor;
  DType out = DType::f32;
  Accumulate accumulate = Accumulate::no;
};

// A Hopper tensor core adds the products of a step aligned to the largest of them with
// about 14 bits, so that each addition loses at most 2^-13 of the sum of magnitudes; a
// host in f32 loses far less.
void expect_fp8_product(const Fp8Case& x) {
  SCOPED_TRACE(trireme::format("[{}, {}] K {} {} x {} -> {}", x.m, x.n, x.k, name_of(x.a),
                               name_of(x.b), name_of(x.out)));
  const Operand a(x.m, x.k, x.a, x.a_scaling, 1), b(x.n, x.k, x.b, x.b_scaling, 2);
  const Tensor c = Tensor::normal(x.out, {x.m, x.n}, 3, 16);
  const Vector before = c.values();
  Stream stream(test::test_device());
  gemm_fp8(stream, c, a.matrix, b.matrix, x.accumulate);
  const Vector got = c.values();
  EXPECT_TRUE(c.padding_is_intact());
  const double roundoff = x.out == DType::bf16  ? 0x1p-8
                          : x.out == DType::f16 ? 0x1p-11
                                                : 0;
  for (std::int64_t i = 0; i < x.m; ++i) {
    for (std::int64_t j = 0; j < x.n; ++j) {
      const auto at = static_cast<std::size_t>(i * x.n + j);
      double want = x.accumulate == Accumulate::yes ? before[at] : 0, magnitudes = 0;
      for (std::int64_t l = 0; l < x.k; ++l) {
        const double product = a.values[static_cast<std::size_t>(i * x.k + l)] *
                               b.values[static_cast<std::size_t>(j * x.k + l)];
        want += product;
        magnitudes += std::abs(product);
      }
      ASSERT_NEAR(got[at], want, 0x1p-13 * magnitudes + roundoff * std::abs(want) + 1e-6);
    }
  }
}

TEST(GemmFp8, OneScaleForEachTensor) {
  const auto e4m3 = Fp8Format::e4m3, e5m2 = Fp8Format::e5m2;
  const auto tensor = Fp8Scaling::tensor;
  expect_fp8_product({16, 16, 16, e4m3, e4m3});
  expect_fp8_product({33, 48, 80, e4m3, e5m2});
  expect_fp8_product({1, 64, 256, e5m2, e4m3});
  for (const DType out : {DType::f32, DType::bf16, DType::f16})
    for (const auto accumulate : {Accumulate::no, Accumulate::yes})
      expect_fp8_product({64, 128, 272, e4m3, e5m2, tensor, tensor, out, accumulate});
  expect_fp8_product({32, 16, 0, e4m3, e4m3});
}

// Where there is no such product, the error says so.
TEST(GemmFp8, ScalesByBlocks) {
  const auto e4m3 = Fp8Format::e4m3, e5m2 = Fp8Format::e5m2;
  const auto row = Fp8Scaling::row_128, block = Fp8Scaling::block_128;
  try {
    expect_fp8_product({64, 128, 256, e4m3, e4m3, row, block});
  } catch (const Error& error) {
    ASSERT_EQ(error.status(), Status::resources);
    GTEST_SKIP() << error.what();
  }
  expect_fp8_product({136, 144, 656, e4m3, e5m2, row, row, DType::bf16});
  expect_fp8_product(
      {136, 144, 384, e4m3, e4m3, block, row, DType::f32, Accumulate::yes});
  expect_fp8_product({136, 272, 640, e5m2, e4m3, row, block, DType::f16});
}

// Beyond the middle between the largest number and the next one: saturated; a code of 0
// of what was not 0: flushed. A NaN is neither.
TEST(Quantize, CountsWhatItLoses) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  const Vector values = {448, 464,    465,     -470,     inf,   -inf, std::nan(""), 0,
                         1,   0x1p-9, 0x1p-10, -0x1p-11, 1e-40, 3e38, -448,         2};
  Stream stream(test::test_device());
  const Tensor x(DType::f32, {2, 8}, values), scale(DType::f32, {1}, Vector{1.0});
  const Buffer codes(test::test_device(), DType::u8, {2, 8}, MemoryClass::data, "codes");
  const Fp8Matrix y{codes.view(), Fp8Format::e4m3, Fp8Scaling::tensor, scale};
  quantize(stream, x, y);
  const Tensor counts(DType::f64, {2}, Vector{10, 20});
  const Tensor largest(DType::f32, {1}, Vector{0.5});
  count_losses(stream, x, y, counts, largest);
  EXPECT_EQ(counts.values(), (Vector{10 + 5, 20 + 3}));
  EXPECT_EQ(largest.values(), Vector{1});
  // With scales of its own a block saturates nowhere.
  const Tensor wide = Tensor::normal(DType::bf16, {130, 144}, 3);
  for (const auto scaling : {Fp8Scaling::row_128, Fp8Scaling::block_128}) {
    const Buffer room(test::test_device(), DType::u8, {130, 144}, MemoryClass::data, "");
    const Tensor scales(DType::f32, fp8_scales_shape(scaling, 130, 144));
    const Fp8Matrix z{room.view(), Fp8Format::e4m3, scaling, scales};
    quantize(stream, wide, z);
    const Tensor none(DType::f64, {2}, Vector{0, 0});
    count_losses(stream, wide, z, none, largest);
    EXPECT_EQ(none.values()[0], 0.0);
    EXPECT_LT(none.values()[1], 20.0);
  }
}

// Scales of blocks of zeros are 1 whatever stands beside them: they do not count.
TEST(Quantize, LargestScaleIsOfNumbers) {
  constexpr std::int64_t M = 256, K = 288;
  Vector values(M * K, 0.0);
  values[3] = 0x1p-20 * 448;               // the first block, at scale 2^-20
  values[200 * K + 270] = -0x1p-18 * 448;  // another one, at 2^-18
  Stream stream(test::test_device());
  const Tensor x(DType::bf16, {M, K}, values);
  const auto largest_scale = [&](Fp8Scaling scaling, const Tensor& of) {
    const Buffer codes(test::test_device(), DType::u8, {M, K}, MemoryClass::data, "");
    const Tensor scales(DType::f32, fp8_scales_shape(scaling, M, K));
    const Fp8Matrix y{codes.view(), Fp8Format::e4m3, scaling, scales};
    quantize(stream, of, y);
    const Tensor counts(DType::f64, {2}, Vector{0, 0});
    const Tensor largest(DType::f32, {1}, Vector{0});
    count_losses(stream, of, y, counts, largest);
    return largest.values()[0];
  };
  const Tensor zeros(DType::bf16, {M, K}, Vector(M * K, 0.0));
  auto scalings = {Fp8Scaling::row_128, Fp8Scaling::block_128, Fp8Scaling::row_32};
  for (const auto scaling : scalings) {
    if (scaling == Fp8Scaling::row_32 && test::test_device().is_cuda()) continue;
    EXPECT_EQ(largest_scale(scaling, x), 0x1p-18);
    EXPECT_EQ(largest_scale(scaling, zeros), 0.0);
  }
}

TEST(GemmFp8, RefusesWhatDoesNotFit) {
  const auto e4m3 = Fp8Format::e4m3, e5m2 = Fp8Format::e5m2;
  const auto tensor = Fp8Scaling::tensor, block = Fp8Scaling::block_128;
  Stream stream(test::test_device());
  const Tensor c(DType::f32, {16, 16}), c_f64(DType::f64, {16, 16});
  const Operand a(16, 128, e4m3, tensor, 1), a5(16, 128, e5m2, tensor, 1);
  const Operand blocks(16, 128, e4m3, block, 1), narrow(16, 120, e4m3, tensor, 1);
  gemm_fp8(stream, c, a.matrix, a.matrix);
  EXPECT_THROW(gemm_fp8(stream, c, a5.matrix, a5.matrix), Error);
  EXPECT_THROW(gemm_fp8(stream, c, blocks.matrix, blocks.matrix), Error);
  EXPECT_THROW(gemm_fp8(stream, c, a.matrix, blocks.matrix), Error);
  EXPECT_THROW(gemm_fp8(stream, c, a.matrix, narrow.matrix), Error);
  EXPECT_THROW(gemm_fp8(stream, c, narrow.matrix, narrow.matrix), Error);
  if (stream.device().is_cuda()) {
    EXPECT_THROW(gemm_fp8(stream, c_f64, a.matrix, a.matrix), Error);
  }
  Fp8Matrix shifted = a.matrix;
  shifted.codes = a.codes.view().columns(8, 112);
  EXPECT_THROW(gemm_fp8(stream, c, shifted, shifted), Error);
}

}  // namespace
}  // namespace trireme::kernels
