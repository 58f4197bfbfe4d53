// Attention on GPUs with less shared memory: every instance fits, or another runs.
// SPDX-License-Identifier: Apache-2.0
// The emulated device has the limits of each compute capability; results are those
// of 9.0.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <cuda_emulation/control.hpp>
#include <numeric>
#include <vector>

#include "base/device_memory.hpp"
#include "base/memory.hpp"
#include "kernels/attention.hpp"
#include "kernels/elementwise.hpp"
#include "support/device.hpp"

namespace trireme::test {
namespace {

constexpr std::int64_t H = 1;

// What forward and backward of fixed numbers write, as bits: o, dk, dv, dq.
std::vector<std::byte> attend(DType dtype, std::int64_t width, std::int64_t S = 70) {
  const Device device = test_device();
  Stream stream(device);
  Arena scratch(device, 0, MemoryClass::workspace, "scratch");
  const bool wide = dtype == DType::f64;
  const auto tensor = [&](DType type, const Shape& shape, double phase) {
    const Buffer host(Device::host(), DType::f32, shape, MemoryClass::workspace, "x");
    const auto values = host.view().span<float>();
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<float>(std::sin(0.37 * static_cast<double>(i) + phase));
    Buffer x(device, type, shape, MemoryClass::workspace, "x");
    Buffer on(device, DType::f32, shape, MemoryClass::workspace, "x");
    copy_bytes(stream, host.view(), on.view());
    kernels::copy(stream, on.view(), x.view());
    stream.synchronize();
    return x;
  };
  const Shape rows{S, H * width};
  const Buffer q = tensor(dtype, rows, 0), k = tensor(dtype, rows, 1),
               v = tensor(dtype, rows, 2), o = tensor(dtype, rows, 3),
               d_o = tensor(dtype, rows, 4), dq = tensor(dtype, rows, 5),
               dk = tensor(dtype, rows, 6), dv = tensor(dtype, rows, 7);
  const Buffer lse = tensor(wide ? DType::f64 : DType::f32, {S, H}, 8);
  const std::vector<std::int32_t> own = {0};
  const kernels::AttentionShape shape{
      1, S, H, H, width, 1.0 / std::sqrt(static_cast<double>(width)), own};
  kernels::attention(stream, scratch, shape, q.view(), k.view(), v.view(), o.view(),
                     lse.view());
  kernels::attention_backward(stream, scratch, shape, d_o.view(), q.view(), k.view(),
                              v.view(), o.view(), lse.view(), dq.view(), dk.view(),
                              dv.view());
  std::vector<std::byte> bits;
  for (const Buffer* x : {&o, &dk, &dv, &dq}) {
    const Buffer host(Device::host(), dtype, rows, MemoryClass::workspace, "x");
    copy_bytes(stream, x->view(), host.view());
    const auto* first = static_cast<const std::byte*>(host.view().raw());
    bits.insert(bits.end(), first, first + host.view().bytes());
  }
  return bits;
}

// 70 positions are more than a tile of queries with one fragment, and one tile of keys:
// sums of both forms of backward then have one order.
TEST(AttentionLimits, EveryInstanceRunsOnEveryDevice) {
  struct Capability {
    int major, minor;
  };
  for (const DType dtype : {DType::bf16, DType::f16, DType::f32}) {
    for (const std::int64_t width : {32, 64, 96, 128, 256}) {
      cuda_emulation::set_capability(9, 0);
      const auto expected = attend(dtype, width);
      for (const Capability& c : {Capability{8, 0}, {8, 6}, {8, 9}, {10, 0}, {12, 0}}) {
        SCOPED_TRACE(std::string(name_of(dtype)) + ", width " + std::to_string(width) +
                     ", " + std::to_string(c.major) + "." + std::to_string(c.minor));
        cuda_emulation::set_capability(c.major, c.minor);
        const auto got = attend(dtype, width);
        ASSERT_EQ(got.size(), expected.size());
        EXPECT_EQ(std::memcmp(got.data(), expected.data(), got.size()), 0);
      }
    }
  }
  cuda_emulation::set_capability(9, 0);
}

// Blocks run in any order on a device, and what waits for others is part of no sum.
TEST(AttentionOrder, NoOrderOfBlocksChangesBits) {
  using cuda_emulation::Order;
  const Order before = cuda_emulation::order();
  kernels::set_attention_backward(kernels::AttentionBackward::one_pass);
  for (const std::int64_t width : {64, 128}) {
    cuda_emulation::set_order({Order::Kind::forward, 0});
    const auto expected = attend(DType::bf16, width, 400);
    for (const Order& order : {Order{Order::Kind::reverse, 0},
                               {Order::Kind::shuffle, 1},
                               {Order::Kind::shuffle, 2}}) {
      cuda_emulation::set_order(order);
      EXPECT_EQ(attend(DType::bf16, width, 400), expected) << width;
    }
  }
  cuda_emulation::set_order(before);
  kernels::set_attention_backward(kernels::AttentionBackward::automatic);
}

// dk and dv have one order of sums in both forms of backward, dq has two.
TEST(AttentionForms, DifferInTheOrderOfOneSum) {
  using kernels::AttentionBackward;
  const auto of_form = [](AttentionBackward form) {
    kernels::set_attention_backward(form);
    auto bits = attend(DType::bf16, 64, 400);
    kernels::set_attention_backward(AttentionBackward::automatic);
    return bits;
  };
  const auto once = of_form(AttentionBackward::one_pass),
             twice = of_form(AttentionBackward::two_passes);
  const std::size_t others = once.size() / 4 * 3;
  EXPECT_EQ(std::memcmp(once.data(), twice.data(), others), 0);
  EXPECT_NE(std::memcmp(once.data(), twice.data(), once.size()), 0);
}

TEST(AttentionForms, OnePassThatDoesNotFitIsRefused) {
  using kernels::AttentionBackward;
  cuda_emulation::set_capability(8, 6);
  kernels::set_attention_backward(AttentionBackward::one_pass);
  EXPECT_THROW(attend(DType::bf16, 128), Error);
  kernels::set_attention_backward(AttentionBackward::automatic);
  cuda_emulation::set_capability(9, 0);
}

}  // namespace
}  // namespace trireme::test
