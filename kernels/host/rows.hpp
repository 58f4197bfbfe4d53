// How row-wise and elementwise host kernels see their operands and share work.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <type_traits>

#include "base/memory.hpp"
#include "base/tensor_view.hpp"
#include "kernels/host/parallel.hpp"
#include "kernels/runtime/runtime.hpp"

namespace trireme::kernels {

// Elements that one task handles at least: some microseconds of work.
inline constexpr std::int64_t elements_per_task = 16384;

// Rows of a matrix: row r begins at (*this)[r].
template <class T>
struct Rows {
  T* data = nullptr;
  std::int64_t stride = 0;
  T* operator[](std::int64_t r) const { return data + r * stride; }
};

// Rows of a matrix; any other shape (dense) is one row. An empty view has no data.
template <class T>
Rows<T> rows_of(const TensorView& view) {
  if (view.empty()) return {};
  return {view.data<std::remove_const_t<T>>(),
          view.shape().rank() == 2 ? view.stride(0) : 0};
}

// f(begin, end) over ranges of `rows` rows of `length` elements. Rows are independent.
template <class F>
void for_rows(const char* label, std::int64_t rows, std::int64_t length, const F& f) {
  const std::int64_t grain = elements_per_task / std::max<std::int64_t>(length, 1);
  for_ranges(label, rows, std::max<std::int64_t>(grain, 1), threads(), f);
}

// f(row, begin, end) over all elements of tensors of one shape: long pieces of row 0 when
// all are dense, else whole rows of matrices.
template <class F>
void for_elements(const char* label, std::initializer_list<const TensorView*> views,
                  const F& f) {
  const TensorView& first = **views.begin();
  const bool dense =
      std::all_of(views.begin(), views.end(), [](auto* v) { return v->is_dense(); });
  if (dense) {
    for_ranges(label, first.elements(), elements_per_task, threads(),
               [&](std::int64_t begin, std::int64_t end) { f(0, begin, end); });
    return;
  }
  const std::int64_t length = first.dim(1);
  for_rows(label, first.dim(0), length, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) f(r, 0, length);
  });
}

// Partial sums over the rows of a matrix: at least 8 rows and 4096 elements to each, so
// that small matrices wake no threads.
constexpr std::int64_t row_parts(std::int64_t rows, std::int64_t length) {
  const std::int64_t enough = 4096 / std::max<std::int64_t>(length, 1);
  return reduction_parts(rows, std::max<std::int64_t>(enough, 8));
}

// Memory for partial sums that only ever grows, so that the steady state allocates
// nothing.
class Scratch {
 public:
  explicit Scratch(std::string_view label) : label_(label) {}

  // `elements` of A with undefined contents, valid until the next call.
  template <class A>
  A* take(std::int64_t elements) {
    const std::int64_t doubles =
        divide_up(elements * static_cast<std::int64_t>(sizeof(A)), 8);
    if (buffer_.bytes() < static_cast<std::size_t>(doubles) * 8) {
      buffer_ = Buffer();
      buffer_ =
          Buffer(Device::host(), DType::f64, {doubles}, MemoryClass::workspace, label_);
    }
    return static_cast<A*>(buffer_.view().raw());
  }

 private:
  std::string_view label_;
  Buffer buffer_;
};

// sums[i] += sum over p of parts[p * n + i], p ascending. parts are overwritten.
template <class A>
void add_partial_sums(const char* label, A* parts, std::int64_t count, std::int64_t n,
                      A* sums) {
  for_ranges(label, n, elements_per_task / std::min<std::int64_t>(count, 8), threads(),
             [=](std::int64_t begin, std::int64_t end) {
               for (std::int64_t p = 1; p < count; ++p) {
                 const A* part = parts + p * n;
#pragma omp simd
                 for (std::int64_t i = begin; i < end; ++i) parts[i] += part[i];
               }
#pragma omp simd
               for (std::int64_t i = begin; i < end; ++i) sums[i] += parts[i];
             });
}

}  // namespace trireme::kernels
