// Times products of a few rows by a matrix of codes, beside numbers and a plain reading.
// SPDX-License-Identifier: Apache-2.0
//
// codes_bench [--quick] [ROWS [ROUNDS]]: a matrix of 134 million weights, which no cache
// holds; each round makes every product once, one after the other, and the best of the
// rounds counts, so that all are slowed alike by what else runs. Rates are those of the
// bytes of codes and scales (of numbers).
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/gemm.hpp"
#include "kernels/gemm_codes.hpp"
#include "kernels/host/parallel.hpp"
#include "kernels/host/simd.hpp"
#include "kernels/runtime/runtime.hpp"
#include "unit/kernels/coded_matrices.hpp"

namespace trireme::bench {
namespace {

using namespace kernels;  // NOLINT: this file times some of them

struct Timed {
  std::string name;
  double bytes = 0;
  std::function<void()> run;
  double best = 1e9;  // seconds
};

Buffer filled(DType type, std::int64_t rows, std::int64_t columns) {
  Buffer out(Device::host(), type, {rows, columns}, MemoryClass::data, "bench");
  const TensorView view = out.view();
  visit_floating(type, [&](auto element) {
    using T = decltype(element);
    run_chunks("bench.fill", rows, ChunkBody([&](std::int64_t row) {
                 test::SomeNumbers some(static_cast<std::uint32_t>(row));
                 for (std::int64_t j = 0; j < columns; ++j)
                   view.data<T>()[row * columns + j] = T(some.next());
               }));
  });
  return out;
}

// Of one thread: its time on a processor, which others do not lengthen much.
double seconds() {
  if (threads() == 1) return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
  const std::chrono::duration<double> now =
      std::chrono::steady_clock::now().time_since_epoch();
  return now.count();
}

// Words of a memory, added up: nothing can read it faster.
std::uint64_t sum_of_words(const TensorView& memory) {
  typedef std::uint64_t Words __attribute__((vector_size(simd::register_bytes)));
  const auto* const from = static_cast<const Words*>(memory.raw());
  const auto count = static_cast<std::int64_t>(memory.bytes() / sizeof(Words));
  constexpr std::int64_t chunk = 1 << 14;
  std::vector<std::uint64_t> sums(static_cast<std::size_t>(count / chunk));
  run_chunks("bench.read", count / chunk, ChunkBody([&](std::int64_t i) {
               Words sum[4] = {};
               for (const Words* at = from + i * chunk; at < from + (i + 1) * chunk;
                    at += 4)
                 for (int j = 0; j < 4; ++j) sum[j] += at[j];
               const Words all = sum[0] + sum[1] + sum[2] + sum[3];
               sums[static_cast<std::size_t>(i)] = all[0] + all[1];
             }));
  std::uint64_t sum = 0;
  for (const std::uint64_t part : sums) sum += part;
  return sum;
}

struct Kind {
  const char* name;
  CodeType type;
  std::int64_t rows, columns;  // that have a scale together; columns 0: the whole row
  bool zeros;
  DType rounding;  // u8: that of the operands
  CodeBook book = nf4_book;
  float factor = 1.0F;
};
constexpr DType as_operands = DType::u8;
constexpr CodeBook int4_book = {{-8.0F, -7.0F, -6.0F, -5.0F, -4.0F, -3.0F, -2.0F, -1.0F,
                                 0.0F, 1.0F, 2.0F, 3.0F, 4.0F, 5.0F, 6.0F, 7.0F}};
constexpr Kind kinds[] = {
    {"NF4, blocks of 64", CodeType::four_bits, 1, 64, false, as_operands, nf4_book},
    {"FP4, blocks of 64", CodeType::four_bits, 1, 64, false, as_operands, fp4_book},
    {"LLM.int8()", CodeType::int8, 1, 0, false, DType::f32, nf4_book, 1 / 127.0F},
    {"int8 by row", CodeType::int8, 1, 0, false, DType::f32},
    {"FP8, 128 x 128", CodeType::e4m3, 128, 128, false, DType::f32},
    {"FP8 by row", CodeType::e4m3, 1, 0, false, as_operands},
    {"int4, groups of 128", CodeType::four_bits, 1, 128, false, as_operands, int4_book},
    {"GPTQ, AWQ, groups of 128", CodeType::four_bits, 1, 128, true, DType::f16,
     int4_book},
    {"MXFP4, groups of 32", CodeType::four_bits, 1, 32, false, as_operands,
     test::mxfp4_book},
};

// Scales that are powers of two, as those of MXFP4.
void make_powers(OwnedCodes& codes) {
  for (float& scale : codes.scales.view().span<float>())
    scale = std::ldexp(1.0F, std::ilogb(scale + 0x1p-20F));
}

// E4M3 of numbers that lie as weights do: one in some thousands is subnormal, of random
// bytes one in sixteen, and a processor may be slower with those.
void make_bell(OwnedCodes& codes) {
  const auto all = codes.codes.view().span<std::uint8_t>();
  constexpr std::int64_t part = 1 << 16;
  const std::int64_t count = std::ssize(all);
  run_chunks("bench.fill", divide_up(count, part), ChunkBody([&](std::int64_t chunk) {
               test::SomeNumbers some(static_cast<std::uint32_t>(chunk));
               const auto uniform = [&] {
                 return static_cast<float>(some.bits() >> 8) * 0x1p-23F - 1;
               };
               for (std::int64_t i = chunk * part;
                    i < std::min(count, (chunk + 1) * part); ++i)
                 all[static_cast<std::size_t>(i)] =
                     nearest_e4m3(112 * (uniform() + uniform() + uniform() + uniform()));
             }));
}

class CodesBench {
 public:
  CodesBench(std::int64_t N, std::int64_t K, std::int64_t rows)
      : N_(N), K_(K), rows_(rows), largest_(filled(DType::f32, N, K)) {}

  void run(int rounds) {
    all_.push_back({"reading alone", static_cast<double>(largest_.bytes()),
                    [this] { kept_ = kept_ + sum_of_words(largest_.view()); }});
    for (const DType type : {DType::f32, DType::bf16}) add_products(type);
    for (int round = 0; round < rounds; ++round)
      for (Timed& one : all_) {
        const double start = seconds();
        one.run();
        one.best = std::min(one.best, seconds() - start);
      }
    print();
  }

 private:
  void add_products(DType type) {
    const auto in = std::make_shared<Buffer>(filled(type, rows_, K_));
    const auto out = std::make_shared<Buffer>(filled(type, rows_, N_));
    const std::string end = " x " + std::string(name_of(type));
    const auto numbers = std::make_shared<Buffer>(filled(type, N_, K_));
    all_.push_back({"numbers" + end, static_cast<double>(numbers->bytes()), [=] {
                      Stream stream;
                      gemm(stream, out->view(), in->view(), Transpose::no,
                           numbers->view(), Transpose::yes);
                    }});
    for (const Kind& kind : kinds) {
      const std::int64_t width = kind.columns > 0 ? kind.columns : K_;
      OwnedCodes codes = test::coded_matrix(
          kind.type, {N_, K_}, test::grid_of_scales(kind.rows, width, K_, 0, 0),
          kind.zeros);
      codes.matrix.rounding = kind.rounding == as_operands ? type : kind.rounding;
      codes.matrix.book = kind.book;
      codes.matrix.factor = kind.factor;
      if (kind.columns == 32) make_powers(codes);
      if (kind.type == CodeType::e4m3) make_bell(codes);
      const auto bytes = static_cast<double>(codes.matrix.bytes());
      const auto weight = std::make_shared<WeightCodes>();
      weight->numbers = numbers->view();
      weight->boxes.push_back({{0, 0}, std::move(codes)});
      all_.push_back({kind.name + end, bytes, [=] {
                        Stream stream;
                        gemm_codes(stream, out->view(), in->view(), *weight, {});
                      }});
    }
  }

  void print() const {
    std::printf("%lld x %lld weights, %lld rows, %d threads\n",
                static_cast<long long>(N_), static_cast<long long>(K_),
                static_cast<long long>(rows_), threads());
    std::printf("%-40s %8s %8s %8s %10s\n", "product", "MB", "ms", "GB/s", "of reading");
    const double rate = all_.front().bytes / all_.front().best;
    for (const Timed& one : all_)
      std::printf("%-40s %8.1f %8.2f %8.2f %9.0f%%\n", one.name.c_str(), one.bytes / 1e6,
                  1e3 * one.best, one.bytes / one.best / 1e9,
                  100 * one.bytes / one.best / rate);
  }

  std::int64_t N_, K_, rows_;
  Buffer largest_;
  std::vector<Timed> all_;
  volatile std::uint64_t kept_ = 0;
};

}  // namespace
}  // namespace trireme::bench

int main(int argc, char** argv) {
  const bool quick = argc > 1 && std::string_view(argv[1]) == "--quick";
  const int first = quick ? 2 : 1;
  const int rows = argc > first ? std::stoi(argv[first]) : 1;
  const int rounds = argc > first + 1 ? std::stoi(argv[first + 1]) : quick ? 1 : 10;
  const trireme::kernels::Runtime runtime;
  const std::int64_t N = quick ? 1024 : 32768, K = quick ? 512 : 4096;
  trireme::bench::CodesBench(N, K, rows).run(rounds);
  return 0;
}
