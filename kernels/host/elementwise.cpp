// Adds, copies, casts, fills, soft caps and column sums on the host.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/elementwise.hpp"

#include <array>
#include <limits>

#include "kernels/host/add_rows.hpp"
#include "kernels/host/rows.hpp"
#include "kernels/host/vector_math.hpp"

namespace trireme::kernels::host {
namespace {

// Columns of sum_parts and max_parts that are held in registers and first-level cache.
constexpr std::int64_t block = 512;
constexpr std::size_t most_parts = 32;  // of reduction_parts()

thread_local Scratch partial_sums("partial column sums");

// out[i] = parts[0][i] combined with parts[p][i] for p = 1, 2, ... Blocks are read whole
// before they are written, since `out` may be one of the parts.
template <class F>
void combine_parts(const char* label, const TensorView& parts_PN, const TensorView& out_N,
                   const F& combine) {
  visit_floating(out_N.dtype(), [&]<class T>(T) {
    const auto parts = rows_of<const T>(parts_PN);
    T* const out = out_N.data<T>();
    const std::int64_t P = parts_PN.dim(0);
    for_ranges(label, out_N.dim(0), elements_per_task / 4, threads(),
               [&](std::int64_t begin, std::int64_t end) {
                 std::array<Accumulator<T>, block> values;
                 for (std::int64_t at = begin; at < end; at += block) {
                   const std::int64_t n = std::min(block, end - at);
                   auto* const v = values.data();
                   const T* part = parts[0] + at;
#pragma omp simd
                   for (std::int64_t i = 0; i < n; ++i) v[i] = load(part[i]);
                   for (std::int64_t p = 1; p < P; ++p) {
                     part = parts[p] + at;
#pragma omp simd
                     for (std::int64_t i = 0; i < n; ++i)
                       v[i] = combine(v[i], load(part[i]));
                   }
#pragma omp simd
                   for (std::int64_t i = 0; i < n; ++i) out[at + i] = store<T>(v[i]);
                 }
               });
  });
}

// Four sums, of the four quarters of x, run side by side: one alone would wait for its
// own additions.
template <class T>
double squares_of(const T* x, std::int64_t n) {
  const std::int64_t q = n / 4;
  double s0 = 0, s1 = 0, s2 = 0, s3 = 0;
#pragma omp simd reduction(+ : s0, s1, s2, s3)
  for (std::int64_t i = 0; i < q; ++i) {
    const auto a = static_cast<double>(load(x[i]));
    const auto b = static_cast<double>(load(x[i + q]));
    const auto c = static_cast<double>(load(x[i + 2 * q]));
    const auto d = static_cast<double>(load(x[i + 3 * q]));
    s0 += a * a;
    s1 += b * b;
    s2 += c * c;
    s3 += d * d;
  }
  for (std::int64_t i = 4 * q; i < n; ++i) {
    const auto a = static_cast<double>(load(x[i]));
    s0 += a * a;
  }
  return (s0 + s1) + (s2 + s3);
}

// x - x is 0 for finite x, else NaN.
template <class T>
bool finite(const T* x, std::int64_t n) {
  int others = 0;
#pragma omp simd reduction(| : others)
  for (std::int64_t i = 0; i < n; ++i) {
    const auto v = load(x[i]);
    others |= v - v == 0 ? 0 : 1;
  }
  return others == 0;
}

std::int64_t parts_of(const TensorView& x) {
  return reduction_parts(x.elements(), elements_per_task);
}

// f(part, data, count) for some parts of a dense tensor; their number depends on its
// size.
template <class F>
void for_parts(const TensorView& x, const Range& parts, const F& f) {
  const std::int64_t n = x.elements(), of = parts_of(x);
  visit_floating(x.dtype(), [&]<class T>(T) {
    const T* const data = x.data<T>();
    for (std::int64_t p = parts.begin; p < parts.end; ++p) {
      const Range range = split_range(n, of, p);
      f(static_cast<std::size_t>(p), data + range.begin, range.count());
    }
  });
}

}  // namespace

void add(Stream& /*stream*/, const TensorView& a_, const TensorView& b_,
         const TensorView& y_) {
  visit_floating(y_.dtype(), [&]<class T>(T) {
    const T *const a = a_.data<T>(), *const b = b_.data<T>();
    T* const y = y_.data<T>();
    for_elements("add", {&a_, &b_, &y_},
                 [&](std::int64_t, std::int64_t begin, std::int64_t end) {
                   add_rows<T>(a, b, nullptr, y, begin, end);
                 });
  });
}

void add_bias(Stream& /*stream*/, const TensorView& a_TD, const TensorView& b_TD,
              const TensorView& bias_D, const TensorView& y_TD) {
  visit_floating(y_TD.dtype(), [&]<class T>(T) {
    const auto a = rows_of<const T>(a_TD);
    const auto b = rows_of<const T>(b_TD);
    const auto y = rows_of<T>(y_TD);
    const T* const bias = bias_D.empty() ? nullptr : bias_D.data<T>();
    const std::int64_t D = y_TD.dim(1);
    for_rows("add_bias", y_TD.dim(0), D, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t t = begin; t < end; ++t) add_rows(a[t], b[t], bias, y[t], 0, D);
    });
  });
}

void add_to_rows(Stream& /*stream*/, const TensorView& bias_D, const TensorView& x_TD) {
  visit_floating(x_TD.dtype(), [&]<class T>(T) {
    const auto x = rows_of<T>(x_TD);
    const T* const bias = bias_D.data<T>();
    const std::int64_t D = x_TD.dim(1);
    for_rows("add_to_rows", x_TD.dim(0), D, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t t = begin; t < end; ++t)
        add_rows<T>(x[t], bias, nullptr, x[t], 0, D);
    });
  });
}

void copy(Stream& /*stream*/, const TensorView& x_, const TensorView& y_) {
  visit_floating(x_.dtype(), [&]<class X>(X) {
    visit_floating(y_.dtype(), [&]<class Y>(Y) {
      const auto x = rows_of<const X>(x_);
      const auto y = rows_of<Y>(y_);
      for_elements("copy", {&x_, &y_},
                   [&](std::int64_t r, std::int64_t begin, std::int64_t end) {
                     const X* from = x[r];
                     Y* to = y[r];
                     if constexpr (std::is_same_v<X, Y>) {
                       std::copy(from + begin, from + end, to + begin);
                     } else {
#pragma omp simd
                       for (std::int64_t i = begin; i < end; ++i)
                         to[i] = store<Y>(static_cast<Accumulator<Y>>(load(from[i])));
                     }
                   });
    });
  });
}

void fill(Stream& /*stream*/, const TensorView& y_, double value) {
  visit_floating(y_.dtype(), [&]<class T>(T) {
    T* const y = y_.data<T>();
    const T v = store<T>(static_cast<Accumulator<T>>(value));
    for_elements("fill", {&y_}, [&](std::int64_t, std::int64_t begin, std::int64_t end) {
      std::fill(y + begin, y + end, v);
    });
  });
}

void scale(Stream& /*stream*/, const TensorView& x_, double factor) {
  visit_floating(x_.dtype(), [&]<class T>(T) {
    T* const x = x_.data<T>();
    const auto f = static_cast<Accumulator<T>>(factor);
    for_elements("scale", {&x_}, [&](std::int64_t, std::int64_t begin, std::int64_t end) {
#pragma omp simd
      for (std::int64_t i = begin; i < end; ++i) x[i] = store<T>(load(x[i]) * f);
    });
  });
}

void soft_cap(Stream& /*stream*/, const TensorView& x_, double cap) {
  visit_floating(x_.dtype(), [&]<class T>(T) {
    using A = Accumulator<T>;
    const auto x = rows_of<T>(x_);
    const auto c = static_cast<A>(cap), inverse = static_cast<A>(1 / cap);
    for_elements("soft_cap", {&x_},
                 [&](std::int64_t r, std::int64_t begin, std::int64_t end) {
                   T* const row = x[r];
#pragma omp simd
                   for (std::int64_t i = begin; i < end; ++i)
                     row[i] = store<T>(c * hyperbolic_tangent(load(row[i]) * inverse));
                 });
  });
}

void soft_cap_backward(Stream& /*stream*/, const TensorView& y_, double cap,
                       const TensorView& d_) {
  visit_floating(y_.dtype(), [&]<class Y>(Y) {
    visit_floating(d_.dtype(), [&]<class D>(D) {
      using A = Accumulator<D>;
      const auto y = rows_of<const Y>(y_);
      const auto d = rows_of<D>(d_);
      const auto inverse = static_cast<A>(1 / cap);
      for_elements("soft_cap_backward", {&y_, &d_},
                   [&](std::int64_t r, std::int64_t begin, std::int64_t end) {
                     const Y* const from = y[r];
                     D* const to = d[r];
#pragma omp simd
                     for (std::int64_t i = begin; i < end; ++i) {
                       const A t = static_cast<A>(load(from[i])) * inverse;
                       to[i] = store<D>(load(to[i]) * (A(1) - t * t));
                     }
                   });
    });
  });
}

void add_column_sums(Stream& /*stream*/, const TensorView& x_TN,
                     const TensorView& sums_N) {
  visit_floating(x_TN.dtype(), [&]<class T>(T) {
    using A = Accumulator<T>;
    const auto x = rows_of<const T>(x_TN);
    const std::int64_t rows = x_TN.dim(0), N = x_TN.dim(1);
    const std::int64_t parts = row_parts(rows, N);
    A* const sums = partial_sums.take<A>(parts * N);
    run_chunks("add_column_sums", parts, ChunkBody([&](std::int64_t p) {
                 A* const sum = sums + p * N;
                 std::fill(sum, sum + N, A(0));
                 const Range range = split_range(rows, parts, p);
                 for (std::int64_t t = range.begin; t < range.end; ++t) {
                   const T* row = x[t];
#pragma omp simd
                   for (std::int64_t i = 0; i < N; ++i) sum[i] += load(row[i]);
                 }
               }));
    add_partial_sums("add_column_sums", sums, parts, N, sums_N.data<A>());
  });
}

void accumulate(Stream& /*stream*/, const TensorView& x_, const TensorView& y_) {
  visit_floating(x_.dtype(), [&]<class X>(X) {
    visit_floating(y_.dtype(), [&]<class Y>(Y) {
      const X* const x = x_.data<X>();
      Y* const y = y_.data<Y>();
      for_elements("accumulate", {&x_, &y_},
                   [&](std::int64_t, std::int64_t begin, std::int64_t end) {
#pragma omp simd
                     for (std::int64_t i = begin; i < end; ++i)
                       y[i] =
                           store<Y>(load(y[i]) + static_cast<Accumulator<Y>>(load(x[i])));
                   });
    });
  });
}

void sum_parts(Stream& /*stream*/, const TensorView& parts_PN, const TensorView& out_N) {
  combine_parts("sum_parts", parts_PN, out_N, [](auto a, auto b) { return a + b; });
}

void max_parts(Stream& /*stream*/, const TensorView& parts_PN, const TensorView& out_N) {
  // A NaN in any part wins, so that it cannot hide.
  combine_parts("max_parts", parts_PN, out_N,
                [](auto a, auto b) { return b > a || b != b ? b : a; });
}

// Threads meet once for many tensors, of each of which all have a share.
void add_sums_of_squares(Stream& /*stream*/, std::span<const TensorView> tensors,
                         const TensorView& sum_1) {
  constexpr std::size_t at_once = 64;
  std::array<std::array<double, most_parts>, at_once> sums;
  for (; !tensors.empty(); tensors = tensors.subspan(std::min(at_once, tensors.size()))) {
    const auto some = tensors.first(std::min(at_once, tensors.size()));
    std::int64_t shares = 0;
    for (const TensorView& x : some) shares = std::max(shares, parts_of(x));
    shares = std::min<std::int64_t>(shares, threads());
    run_chunks("sums_of_squares", shares, ChunkBody([&](std::int64_t share) {
                 for (std::size_t i = 0; i < some.size(); ++i)
                   for_parts(some[i], split_range(parts_of(some[i]), shares, share),
                             [&](std::size_t p, const auto* data, std::int64_t n) {
                               sums[i][p] = squares_of(data, n);
                             });
               }));
    for (std::size_t i = 0; i < some.size(); ++i) {
      double total = 0;
      for (std::int64_t p = 0; p < parts_of(some[i]); ++p)
        total += sums[i][static_cast<std::size_t>(p)];
      *sum_1.data<double>() += total;
    }
  }
}

void add_sum_of_squares(Stream& stream, const TensorView& x, const TensorView& sum_1) {
  host::add_sums_of_squares(stream, {&x, 1}, sum_1);
}

double sum_of_squares(Stream& stream, const TensorView& x) {
  double sum = 0;
  host::add_sum_of_squares(stream, x, TensorView(&sum, DType::f64, {1}));
  return sum;
}

void add_sum(Stream& /*stream*/, const TensorView& x, const TensorView& sum_1) {
  double sum = 0;
  visit_floating(x.dtype(), [&]<class T>(T) {
    for (const T v : x.span<T>()) sum += static_cast<double>(load(v));
  });
  *sum_1.data<double>() += sum;
}

bool all_finite(Stream& /*stream*/, const TensorView& x) {
  std::array<bool, most_parts> part_is_finite{};
  run_chunks("all_finite", parts_of(x), ChunkBody([&](std::int64_t part) {
               for_parts(x, {part, part + 1},
                         [&](std::size_t p, const auto* data, std::int64_t n) {
                           part_is_finite[p] = finite(data, n);
                         });
             }));
  return std::all_of(part_is_finite.begin(), part_is_finite.begin() + parts_of(x),
                     [](bool b) { return b; });
}

}  // namespace trireme::kernels::host
