// A module on tensor ranks equals one rank, and its gradients are differences.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "base/philox.hpp"
#include "kernels/elementwise.hpp"
#include "nn/pass.hpp"
#include "nn/residual.hpp"
#include "support/world.hpp"

namespace trireme::test {

using Values = std::vector<double>;

// One module with its weights, and a step of it. Tokens are B sequences of S, D numbers
// each.
template <class Module>
class ModuleCase {
 public:
  // Element `index` of a tensor of rows of so many columns.
  using Element = std::function<double(const std::string& tensor, std::int64_t index,
                                       std::int64_t columns)>;
  static constexpr std::int64_t B = 2, S = 5, T = B * S, D = 6;

  // Of Module(arguments...).
  template <class... Arguments>
  explicit ModuleCase(const Element& element, const Arguments&... arguments)
      : module_(arguments...) {
    module_.collect(params);
    for (Param* param : params) {
      param->value = take(param->shape);
      param->gradient = take(param->shape);
      for_elements(*param, [&](const NamedBox& box, std::int64_t at, std::int64_t index) {
        param->value.data<double>()[at] =
            element(box.tensor, index, box.whole.rank() > 1 ? box.whole[1] : 1);
      });
    }
    for (std::int32_t t = 0; t < T; ++t) positions_.push_back(t % S);
    x = filled(1);
    u = filled(2);
  }

  // y of x, and <y, u>; with `backward` dx and the gradients.
  double run(bool backward) {
    Stream stream;
    saved_.reset();
    scratch_.reset();
    WeightAccess in_place;
    nn::WeightGradients gradients(in_place);
    parallel::LocalAttention core;
    nn::Pass pass{stream,   saved_,
                  scratch_, gradients,
                  core,     {B, S, TensorView(positions_.data(), DType::i32, {T})}};
    pass.microbatch.documents.starts_T = starts_T;
    pass.recompute = recompute;
    const TensorView x_TD(x.data(), DType::f64, {T, D});
    const TensorView zero = saved_.take(DType::f64, {T, D}, "zero");
    const TensorView y_TD = saved_.take(DType::f64, {T, D}, "y");
    kernels::fill(stream, zero, 0.0);
    typename Module::Saved kept;
    module_.forward(pass, x_TD, {zero, y_TD}, kept);
    y.assign(y_TD.data<double>(), y_TD.data<double>() + T * D);
    if (backward) {
      const TensorView dy_TD = saved_.take(DType::f64, {T, D}, "dy");
      kernels::copy(stream, TensorView(u.data(), DType::f64, {T, D}), dy_TD);
      const TensorView dx_TD = module_.backward(pass, dy_TD, kept);
      dx.assign(dx_TD.data<double>(), dx_TD.data<double>() + T * D);
    }
    double loss = 0;
    for (std::size_t i = 0; i < y.size(); ++i) loss += y[i] * u[i];
    return loss;
  }

  // This rank's share of the gradient of each whole tensor; the shares add up to it.
  std::map<std::string, Values> gradients() const {
    std::map<std::string, Values> all;
    for (const Param* param : params)
      for (const NamedBox& box : param->boxes) {
        Values& whole = all[box.tensor];
        whole.resize(static_cast<std::size_t>(box.whole.elements()));
        if (box.place == Place::invariant && !box.owned) continue;
        for_box(*param, box, [&](std::int64_t at, std::int64_t index) {
          whole[static_cast<std::size_t>(index)] += param->gradient.data<double>()[at];
        });
      }
    return all;
  }

  std::vector<Param*> params;
  Values x, u, y, dx;
  TensorView starts_T{};  // of documents
  nn::Recompute recompute{};

 private:
  // f(element of the Param, element of the whole tensor)
  template <class F>
  static void for_box(const Param& param, const NamedBox& box, const F& f) {
    const bool matrix = box.whole.rank() == 2;
    const std::int64_t columns = matrix ? box.extent[1] : 1;
    for (std::int64_t r = 0; r < box.extent[0]; ++r)
      for (std::int64_t c = 0; c < columns; ++c)
        f((box.local_begin[0] + r) * (matrix ? param.shape[1] : 1) +
              (matrix ? box.local_begin[1] : 0) + c,
          (box.global_begin[0] + r) * (matrix ? box.whole[1] : 1) +
              (matrix ? box.global_begin[1] : 0) + c);
  }
  template <class F>
  static void for_elements(const Param& param, const F& f) {
    for (const NamedBox& box : param.boxes)
      for_box(param, box,
              [&](std::int64_t at, std::int64_t index) { f(box, at, index); });
  }
  TensorView take(const Shape& shape) {
    memory_.emplace_back(Device::host(), DType::f64, shape, MemoryClass::weights, "test");
    Stream stream;
    kernels::fill(stream, memory_.back().view(), 0.0);
    return memory_.back().view();
  }
  static Values filled(std::uint64_t seed) {
    const Random random(seed, 5);
    Values values(T * D);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = random.normal(i);
    return values;
  }

  std::vector<Buffer> memory_;
  Module module_;
  std::vector<std::int32_t> positions_;
  Arena saved_{Device::host(), 1 << 20, MemoryClass::activations, "saved"};
  Arena scratch_{Device::host(), 1 << 20, MemoryClass::workspace, "scratch"};
};

inline double relative(const Values& a, const Values& b) {
  EXPECT_EQ(a.size(), b.size());
  double difference = 0, size = 1e-300;
  for (std::size_t i = 0; i < b.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    size += b[i] * b[i];
  }
  return std::sqrt(difference / size);
}

// EQ64 of the design, and every share of every gradient: `many` on the ranks of `group`,
// `one` on each alone. Backward writes dx and adds to gradients.
template <class Module>
void expect_ranks_equal_one(ModuleCase<Module>& one, ModuleCase<Module>& many,
                            comm::Group& group) {
  one.run(true);
  many.run(true);
  EXPECT_LE(relative(many.y, one.y), 1e-10);
  EXPECT_LE(relative(many.dx, one.dx), 1e-10);
  auto shares = many.gradients();
  const auto expected = one.gradients();
  for (const auto& [tensor, gradient] : expected) {
    Values& sum = shares[tensor];  // a rank without a box of it has none
    sum.resize(gradient.size());
    Stream stream;
    group
        .all_reduce(stream, TensorView(sum.data(), DType::f64,
                                       {static_cast<std::int64_t>(sum.size())}))
        .wait();
    EXPECT_LE(relative(sum, gradient), 1e-10) << tensor;
  }
  EXPECT_GE(expected.size(), 4U);
  const Values dx = one.dx;
  one.run(true);
  EXPECT_EQ(one.dx, dx);
  for (const auto& [tensor, twice] : one.gradients()) {
    Values half = twice;
    for (double& x : half) x /= 2;
    EXPECT_LE(relative(half, expected.at(tensor)), 1e-14) << tensor;
  }
}

// With a step of 1e-6 a central difference errs by about 1e-10 of the loss.
template <class Module>
void expect_differences(ModuleCase<Module>& c) {
  c.run(true);
  constexpr double h = 1e-6;
  const auto check = [&](double* values, const double* gradient, std::size_t count,
                         const std::string& name) {
    const Random random(9, hash_name(name));
    const Values before(values, values + count);
    double expected = 0, size = 0;
    for (std::size_t i = 0; i < count; ++i) {
      expected += gradient[i] * random.normal(i);
      size += gradient[i] * gradient[i];
    }
    const auto moved = [&](double step) {
      for (std::size_t i = 0; i < count; ++i)
        values[i] = before[i] + step * random.normal(i);
      return c.run(false);
    };
    const double numeric = (moved(h) - moved(-h)) / (2 * h);
    std::copy(before.begin(), before.end(), values);
    EXPECT_NEAR(numeric, expected, 1e-7 * (1 + std::sqrt(size))) << name;
    EXPECT_GT(size, 0) << name;
  };
  const Values dx = c.dx;
  check(c.x.data(), dx.data(), dx.size(), "x");
  for (Param* param : c.params)
    check(param->value.data<double>(), param->gradient.data<double>(),
          static_cast<std::size_t>(param->shape.elements()), param->name);
}

}  // namespace trireme::test
