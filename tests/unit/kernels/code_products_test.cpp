// Products that read codes have the bits of products of the numbers of these codes.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <vector>

#include "kernels/coded_matrix.hpp"
#include "kernels/gemm.hpp"
#include "kernels/gemm_codes.hpp"
#include "kernels/runtime/runtime.hpp"
#include "unit/kernels/coded_matrices.hpp"

namespace trireme::kernels {
namespace {

using test::coded_matrix, test::grid_of_scales, test::SomeNumbers;

Buffer matrix(DType type, std::int64_t rows, std::int64_t columns, std::uint32_t seed) {
  Buffer out(Device::host(), type, {rows, columns}, MemoryClass::data, "test");
  SomeNumbers some(seed);
  visit_floating(type, [&](auto element) {
    using T = decltype(element);
    for (T& x : out.view().span<T>()) x = T(some.next());
  });
  return out;
}

// How many elements of c differ: NaN is equal to NaN.
std::int64_t differences(const TensorView& c, const TensorView& d) {
  return visit_floating(c.dtype(), [&](auto element) {
    using T = decltype(element);
    const T* x = c.data<T>();
    const T* y = d.data<T>();
    std::int64_t count = 0;
    for (std::int64_t i = 0; i < c.elements(); ++i) {
      const auto a = static_cast<double>(Accumulator<T>(x[i]));
      const auto b = static_cast<double>(Accumulator<T>(y[i]));
      const bool same = std::memcmp(x + i, y + i, sizeof(T)) == 0;
      count += same || (std::isnan(a) && std::isnan(b)) ? 0 : 1;
    }
    return count;
  });
}

struct Types {
  DType operands, result;
};

// A product of M rows, of codes and of numbers. Rows of A and of C are strided.
void expect_same(const WeightCodes& w, std::int64_t M, Types types, bool biased) {
  Stream stream;
  const std::int64_t N = w.numbers.dim(0), K = w.numbers.dim(1);
  const Buffer numbers(Device::host(), types.operands, {N, K}, MemoryClass::data, "w");
  for (const PlacedCodes& box : w.boxes)
    decode_matrix(stream, box.codes.matrix,
                  numbers.view()
                      .rows(box.begin[0], box.codes.matrix.shape[0])
                      .columns(box.begin[1], box.codes.matrix.shape[1]));
  const Buffer a = matrix(types.operands, M, K + 3, 5);
  const Buffer bias = matrix(types.operands, 1, N, 6);
  const Buffer c = matrix(types.result, M, N + 2, 7),
               d = matrix(types.result, M, N + 2, 7);
  const TensorView a_MK = a.view().columns(2, K);
  const TensorView bias_N = biased ? bias.view().reshape({N}) : TensorView();
  gemm(stream, d.view().columns(1, N), a_MK, Transpose::no, numbers.view(),
       Transpose::yes, Accumulate::no, bias_N);
  gemm_codes(stream, c.view().columns(1, N), a_MK, w, bias_N);
  ASSERT_EQ(differences(c.view(), d.view()), 0)
      << M << " x " << N << " x " << K << " of " << name_of(types.operands) << " to "
      << name_of(types.result) << (independent_rows() ? ", independent rows" : "");
}

constexpr Types few_rows_types[] = {
    {DType::f32, DType::f32}, {DType::bf16, DType::f32}, {DType::bf16, DType::bf16}};

WeightCodes weight(OwnedCodes codes, const Buffer& room) {
  WeightCodes w;
  const Shape shape = codes.matrix.shape;
  w.numbers = room.view().reshape(shape);
  w.boxes.push_back({{0, 0}, std::move(codes)});
  return w;
}

// All that is done with a matrix: few rows, more of them, and independent rows.
void expect_all(const std::function<OwnedCodes()>& make) {
  bool biased = false;
  for (const Types types : few_rows_types) {
    OwnedCodes codes = make();
    const Buffer room(Device::host(), types.operands, codes.matrix.shape,
                      MemoryClass::data, "numbers");
    const WeightCodes w = weight(std::move(codes), room);
    for (const std::int64_t M : {1, 2, 3, 4, 6}) {
      expect_same(w, M, types, biased = !biased);
      if (testing::Test::HasFatalFailure()) return;
    }
    set_independent_rows(true);
    for (const std::int64_t M : {1, 9}) expect_same(w, M, types, biased = !biased);
    set_independent_rows(false);
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(CodeProducts, HaveTheBitsOfNumbers) {
  for (const CodeType type : {CodeType::four_bits, CodeType::int8, CodeType::e4m3})
    for (const std::int64_t K : {1, 31, 64, 97, 256, 700})
      for (const std::int64_t N : {1, 7}) {
        ScaleLayout runs{1, 64, true};
        runs.whole_columns = K;
        ScaleLayout cut = runs;
        cut.first_column = 13;
        cut.whole_columns = K + 11;
        for (const ScaleLayout& layout :
             {runs, cut, grid_of_scales(1, K, K, 0, 0), grid_of_scales(1, 32, K, 0, 5),
              grid_of_scales(1, 32, K, 0, 64), grid_of_scales(128, 128, K, 126, 0),
              grid_of_scales(128, 128, K, 125, 256)})
          for (const DType rounding : {DType::f32, DType::bf16, DType::f16})
            for (const bool zeros : {false, true}) {
              expect_all([&] {
                OwnedCodes codes = coded_matrix(type, {N, K}, layout, zeros);
                codes.matrix.rounding = rounding;
                if (type == CodeType::int8) codes.matrix.factor = 7.874015718698502e-3F;
                return codes;
              });
              if (HasFatalFailure())
                FAIL() << "type " << static_cast<int>(type) << ", rounded to "
                       << name_of(rounding) << ", blocks of " << layout.rows << " x "
                       << layout.columns << (zeros ? ", zeros" : "");
            }
      }
}

TEST(CodeProducts, OfScalesAndCodesThatAreNoPlainNumbers) {
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  constexpr float infinity = std::numeric_limits<float>::infinity();
  for (const CodeType type : {CodeType::four_bits, CodeType::int8, CodeType::e4m3})
    for (const float scale : {0.0F, nan, infinity, 1e-38F, 1e-45F, 300.0F, 1e6F, 3e38F})
      for (const std::int64_t bad : {0, 5})
        expect_all([&] {
          OwnedCodes codes =
              coded_matrix(type, {7, 128}, grid_of_scales(1, 64, 128, 0, 0), false);
          for (const std::int64_t block : {0, 1})
            codes.scales.view().data<float>()[2 * bad + block] = scale;
          return codes;
        });
  for (const std::uint8_t code : {0x7f, 0xff})
    expect_all([&] {
      OwnedCodes codes =
          coded_matrix(CodeType::e4m3, {7, 128}, grid_of_scales(1, 64, 128, 0, 0), false);
      codes.codes.view().data<std::uint8_t>()[3 * 128 + 77] = code;
      return codes;
    });
}

// Every code of a byte, of which some are subnormal numbers of E4M3.
TEST(CodeProducts, OfAllCodes) {
  for (const CodeType type : {CodeType::four_bits, CodeType::int8, CodeType::e4m3})
    expect_all([&] {
      OwnedCodes codes =
          coded_matrix(type, {4, 256}, grid_of_scales(1, 256, 256, 0, 0), false);
      const auto bytes = codes.codes.view().span<std::uint8_t>();
      for (std::size_t i = 0; i < bytes.size(); ++i) {
        bytes[i] = static_cast<std::uint8_t>(i);
        if (type == CodeType::e4m3 && (i & 0x7fu) == 0x7fu) bytes[i] = 0;
      }
      return codes;
    });
}

// As MXFP4 has them, whose products need no rounding, but for one row.
TEST(CodeProducts, OfScalesThatArePowersOfTwo) {
  for (const std::int64_t K : {96, 272})
    expect_all([&] {
      OwnedCodes codes = coded_matrix(CodeType::four_bits, {9, K},
                                      grid_of_scales(1, 32, K, 0, 0), false);
      codes.matrix.book = test::mxfp4_book;
      const auto scales = codes.scales.view().span<float>();
      for (std::size_t i = 0; i < scales.size(); ++i)
        scales[i] = std::ldexp(1.0F, static_cast<int>(i % 9) - 4);
      scales[2] = 0.0F;
      scales[scales.size() / 2] = 0.3F;
      return codes;
    });
}

// Rows of bytes with one scale: where numbers lie in the middle of two of bf16, and where
// none does.
TEST(CodeProducts, OfNumbersInTheMiddleOfTwo) {
  for (const CodeType type : {CodeType::int8, CodeType::e4m3})
    for (const float factor : {1.0F, 0x1.03p-7F}) {
      if (type == CodeType::e4m3 && factor != 1.0F) continue;
      expect_all([&] {
        OwnedCodes codes =
            coded_matrix(type, {9, 1040}, grid_of_scales(1, 1040, 1040, 0, 0), false);
        codes.matrix.factor = factor;
        const auto scales = codes.scales.view().span<float>();
        scales[0] = scales[1] = 0x1.01p0F;
        scales[4] = -0x1.018p-5F;
        scales[6] = 200.0F;
        scales[7] = 0x1p-79F;
        return codes;
      });
    }
}

TEST(CodeProducts, OfBoxes) {
  for (const bool by_rows : {true, false}) {
    const Shape one = by_rows ? Shape{5, 128} : Shape{12, 64};
    const Shape other = by_rows ? Shape{7, 128} : Shape{12, 64};
    const Buffer room(Device::host(), DType::bf16, {12, 128}, MemoryClass::data, "w");
    WeightCodes w;
    w.numbers = room.view();
    w.boxes.push_back({{0, 0},
                       coded_matrix(CodeType::four_bits, one,
                                    grid_of_scales(1, 64, one[1], 0, 0), false)});
    w.boxes.push_back({by_rows ? Shape{5, 0} : Shape{0, 64},
                       coded_matrix(CodeType::int8, other,
                                    grid_of_scales(1, 64, other[1], 0, 0), false)});
    for (const std::int64_t M : {1, 4, 5})
      expect_same(w, M, {DType::bf16, DType::bf16}, true);
    set_independent_rows(true);
    expect_same(w, 3, {DType::bf16, DType::f32}, true);
    set_independent_rows(false);
  }
}

TEST(CodeProducts, OfTypesThatHaveNoneOfTheirOwn) {
  for (const DType type : {DType::f64, DType::f16}) {
    const Buffer room(Device::host(), type, {7, 97}, MemoryClass::data, "numbers");
    const WeightCodes w = weight(
        coded_matrix(CodeType::int8, {7, 97}, grid_of_scales(1, 97, 97, 0, 0), true),
        room);
    for (const std::int64_t M : {0, 1, 5}) expect_same(w, M, {type, type}, true);
    set_independent_rows(true);
    for (const std::int64_t M : {1, 5}) expect_same(w, M, {type, type}, true);
    set_independent_rows(false);
  }
}

// The products of a matrix that several threads share.
std::vector<Buffer> shared_products() {
  constexpr std::int64_t N = 531, K = 1024;
  const Buffer room(Device::host(), DType::bf16, {N, K}, MemoryClass::data, "w");
  const Buffer a = matrix(DType::bf16, 2, K, 5);
  std::vector<Buffer> all;
  for (const bool independent : {false, true})
    for (const CodeType type : {CodeType::four_bits, CodeType::int8, CodeType::e4m3}) {
      const WeightCodes w =
          weight(coded_matrix(type, {N, K}, grid_of_scales(1, 64, K, 0, 0), false), room);
      all.push_back(matrix(DType::bf16, 2, N, 7));
      Stream stream;
      set_independent_rows(independent);
      gemm_codes(stream, all.back().view(), a.view(), w, {});
      set_independent_rows(false);
    }
  return all;
}

// The number of threads is fixed when a process starts its kernels: each is a child.
TEST(CodeProducts, OfSeveralThreads) {
  const std::vector<Buffer> one = shared_products();
  for (const int count : {2, 3}) {
    const pid_t child = fork();
    if (child == 0) {
      const Runtime runtime(count);
      const std::vector<Buffer> several = shared_products();
      bool same = threads() == count;
      for (std::size_t i = 0; i < one.size(); ++i)
        same = same && differences(one[i].view(), several[i].view()) == 0;
      _exit(same ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << count << " threads";
  }
}

}  // namespace
}  // namespace trireme::kernels

// Its own main(): the parent must not start the kernels' threads before it forks.
int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
