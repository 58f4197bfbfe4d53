// Paged attention against plain loops in double, in blocks, windows, codes and pieces.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/paged_attention.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/device_memory.hpp"
#include "base/philox.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/fp8.hpp"
#include "kernels/runtime/working_memory.hpp"
#include "support/device.hpp"

namespace trireme::kernels {
namespace {

// A tensor of the host on the device of the test, and back.
class Moved {
 public:
  explicit Moved(const TensorView& host) : host_(host) {
    if (test::test_device().is_host()) return;
    there_ = Buffer(test::test_device(), host.dtype(), host.shape(), MemoryClass::data,
                    "test");
    Stream stream(test::test_device());
    copy_bytes(stream, host, there_.view());
  }
  const TensorView& view() const { return there_.view().empty() ? host_ : there_.view(); }
  void fetch(Stream& stream) const {
    if (!there_.view().empty()) copy_bytes(stream, there_.view(), host_);
  }

 private:
  TensorView host_;
  Buffer there_;
};

struct Case {
  std::int64_t S, H, G, K, L;
  std::int64_t window = 0;
  double cap = 0;
  bool latent = false;
};

struct Result {
  std::vector<double> o, lse;
};

// Random numbers of two texts with their queries, keys and values, rounded to T.
template <class T>
class Paged {
 public:
  explicit Paged(const Case& of) : of_(of) {
    const Random random(11, 4);
    std::uint64_t at = 0;
    const auto draw = [&](std::int64_t width) {
      std::vector<T> all(static_cast<std::size_t>(of_.S * width));
      for (T& x : all) x = T(static_cast<Accumulator<T>>(2 * random.uniform(at++) - 1));
      return all;
    };
    q_ = draw(of_.H * of_.K);
    k_ = draw(of_.G * of_.K);
    v_ = of_.latent ? k_ : draw(of_.G * of_.K);
  }

  // In pieces of so many rows; type: of the cache.
  Result run(std::int64_t piece, DType type = dtype_of<T>) {
    Stream stream(test::test_device());
    const std::int64_t blocks = 2 * ((of_.S + of_.L - 1) / of_.L) + 3, W = of_.G * of_.K;
    const bool codes = type == DType::e4m3 || type == DType::u8;
    const auto make = [&](DType t, const Shape& shape) {
      return Buffer(test::test_device(), t, shape, MemoryClass::data, "test");
    };
    const Shape shape_NGLK = {blocks, of_.G, of_.L, of_.K};
    const Buffer keys = make(type, shape_NGLK), values = make(type, shape_NGLK),
                 key_scales = make(DType::f32, {blocks, of_.G, of_.L}),
                 value_scales = make(DType::f32, {blocks, of_.G, of_.L});
    PagedCache cache{keys.view(), of_.latent ? TensorView{} : values.view()};
    if (codes) {
      cache.key_scales = key_scales.view();
      if (!of_.latent) cache.value_scales = value_scales.view();
    }
    std::vector<std::int32_t> table;
    for (std::int64_t p = 0; p < of_.S; p += of_.L)  // neither in order nor from 0
      table.push_back(static_cast<std::int32_t>(blocks - 1 - 2 * (p / of_.L)));
    using A = Accumulator<T>;
    std::vector<T> o(q_.size());
    std::vector<A> lse(static_cast<std::size_t>(of_.S * of_.H));
    Arena scratch(test::test_device(), std::size_t{8} << 20, MemoryClass::workspace,
                  "test");
    for (std::int64_t past = 0; past < of_.S; past += piece) {
      const std::int64_t rows = std::min(piece, of_.S - past);
      const auto part = [&](auto& all, std::int64_t width) {
        using E = typename std::remove_reference_t<decltype(all)>::value_type;
        return TensorView(all.data() + past * width, dtype_of<E>, {rows, width});
      };
      std::vector<std::int32_t> first(static_cast<std::size_t>(rows));
      for (std::int64_t i = 0; i < rows; ++i)
        first[static_cast<std::size_t>(i)] =
            static_cast<std::int32_t>(first_of(past + i));
      AttentionShape shape{1, rows, of_.H, of_.G, of_.K, scale(), kv_head(), {}, of_.cap};
      const Moved first_T(TensorView(first.data(), DType::i32, {rows}));
      if (of_.window > 0) shape.first_T = first_T.view();
      const std::vector<PagedText> texts = {{{0, rows}, past, table.data()}};
      std::vector<std::int32_t> numbers = pack_texts(texts, of_.L);
      const Moved packed(TensorView(numbers.data(), DType::i32,
                                    {static_cast<std::int64_t>(numbers.size())})),
          k(part(k_, W)), v(part(v_, W)), q(part(q_, of_.H * of_.K)),
          part_of_o(part(o, of_.H * of_.K)), part_of_lse(part(lse, of_.H));
      store_in_blocks(stream, texts, k.view(), cache.keys, cache.key_scales,
                      packed.view());
      if (!of_.latent)
        store_in_blocks(stream, texts, v.view(), cache.values, cache.value_scales,
                        packed.view());
      attention_paged(stream, scratch, shape, texts, q.view(), cache, part_of_o.view(),
                      part_of_lse.view(), packed.view());
      part_of_o.fetch(stream);
      part_of_lse.fetch(stream);
      stream.synchronize();
    }
    Result result;
    for (const T x : o) result.o.push_back(static_cast<double>(Accumulator<T>(x)));
    result.lse.assign(lse.begin(), lse.end());
    return result;
  }

  Result reference() const {
    Result result{std::vector<double>(q_.size()),
                  std::vector<double>(static_cast<std::size_t>(of_.S * of_.H))};
    const auto number = [](const std::vector<T>& all, std::int64_t at) {
      return static_cast<double>(Accumulator<T>(all[static_cast<std::size_t>(at)]));
    };
    for (std::int64_t t = 0; t < of_.S; ++t)
      for (std::int64_t h = 0; h < of_.H; ++h) {
        const std::int64_t g = kv_head()[static_cast<std::size_t>(h)];
        std::vector<double> p;
        double sum = 0;
        for (std::int64_t j = first_of(t); j <= t; ++j) {
          double score = 0;
          for (std::int64_t c = 0; c < of_.K; ++c)
            score += number(q_, (t * of_.H + h) * of_.K + c) *
                     number(k_, (j * of_.G + g) * of_.K + c);
          score *= scale();
          if (of_.cap > 0) score = of_.cap * std::tanh(score / of_.cap);
          p.push_back(std::exp(score));
          sum += p.back();
        }
        for (std::int64_t c = 0; c < of_.K; ++c) {
          double o = 0;
          for (std::size_t j = 0; j < p.size(); ++j)
            o += p[j] / sum *
                 number(v_, ((first_of(t) + static_cast<std::int64_t>(j)) * of_.G + g) *
                                    of_.K +
                                c);
          result.o[static_cast<std::size_t>((t * of_.H + h) * of_.K + c)] = o;
        }
        result.lse[static_cast<std::size_t>(t * of_.H + h)] = std::log(sum);
      }
    return result;
  }

 private:
  double scale() const { return 1 / std::sqrt(static_cast<double>(of_.K)); }
  std::int64_t first_of(std::int64_t t) const {
    return of_.window > 0 ? std::max<std::int64_t>(t - of_.window + 1, 0) : 0;
  }
  std::vector<std::int32_t> kv_head() const {
    std::vector<std::int32_t> map;
    for (std::int64_t h = 0; h < of_.H; ++h)
      map.push_back(static_cast<std::int32_t>(h * of_.G / of_.H));
    return map;
  }

  Case of_;
  std::vector<T> q_, k_, v_;
};

double largest_difference(const Result& a, const Result& b) {
  double most = 0;
  for (std::size_t i = 0; i < a.o.size(); ++i)
    most = std::max(most, std::abs(a.o[i] - b.o[i]));
  for (std::size_t i = 0; i < a.lse.size(); ++i)
    most = std::max(most, std::abs(a.lse[i] - b.lse[i]));
  return most;
}

const std::vector<Case> cases = {{1, 1, 1, 1, 1},
                                 {150, 4, 2, 10, 16},
                                 {200, 3, 3, 64, 5},
                                 {131, 4, 1, 80, 64, 7},
                                 {140, 2, 2, 16, 16, 90},
                                 {70, 6, 2, 24, 8, 0, 3.0},
                                 {90, 5, 1, 33, 4, 0, 0, true},
                                 {530, 6, 2, 64, 16},
                                 {521, 3, 1, 32, 16, 40},
                                 {66, 20, 1, 96, 16},
                                 {83, 4, 2, 128, 16}};

// Sums of S terms of order 1, and dot products of K of them: rounding is a few times eps
// sqrt(S + K) at most; for halves the result is rounded besides.
template <class T>
void compare(double eps) {
  for (const Case& of : cases) {
    Paged<T> paged(of);
    const Result exact = paged.reference();
    const double bound =
        4 * eps * std::sqrt(static_cast<double>(of.S + of.K)) + (eps > 1e-4 ? eps : 0);
    const Result whole = paged.run(of.S);
    EXPECT_LT(largest_difference(whole, exact), bound) << of.S << " x " << of.K;
    for (const std::int64_t piece : {1, 7, 64}) {
      const Result other = paged.run(piece);
      EXPECT_EQ(other.o, whole.o) << "pieces of " << piece;
      EXPECT_EQ(other.lse, whole.lse) << "pieces of " << piece;
    }
  }
}

TEST(PagedAttention, IsAttention) {
  compare<double>(0x1p-52);
  compare<float>(0x1p-23);
}
TEST(PagedAttention, IsAttentionOfHalves) {
  compare<BFloat16>(0x1p-8);
  compare<Float16>(0x1p-11);
}

// Keys and values of order 1 are off by half a step of their codes: 1/254 of the largest,
// or 1/16 of each number; scores of sqrt(K) such products add up to sqrt(K) times that.
TEST(PagedAttention, CodesAreNearTheNumbers) {
  for (const Case& of : cases) {
    Paged<float> paged(of);
    const Result exact = paged.run(of.S);
    const double K = std::sqrt(static_cast<double>(of.K));
    const auto error = [&](DType type) {
      return largest_difference(paged.run(of.S, type), exact);
    };
    EXPECT_LT(error(DType::u8), 2 * (1 + K) / 254) << of.S << " x " << of.K;
    EXPECT_LT(error(DType::e4m3), 2 * (1 + K) / 16) << of.S << " x " << of.K;
    EXPECT_LT(error(DType::bf16), 2 * (1 + K) / 256) << of.S << " x " << of.K;
    EXPECT_EQ(paged.run(7, DType::u8).o, paged.run(of.S, DType::u8).o);
    EXPECT_EQ(paged.run(7, DType::e4m3).o, paged.run(of.S, DType::e4m3).o);
  }
}

// Parts of chunks of 512 positions, for plans of a GPU's memory.
TEST(PagedAttention, TellsThePlanWhatAGpuTakes) {
  const Device meta = Device::meta();
  Stream stream(meta);
  const auto needed = [&](std::int64_t rows, std::int64_t blocks) {
    const AttentionShape shape = {.batch = 1,
                                  .sequence = rows,
                                  .heads = 4,
                                  .kv_heads = 2,
                                  .head_width = 64,
                                  .kv_head = {0, 0, 1, 1}};
    const auto tensor = [&](DType type, const Shape& of) {
      return TensorView(nullptr, type, of, meta);
    };
    const TensorView x = tensor(DType::bf16, {rows, 256}),
                     cache = tensor(DType::bf16, {blocks, 2, 16, 64});
    Arena scratch(meta, 0, MemoryClass::workspace, "scratch");
    const WorkingMemoryCount count;
    attention_paged(stream, scratch, shape, {}, x, {.keys = cache, .values = cache}, x,
                    tensor(DType::f32, {rows, 4}));
    return count.bytes();
  };
  EXPECT_EQ(needed(24, 32), 0);
  EXPECT_EQ(needed(24, 33), 24 * 2 * 4 * 66 * 4);
  EXPECT_EQ(needed(1 << 16, 3200), 64 << 20);
  EXPECT_EQ(needed(1 << 16, 1 << 18), std::int64_t{16} * (1 << 13) * 4 * 66 * 4);
}

TEST(PagedAttention, RefusesWhatDoesNotFit) {
  const Device device = test::test_device();
  Stream stream(device);
  const Buffer x(device, DType::f32, {2, 4}, MemoryClass::data, "test"),
      blocks(device, DType::f32, {2, 2, 2, 3}, MemoryClass::data, "test"),
      codes(device, DType::u8, {2, 2, 2, 2}, MemoryClass::data, "test");
  EXPECT_THROW(store_in_blocks(stream, {}, x.view(), blocks.view(), {}), Error);
  EXPECT_THROW(store_in_blocks(stream, {}, x.view(), codes.view(), {}), Error);
}

}  // namespace
}  // namespace trireme::kernels
