// One attention problem: random operands in a fused buffer, every output, the oracle.
// SPDX-License-Identifier: Apache-2.0
// Legend: B sequences, S positions, H query heads, G key/value heads, K head width.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "base/device_memory.hpp"
#include "base/memory.hpp"
#include "base/philox.hpp"
#include "kernels/attention.hpp"
#include "kernels/host/vector_math.hpp"
#include "kernels/reference/attention.hpp"
#include "kernels/reference/numbers.hpp"
#include "kernels/runtime/runtime.hpp"
#include "support/device.hpp"

namespace trireme::test {

// Spacing of T's numbers at 1.
template <class T>
constexpr double epsilon() {
  if constexpr (std::is_same_v<T, BFloat16>) return 0x1p-7;
  if constexpr (std::is_same_v<T, Float16>) return 0x1p-10;
  return static_cast<double>(std::numeric_limits<Accumulator<T>>::epsilon());
}

inline kernels::AttentionShape attention_shape(std::int64_t B, std::int64_t S,
                                               std::int64_t K, std::int64_t G,
                                               std::vector<std::int32_t> kv_head) {
  const auto heads = static_cast<std::int64_t>(kv_head.size());
  const double scale = 1 / std::sqrt(static_cast<double>(K));
  return {B, S, heads, G, K, scale, std::move(kv_head)};
}

// All of an attention as one part.
inline kernels::AttentionPart whole(const kernels::AttentionShape& shape) {
  return kernels::AttentionPart::whole(shape.sequence);
}

inline Arena host_arena() {
  return Arena(Device::host(), std::size_t{64} << 20, MemoryClass::workspace, "scratch");
}

inline Buffer buffer(DType dtype, const Shape& shape) {
  return Buffer(Device::host(), dtype, shape, MemoryClass::activations, "test");
}

// The operands of one call as the device of the test sees them: copies of host buffers
// there, or the buffers themselves where that is the host.
class OnDevice {
 public:
  explicit OnDevice(std::initializer_list<const Buffer*> buffers)
      : stream(test_device()) {
    if (test_device().is_host()) return;
    for (const Buffer* host : buffers) {
      if (host->view().empty()) continue;
      const TensorView view = host->view();
      copies_.push_back({view, Buffer(test_device(), view.dtype(), view.shape(),
                                      MemoryClass::activations, "test")});
      copy_bytes(stream, view, copies_.back().device.view());
    }
  }

  // The device's view of a range of rows and columns of a buffer, or of a whole one.
  TensorView operator()(const TensorView& view) const {
    if (test_device().is_host() || view.empty()) return view;
    for (const auto& [host, device] : copies_) {
      const std::ptrdiff_t bytes = static_cast<const std::byte*>(view.raw()) -
                                   static_cast<const std::byte*>(host.raw());
      if (bytes < 0 || bytes >= static_cast<std::ptrdiff_t>(host.bytes())) continue;
      if (view.shape() == host.shape()) return device.view();
      const std::int64_t offset =
          bytes / static_cast<std::ptrdiff_t>(size_of(view.dtype()));
      return device.view()
          .rows(offset / host.dim(1), view.dim(0))
          .columns(offset % host.dim(1), view.dim(1));
    }
    ADD_FAILURE() << "a tensor has no copy on the device";
    return view;
  }
  kernels::AttentionShape operator()(kernels::AttentionShape shape) const {
    shape.first_T = (*this)(shape.first_T);
    return shape;
  }
  // What the call wrote, and what it left alone, back to the host.
  void copy_back() {
    for (const auto& [host, device] : copies_) copy_bytes(stream, device.view(), host);
  }

  Stream stream;
  Arena scratch = test_device().is_host()
                      ? host_arena()
                      : Arena(test_device(), 64, MemoryClass::workspace, "scratch");

 private:
  struct Copy {
    TensorView host;
    Buffer device;
  };
  std::vector<Copy> copies_;
};

// Standard normal numbers, rounded to T; the same for the same `stream`.
template <class T>
void fill_normal(const TensorView& view, std::uint64_t stream, double factor = 1) {
  const Random random(7, stream);
  for (std::int64_t r = 0; r < view.dim(0); ++r)
    for (std::int64_t c = 0; c < view.dim(1); ++c)
      view.data<T>()[r * view.stride(0) + c] =
          kernels::store<T>(static_cast<Accumulator<T>>(
              factor * random.normal(static_cast<std::uint64_t>(r * view.dim(1) + c))));
}

template <class T>
void fill(const TensorView& view, double value) {
  for (std::int64_t r = 0; r < view.dim(0); ++r)
    for (std::int64_t c = 0; c < view.dim(1); ++c)
      view.data<T>()[r * view.stride(0) + c] =
          kernels::store<T>(static_cast<Accumulator<T>>(value));
}

// A dense copy of a matrix in double.
template <class T>
std::vector<double> doubles(const TensorView& view) {
  std::vector<double> copy;
  for (std::int64_t r = 0; r < view.dim(0); ++r)
    for (std::int64_t c = 0; c < view.dim(1); ++c)
      copy.push_back(
          static_cast<double>(kernels::load(view.data<T>()[r * view.stride(0) + c])));
  return copy;
}

using kernels::reference::norm;

// Relative L2 distance, where norms below `floor` count as `floor`.
inline double distance(const std::vector<double>& x, const std::vector<double>& expected,
                       double floor = 0) {
  EXPECT_EQ(x.size(), expected.size());
  std::vector<double> difference(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) difference[i] = x[i] - expected[i];
  return norm(difference) / std::max({norm(expected), floor, 1e-300});
}

// Operands are columns of fused buffers [B * S, (H + 2 G) K] with a margin of columns
// that nothing may write.
template <class T>
struct AttentionCase {
  using A = Accumulator<T>;
  static constexpr double untouched = 77;

  explicit AttentionCase(kernels::AttentionShape with, double query_factor = 1,
                         std::int64_t columns_beside = 5)
      : shape(std::move(with)),
        margin(columns_beside),
        rows(shape.batch * shape.sequence),
        query_width(shape.heads * shape.head_width),
        key_width(shape.kv_heads * shape.head_width),
        fused(buffer(dtype_of<T>, {rows, query_width + 2 * key_width + margin})),
        d_fused(buffer(dtype_of<T>, {rows, query_width + 2 * key_width + margin})),
        outputs(buffer(dtype_of<T>, {rows, query_width + margin})),
        d_outputs(buffer(dtype_of<T>, {rows, query_width})),
        sums(buffer(dtype_of<A>, {rows, shape.heads})) {
    fill_normal<T>(q(), 1, query_factor);
    fill_normal<T>(k(), 2);
    fill_normal<T>(v(), 3);
    fill_normal<T>(d_o(), 4);
    fill<T>(d_fused.view(), untouched);
    fill<T>(outputs.view(), untouched);
  }

  TensorView q() const { return fused.view().columns(0, query_width); }
  TensorView k() const { return fused.view().columns(query_width, key_width); }
  TensorView v() const {
    return fused.view().columns(query_width + key_width, key_width);
  }
  TensorView dq() const { return d_fused.view().columns(0, query_width); }
  TensorView dk() const { return d_fused.view().columns(query_width, key_width); }
  TensorView dv() const {
    return d_fused.view().columns(query_width + key_width, key_width);
  }
  TensorView o() const { return outputs.view().columns(0, query_width); }
  TensorView d_o() const { return d_outputs.view(); }
  TensorView lse() const { return sums.view(); }

  void forward() {
    OnDevice on({&fused, &outputs, &sums, &first_keys});
    kernels::attention(on.stream, on.scratch, on(shape), on(q()), on(k()), on(v()),
                       on(o()), on(lse()));
    EXPECT_EQ(on.scratch.mark(), 0U);
    on.copy_back();
  }
  void backward() {
    OnDevice on({&fused, &d_fused, &outputs, &d_outputs, &sums, &first_keys});
    kernels::attention_backward(on.stream, on.scratch, on(shape), on(d_o()), on(q()),
                                on(k()), on(v()), on(o()), on(lse()), on(dq()), on(dk()),
                                on(dv()));
    EXPECT_EQ(on.scratch.mark(), 0U);
    on.copy_back();
  }

  // Cuts the sequences into documents of 1 to `longest` positions.
  void see_window(std::int64_t window) {
    first_keys = buffer(DType::i32, {rows});
    for (std::int64_t t = 0; t < rows; ++t)
      first_keys.view().data<std::int32_t>()[t] = static_cast<std::int32_t>(
          std::max<std::int64_t>(t % shape.sequence - window + 1, 0));
    shape.first_T = first_keys.view();
  }
  void cut_documents(std::int64_t longest) {
    first_keys = buffer(DType::i32, {rows});
    const Random random(23, static_cast<std::uint64_t>(longest));
    std::int64_t first = 0, end = 0;
    for (std::int64_t t = 0; t < rows; ++t) {
      const std::int64_t i = t % shape.sequence;
      if (i == 0) end = 0;
      if (i == end) {
        first = i;
        end = i + 1 +
              static_cast<std::int64_t>(static_cast<double>(longest) *
                                        random.uniform(static_cast<std::uint64_t>(t)));
      }
      first_keys.view().data<std::int32_t>()[t] = static_cast<std::int32_t>(first);
    }
    shape.first_T = first_keys.view();
  }
  // The keys that each query sees.
  std::vector<Range> visible() const {
    auto keys = kernels::reference::causal_keys(shape);
    if (!shape.first_T.empty())
      for (std::size_t t = 0; t < keys.size(); ++t)
        keys[t].begin = shape.first_T.data<std::int32_t>()[t];
    return keys;
  }

  kernels::reference::AttentionResult expected() const {
    return kernels::reference::attention(shape, visible(), doubles<T>(q()),
                                         doubles<T>(k()), doubles<T>(v()));
  }
  kernels::reference::AttentionGradients expected_gradients() const {
    return kernels::reference::attention_backward(shape, visible(), doubles<T>(d_o()),
                                                  doubles<T>(q()), doubles<T>(k()),
                                                  doubles<T>(v()));
  }

  // A bound of the relative error of probabilities: a score is a sum of K products, an
  // output one of S, and errors of scores grow with the scores.
  double accumulated() const {
    const double n =
        static_cast<double>(shape.sequence) + static_cast<double>(shape.head_width);
    return 4 * epsilon<A>() * std::sqrt(n);
  }

  void expect_margins_untouched() const {
    const std::int64_t width = query_width + 2 * key_width;
    for (const double x : doubles<T>(d_fused.view().columns(width, margin)))
      ASSERT_EQ(x, untouched);
    for (const double x : doubles<T>(outputs.view().columns(query_width, margin)))
      ASSERT_EQ(x, untouched);
  }

  std::string describe() const {
    return format("{} B={} S={} H={} G={} K={}", name_of(dtype_of<T>), shape.batch,
                  shape.sequence, shape.heads, shape.kv_heads, shape.head_width);
  }

  kernels::AttentionShape shape;
  std::int64_t margin, rows, query_width, key_width;
  Buffer fused, d_fused, outputs, d_outputs, sums, first_keys;
};

// Shapes that are hard in some way: every sequence around the sizes of blocks and groups,
// every head width around those of vectors, grouped heads in no order, a key/value head
// that no query head uses.
inline std::vector<kernels::AttentionShape> awkward_shapes() {
  std::vector<kernels::AttentionShape> shapes;
  for (const std::int64_t S : {1, 2, 15, 17, 63, 64, 65, 257})
    shapes.push_back(attention_shape(2, S, 20, 2, {1, 0, 1}));
  for (const std::int64_t K : {1, 3, 16, 32, 64, 80, 128})
    shapes.push_back(attention_shape(1, 65, K, 3, {0, 2, 2, 0, 1}));
  shapes.push_back(attention_shape(3, 33, 8, 3, {2, 0, 2}));
  const std::int64_t longest = test_device().is_host() && !is_watched() ? 1000 : 400;
  shapes.push_back(attention_shape(1, longest, 64, 1, {0, 0}));
  shapes.push_back(attention_shape(1, 320, 128, 1, {0}));
  return shapes;
}

inline bool same_bits(const TensorView& a, const TensorView& b) {
  const std::size_t row = static_cast<std::size_t>(a.dim(1)) * size_of(a.dtype());
  const auto at = [&](const TensorView& x, std::int64_t r) {
    return static_cast<const std::byte*>(x.raw()) +
           static_cast<std::size_t>(r * x.stride(0)) * size_of(x.dtype());
  };
  for (std::int64_t r = 0; r < a.dim(0); ++r)
    if (std::memcmp(at(a, r), at(b, r), row) != 0) return false;
  return true;
}

}  // namespace trireme::test
