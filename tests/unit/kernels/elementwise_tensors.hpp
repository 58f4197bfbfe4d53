// Tensors, tolerances and finite differences for the tests of row-wise kernels.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "base/device_memory.hpp"
#include "base/memory.hpp"
#include "base/philox.hpp"
#include "kernels/reference/numbers.hpp"
#include "support/device.hpp"

namespace trireme::test {

using kernels::reference::added;
using kernels::reference::largest;
using kernels::reference::rounded;
using kernels::reference::roundoff;
using kernels::reference::storing;
using kernels::reference::Vector;

// A tensor that owns its memory, on the device of the test. With `padding` a matrix is a
// range of columns of a wider one, whose other columns hold a mark that kernels must
// leave alone.
class Tensor {
 public:
  static constexpr double mark = 777.0;  // rounds to 776 in bf16

  Tensor(DType dtype, const Shape& shape, std::int64_t padding = 0)
      : padding_(padding),
        buffer_(test_device(), dtype, padding ? wide(shape, padding) : shape,
                MemoryClass::data, "test"),
        view_(padding ? buffer_.view().columns(padding, shape[1]) : buffer_.view()) {
    if (padding > 0) write(buffer_.view(), [](std::int64_t) { return mark; });
  }
  Tensor(DType dtype, const Shape& shape, const Vector& values, std::int64_t padding = 0)
      : Tensor(dtype, shape, padding) {
    set(values);
  }
  static Tensor normal(DType dtype, const Shape& shape, std::uint64_t seed,
                       std::int64_t padding = 0) {
    Tensor result(dtype, shape, padding);
    const Random random(seed, 1);
    Vector values(static_cast<std::size_t>(shape.elements()));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = random.normal(i);
    result.set(values);
    return result;
  }

  operator const TensorView&() const { return view_; }  // NOLINT: stands for its view
  const TensorView& view() const { return view_; }

  void set(const Vector& values) {
    write(view_, [&](std::int64_t i) { return values[static_cast<std::size_t>(i)]; });
  }
  Vector values() const { return read(view_); }

  // True if the columns on both sides still hold the mark.
  bool padding_is_intact() const {
    if (padding_ == 0) return true;
    const std::int64_t end = padding_ + view_.dim(1);
    for (const auto& side :
         {buffer_.view().columns(0, padding_), buffer_.view().columns(end, padding_)})
      for (const double v : read(side))
        if (std::abs(v - mark) > 1.0) return false;
    return true;
  }

 private:
  static Shape wide(const Shape& shape, std::int64_t padding) {
    return {shape[0], shape[1] + 2 * padding};
  }
  static std::int64_t offset(const TensorView& view, std::int64_t i) {
    if (view.shape().rank() != 2) return i;
    return i / view.dim(1) * view.stride(0) + i % view.dim(1);
  }
  template <class F>
  static void write(const TensorView& target, const F& value) {
    const Buffer host(Device::host(), target.dtype(), target.shape(), MemoryClass::data,
                      "test");
    const TensorView view = target.device().is_host() ? target : host.view();
    visit_floating(view.dtype(), [&]<class T>(T) {
      for (std::int64_t i = 0; i < view.elements(); ++i)
        view.data<T>()[offset(view, i)] = T(static_cast<Accumulator<T>>(value(i)));
    });
    Stream stream(target.device());
    copy_bytes(stream, view, target);
  }
  static Vector read(const TensorView& source) {
    const Buffer host(Device::host(), source.dtype(), source.shape(), MemoryClass::data,
                      "test");
    const TensorView view = source.device().is_host() ? source : host.view();
    Stream stream(source.device());
    copy_bytes(stream, source, view);
    Vector values;
    visit_floating(view.dtype(), [&]<class T>(T) {
      for (std::int64_t i = 0; i < view.elements(); ++i)
        values.push_back(static_cast<double>(
            static_cast<Accumulator<T>>(view.data<T>()[offset(view, i)])));
    });
    return values;
  }

  std::int64_t padding_;
  Buffer buffer_;
  TensorView view_;
};

// A vector of int32 with its view on the device of the test.
class Indices {
 public:
  explicit Indices(std::vector<std::int32_t> values)
      : values_(std::move(values)),
        buffer_(test_device(), DType::i32, {static_cast<std::int64_t>(values_.size())},
                MemoryClass::data, "test") {
    Stream stream(test_device());
    copy_bytes(stream, TensorView(values_.data(), DType::i32, buffer_.view().shape()),
               buffer_.view());
  }
  operator const TensorView&() const { return buffer_.view(); }  // NOLINT
  const std::vector<std::int32_t>& values() const { return values_; }

 private:
  std::vector<std::int32_t> values_;
  Buffer buffer_;
};

inline double dot(const Vector& a, const Vector& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// Every element: |actual - expected| <= the error of storing it in `dtype` + absolute.
inline void expect_close(DType dtype, const Vector& actual, const Vector& expected,
                         double absolute, const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  for (std::size_t i = 0; i < actual.size(); ++i)
    ASSERT_LE(std::abs(actual[i] - expected[i]), storing(dtype, expected[i]) + absolute)
        << what << ", element " << i << ": " << actual[i] << " for " << expected[i];
}

// With L(x) = <u, f(x)>: <gradient, v> against (L(x + h v) - L(x - h v)) / 2 h for a
// random v. With h = 1e-5 the difference quotient errs by h^2 ~ 1e-10 times the third
// derivative and by 2^-53 / h ~ 1e-11 times the sum of magnitudes.
inline void expect_derivative(const std::function<Vector(const Vector&)>& f,
                              const Vector& x, const Vector& u, const Vector& gradient,
                              const std::string& what) {
  constexpr double h = 1e-5;
  const Random random(77, 3);
  Vector v(x.size()), above = x, below = x;
  for (std::size_t i = 0; i < x.size(); ++i) {
    v[i] = random.normal(i);
    above[i] += h * v[i];
    below[i] -= h * v[i];
  }
  const double quotient = (dot(u, f(above)) - dot(u, f(below))) / (2 * h);
  const double size = std::sqrt(dot(gradient, gradient) * dot(v, v));
  EXPECT_NEAR(dot(gradient, v), quotient, 1e-8 * (1.0 + size)) << what;
}

inline std::string type_name(const testing::TestParamInfo<DType>& info) {
  return std::string(name_of(info.param));
}

inline const auto every_type =
    testing::Values(DType::f64, DType::f32, DType::bf16, DType::f16);

}  // namespace trireme::test
