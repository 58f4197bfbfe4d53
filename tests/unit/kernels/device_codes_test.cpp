// Kernels that read codes give exact numbers, and products within their bounds.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "base/device_memory.hpp"
#include "kernels/coded_matrix.hpp"
#include "kernels/cuda/codes/few_rows.hpp"
#include "kernels/gemm.hpp"
#include "kernels/gemm_codes.hpp"
#include "support/device.hpp"
#include "unit/kernels/coded_matrices.hpp"

namespace trireme::kernels {
namespace {

using test::coded_matrix, test::grid_of_scales, test::SomeNumbers;

constexpr CodeType code_types[] = {CodeType::four_bits, CodeType::int8, CodeType::e4m3};
constexpr DType roundings[] = {DType::f32, DType::bf16, DType::f16};

Device device() {
  static const Device at = test::test_device();
  return at;
}

Buffer on_device(const Buffer& from) {
  Buffer to(device(), from.view().dtype(), from.view().shape(), MemoryClass::data,
            "test");
  Stream stream(device());
  copy_bytes(stream, from.view(), to.view());
  return to;
}
Buffer on_host(const TensorView& from) {
  Buffer to(Device::host(), from.dtype(), from.shape(), MemoryClass::data, "test");
  Stream stream(device());
  copy_bytes(stream, from, to.view());
  stream.synchronize();
  return to;
}

Buffer numbers(DType type, std::int64_t rows, std::int64_t columns, std::uint32_t seed) {
  Buffer out(Device::host(), type, {rows, columns}, MemoryClass::data, "test");
  SomeNumbers some(seed);
  visit_floating(type, [&]<class T>(T) {
    for (T& x : out.view().span<T>()) x = T(some.next());
  });
  return out;
}

double value_at(const TensorView& x, std::int64_t i, std::int64_t j) {
  return visit_floating(x.dtype(), [&]<class T>(T) {
    return static_cast<double>(Accumulator<T>(x.data<T>()[i * x.stride(0) + j]));
  });
}

// How many elements of y differ from what the codes stand for, by base/coded_matrix.hpp.
std::int64_t differences(const CodedMatrix& m, const TensorView& y_NK) {
  return visit_floating(y_NK.dtype(), [&]<class T>(T) {
    std::int64_t count = 0;
    std::vector<float> row(static_cast<std::size_t>(m.shape[1]));
    for (std::int64_t i = 0; i < m.shape[0]; ++i) {
      decode_row(m, i, row.data());
      const T* const y = y_NK.data<T>() + i * y_NK.stride(0);
      for (std::int64_t j = 0; j < m.shape[1]; ++j) {
        const T expected(row[static_cast<std::size_t>(j)]);
        const bool both_nan = std::isnan(row[static_cast<std::size_t>(j)]) &&
                              std::isnan(static_cast<double>(Accumulator<T>(y[j])));
        count += both_nan || std::memcmp(y + j, &expected, sizeof(T)) == 0 ? 0 : 1;
      }
    }
    return count;
  });
}

// Layouts of scales of an [N, K] box: runs that begin within a block, and do not end with
// rows; one scale a row; groups; groups of an odd width; blocks of rows and columns.
std::vector<ScaleLayout> layouts(std::int64_t K) {
  ScaleLayout runs{1, 64, true};
  runs.whole_columns = K;
  ScaleLayout cut = runs;
  cut.first_column = 13;
  cut.whole_columns = K + 11;
  ScaleLayout in_steps = runs;
  in_steps.first_column = 32;
  in_steps.whole_columns = K + 64 - K % 32;
  return {runs,
          cut,
          in_steps,
          grid_of_scales(1, K, K, 0, 0),
          grid_of_scales(1, 32, K, 0, 5),
          grid_of_scales(1, 32, K, 0, 0),
          grid_of_scales(1, 96, K, 0, 32),
          grid_of_scales(3, 17, K, 2, 4),
          grid_of_scales(128, 128, K, 126, 0)};
}

using Make = std::function<OwnedCodes()>;

// f(make) for matrices of every kind of codes; make() makes the same one each time.
template <class F>
void for_every_kind(std::int64_t N, std::int64_t K, const F& f) {
  for (const CodeType type : code_types)
    for (const ScaleLayout& layout : layouts(K))
      for (const DType rounding : roundings)
        for (const bool zeros : {false, true}) {
          f([&] {
            OwnedCodes codes = coded_matrix(type, {N, K}, layout, zeros);
            codes.matrix.rounding = rounding;
            if (type == CodeType::int8) codes.matrix.factor = 7.874015718698502e-3F;
            return codes;
          });
          if (testing::Test::HasFatalFailure())
            FAIL() << "type " << static_cast<int>(type) << ", rounded to "
                   << name_of(rounding) << ", blocks of " << layout.rows << " x "
                   << layout.columns << " from " << layout.first_column
                   << (layout.runs ? ", runs" : "") << (zeros ? ", zeros" : "");
        }
}

// Into columns of a wider matrix, whose others stay what they are.
void expect_decoded(const Make& make, DType type, std::int64_t before) {
  const OwnedCodes here = make(), there = moved_to(device(), make());
  const std::int64_t N = here.matrix.shape[0], K = here.matrix.shape[1];
  const Buffer old = numbers(type, N, before + K + 8, 4), y = on_device(old);
  Stream stream(device());
  decode_matrix(stream, there.matrix, y.view().columns(before, K));
  const Buffer got = on_host(y.view());
  ASSERT_EQ(differences(here.matrix, got.view().columns(before, K)), 0)
      << here.matrix.shape << " to " << name_of(type) << ", at column " << before;
  for (std::int64_t i = 0; i < N; ++i)
    for (std::int64_t j = 0; j < before + 8; ++j) {
      const std::int64_t at = j < before ? j : j + K;
      ASSERT_EQ(value_at(got.view(), i, at), value_at(old.view(), i, at));
    }
}

void expect_decoded_to_all_types(const Make& make) {
  for (const DType type : {DType::f64, DType::f32, DType::bf16, DType::f16})
    for (const std::int64_t before : {0, 3}) {
      expect_decoded(make, type, before);
      if (testing::Test::HasFatalFailure()) return;
    }
}

TEST(DeviceCodes, NumbersHaveTheBitsOfTheirDefinition) {
  for (const std::int64_t K : {1, 7, 31, 64, 97, 264})
    for (const std::int64_t N : {1, 5}) {
      for_every_kind(N, K, expect_decoded_to_all_types);
      if (HasFatalFailure()) return;
    }
}

// A row of every code of a byte; those of E4M3 that are NaN, and its subnormal numbers.
Make all_codes(CodeType type) {
  return [=] {
    OwnedCodes codes =
        coded_matrix(type, {4, 256}, grid_of_scales(1, 64, 256, 0, 0), false);
    const auto bytes = codes.codes.view().span<std::uint8_t>();
    for (std::size_t i = 0; i < bytes.size(); ++i)
      bytes[i] = static_cast<std::uint8_t>(i);
    return codes;
  };
}

TEST(DeviceCodes, NumbersOfAllCodesAndOfScalesThatAreNoPlainNumbers) {
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  constexpr float infinity = std::numeric_limits<float>::infinity();
  for (const CodeType type : code_types) {
    expect_decoded_to_all_types(all_codes(type));
    for (const DType rounding : roundings)
      for (const float scale : {0.0F, nan, infinity, 1e-38F, 1e-45F, 3e38F, 1e-6F})
        expect_decoded_to_all_types([&] {
          OwnedCodes codes = all_codes(type)();
          codes.matrix.rounding = rounding;
          codes.scales.view().data<float>()[5] = scale;
          return codes;
        });
    if (HasFatalFailure()) FAIL() << "type " << static_cast<int>(type);
  }
}

struct Types {
  DType operands, result;
};
constexpr Types all_types[] = {{DType::f32, DType::f32},   {DType::bf16, DType::f32},
                               {DType::bf16, DType::bf16}, {DType::f16, DType::f32},
                               {DType::f16, DType::f16},   {DType::f64, DType::f64}};

// A weight of one box on the device, with memory for its numbers that holds NaNs.
struct Coded {
  Buffer room;
  WeightCodes w;

  Coded(OwnedCodes codes, DType type)
      : room(device(), type, codes.matrix.shape, MemoryClass::data, "numbers") {
    Buffer nans(Device::host(), type, codes.matrix.shape, MemoryClass::data, "nan");
    visit_floating(type, [&]<class T>(T) {
      for (T& x : nans.view().span<T>()) x = T(std::numeric_limits<float>::quiet_NaN());
    });
    Stream stream(device());
    copy_bytes(stream, nans.view(), room.view());
    w.numbers = room.view();
    w.boxes.push_back({{0, 0}, moved_to(device(), std::move(codes))});
  }
  // Whether any number was made in memory.
  bool decoded() const {
    const Buffer host = on_host(room.view());
    for (std::int64_t i = 0; i < host.view().dim(0); ++i)
      for (std::int64_t j = 0; j < host.view().dim(1); ++j)
        if (!std::isnan(value_at(host.view(), i, j))) return true;
    return false;
  }
};

// Roundings in a row on the way of an element to its sum, at most: on a GPU a lane adds
// up every 32nd element and one that is left over, then come 5 sums of lanes, the bias
// and the product itself. Elsewhere any order may be: all K of them.
std::int64_t roundings_of(std::int64_t K, bool few) {
  return device().is_cuda() && few ? (K + 31) / 32 + 8 : K + 8;
}

// C against sums in double of A and of the decoded numbers. The bound is that of a sum of
// so many roundings (Higham, 2002, section 4.2), and of rounding the result.
void expect_product(const TensorView& c, const TensorView& a, const CodedMatrix& m,
                    const TensorView& bias, std::int64_t roundings_in_a_row) {
  const std::int64_t N = m.shape[0], K = m.shape[1];
  std::vector<float> row(static_cast<std::size_t>(K));
  const double unit = a.dtype() == DType::f64 ? 0x1p-52 : 0x1p-23;
  const double last = c.dtype() == DType::bf16  ? 0x1p-8
                      : c.dtype() == DType::f16 ? 0x1p-11
                                                : unit;
  for (std::int64_t j = 0; j < N; ++j) {
    decode_row(m, j, row.data());
    for (std::int64_t i = 0; i < c.dim(0); ++i) {
      double sum = bias.empty() ? 0 : value_at(bias, 0, j), size = std::abs(sum);
      for (std::int64_t k = 0; k < K; ++k) {
        const double right = visit_floating(a.dtype(), [&]<class T>(T) {
          return static_cast<double>(Accumulator<T>(T(row[static_cast<std::size_t>(k)])));
        });
        const double product = value_at(a, i, k) * right;
        sum += product;
        size += std::abs(product);
      }
      const double bound = static_cast<double>(roundings_in_a_row) * unit * size +
                           last * std::abs(sum) + 0x1p-24;
      ASSERT_LE(std::abs(value_at(c, i, j) - sum), bound)
          << c.dim(0) << " x " << N << " x " << K << " of " << name_of(a.dtype())
          << " to " << name_of(c.dtype()) << " at " << i << ", " << j;
    }
  }
}

// A product of M rows; `before` columns of wider matrices lie before A's and C's.
Buffer product(const Coded& coded, std::int64_t M, Types types, const TensorView& a_MK,
               const TensorView& bias_N, std::int64_t before) {
  const std::int64_t N = coded.w.numbers.dim(0);
  const Buffer c = on_device(numbers(types.result, M, N + before, 7));
  Stream stream(device());
  gemm_codes(stream, c.view().columns(before, N), a_MK, coded.w, bias_N);
  return on_host(c.view().columns(before, N));
}

void expect_products(const Make& make, Types types, std::int64_t before) {
  const OwnedCodes here = make();
  const std::int64_t N = here.matrix.shape[0], K = here.matrix.shape[1];
  const Buffer a = numbers(types.operands, 5, K + before, 5), a_there = on_device(a);
  const Buffer bias = numbers(types.operands, 1, N, 6), bias_there = on_device(bias);
  const bool few_type = types.operands != DType::f64;
  bool biased = false;
  for (const std::int64_t M : {1, 2, 3, 4, 5}) {
    biased = !biased;
    const Coded coded(make(), types.operands);
    const auto multiply = [&](std::int64_t rows) {
      return product(coded, rows, types, a_there.view().rows(0, rows).columns(before, K),
                     biased ? bias_there.view().reshape({N}) : TensorView(), before);
    };
    const Buffer c = multiply(M);
    const bool reads = !coded.decoded();
    if (device().is_cuda()) {
      const bool in_steps = cuda::reads_code_rows(here.matrix);
      ASSERT_EQ(reads, few_type && M <= 4 && in_steps);
    }
    expect_product(c.view(), a.view().rows(0, M).columns(before, K), here.matrix,
                   biased ? bias.view() : TensorView(), roundings_of(K, reads));
    if (testing::Test::HasFatalFailure()) return;
    if (!device().is_cuda() || !reads) continue;
    // The same bits again, and as a product of fewer rows.
    for (const std::int64_t rows : {M, std::int64_t{1}}) {
      const Buffer again = multiply(rows);
      ASSERT_EQ(std::memcmp(again.view().raw(), c.view().raw(), again.view().bytes()), 0);
    }
  }
}

TEST(DeviceCodes, ProductsOfFewRowsAreWithinTheirBound) {
  std::size_t turn = 0;
  for (const auto& [N, K] : std::vector<std::pair<std::int64_t, std::int64_t>>{
           {1, 1}, {19, 31}, {1, 64}, {19, 64}, {19, 97}, {3, 1100}}) {
    for_every_kind(N, K, [&](const Make& make) {
      const Types types = all_types[turn++ % std::size(all_types)];
      expect_products(make, types, turn % 3 == 0 ? 3 : 0);
    });
    if (HasFatalFailure()) return;
  }
}

// Rows of A that do not fit into shared memory as a whole, more rows of codes than a
// launch has at once, and what is left over of K.
TEST(DeviceCodes, ProductsOfLongRowsAndOfManyRows) {
  for (const CodeType type : code_types)
    for (const Types types :
         {Types{DType::f32, DType::f32}, Types{DType::bf16, DType::bf16}}) {
      const auto of = [&](std::int64_t N, std::int64_t K) {
        return [=] {
          return coded_matrix(type, {N, K}, grid_of_scales(1, 128, K, 0, 0), false);
        };
      };
      expect_products(of(5, 20517), types, 0);
      const bool once = type == CodeType::four_bits && types.operands == DType::bf16;
      if (test::is_watched() || !once) continue;
      expect_products(of(16 * 8 * 140 + 3, 64), types, 0);
      if (HasFatalFailure()) FAIL() << "type " << static_cast<int>(type);
    }
}

// Boxes beside each other, which are decoded, and one below the other, of which each is
// read; experts, of which one is multiplied.
TEST(DeviceCodes, ProductsOfBoxesAndOfAnExpert) {
  constexpr std::int64_t K = 128;
  const Types types{DType::bf16, DType::bf16};
  const Buffer a = numbers(DType::bf16, 2, K, 5), a_there = on_device(a);
  const auto part = [](std::int64_t rows, std::int64_t columns) {
    return coded_matrix(CodeType::four_bits, {rows, columns},
                        grid_of_scales(1, 64, columns, 0, 0), true);
  };
  const Buffer room(device(), DType::bf16, {12, K}, MemoryClass::data, "numbers");
  Stream stream(device());
  for (const bool below : {true, false}) {
    WeightCodes w;
    w.numbers = room.view();
    w.boxes.push_back({{0, 0}, moved_to(device(), below ? part(5, K) : part(12, 64))});
    w.boxes.push_back({below ? Shape{5, 0} : Shape{0, 64},
                       moved_to(device(), below ? part(7, K) : part(12, 64))});
    const Buffer c = on_device(numbers(types.result, 2, 12, 7));
    gemm_codes(stream, c.view(), a_there.view(), w, {});
    const Buffer got = on_host(c.view());
    if (!below) {  // as of decoded numbers
      for (const PlacedCodes& box : w.boxes)
        decode_matrix(stream, box.codes.matrix, room.view().columns(box.begin[1], 64));
      const Buffer d = on_device(numbers(types.result, 2, 12, 8));
      gemm(stream, d.view(), a_there.view(), Transpose::no, room.view(), Transpose::yes);
      const Buffer expected = on_host(d.view());
      EXPECT_EQ(std::memcmp(got.view().raw(), expected.view().raw(), got.bytes()), 0);
      continue;
    }
    for (const auto& [first, rows] :
         {std::pair<std::int64_t, std::int64_t>{0, 5}, {5, 7}}) {
      const OwnedCodes codes = part(rows, K);
      expect_product(got.view().columns(first, rows), a.view(), codes.matrix, {},
                     roundings_of(K, true));
      const Buffer one = on_device(numbers(types.result, 2, rows, 7));
      gemm_codes(stream, one.view(), a_there.view(), w, {}, first);
      expect_product(on_host(one.view()).view(), a.view(), codes.matrix, {},
                     roundings_of(K, true));
    }
  }
}

TEST(DeviceCodes, ProductsOfNothing) {
  const Make make = [] {
    return coded_matrix(CodeType::int8, {7, 64}, grid_of_scales(1, 64, 64, 0, 0), false);
  };
  const Coded coded(make(), DType::f32);
  const Buffer a(device(), DType::f32, {1, 64}, MemoryClass::data, "a"),
      c(device(), DType::f32, {1, 7}, MemoryClass::data, "c");
  Stream stream(device());
  gemm_codes(stream, c.view().rows(0, 0), a.view().rows(0, 0), coded.w, {});
  EXPECT_FALSE(coded.decoded());
}

// What is not on the stream's device is named.
TEST(DeviceCodes, OfAnotherDeviceAreRefused) {
  if (!device().is_cuda()) GTEST_SKIP() << "there is one device";
  const OwnedCodes here =
      coded_matrix(CodeType::int8, {7, 64}, grid_of_scales(1, 64, 64, 0, 0), false);
  const Buffer y(device(), DType::f32, {7, 64}, MemoryClass::data, "y");
  Stream stream(device());
  EXPECT_THROW(decode_matrix(stream, here.matrix, y.view()), Error);
}

}  // namespace
}  // namespace trireme::kernels
