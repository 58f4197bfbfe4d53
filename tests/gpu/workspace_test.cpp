// The working memory of a GPU's kernels.
// SPDX-License-Identifier: Apache-2.0
// It grows, never shrinks, and keeps to one stream.
#include "kernels/cuda/common/workspace.hpp"

#include <gtest/gtest.h>

#include "base/cuda_devices.hpp"
#include "base/event.hpp"
#include "base/memory.hpp"

namespace trireme::kernels::cuda {
namespace {

class WorkspaceTest : public testing::Test {
 protected:
  void SetUp() override {
    if (cuda_devices().empty()) GTEST_SKIP() << "this machine has no GPU";
  }
};

TEST_F(WorkspaceTest, IsDenseAlignedAndOnTheDevice) {
  Stream stream(Device::cuda(0));
  const TensorView x = workspace(stream, DType::f64, {3, 5});
  EXPECT_EQ(x.device(), Device::cuda(0));
  EXPECT_EQ(x.dtype(), DType::f64);
  EXPECT_EQ(x.shape(), (Shape{3, 5}));
  EXPECT_TRUE(x.is_dense());
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(x.raw()) % 256, 0u);
}

TEST_F(WorkspaceTest, OnlyGrowsAndIsCounted) {
  Stream stream(Device::cuda(0));
  const void* const large = workspace(stream, DType::f32, {3 << 20}).raw();
  const MemoryUse use = memory_use(MemoryClass::workspace);
  EXPECT_GE(use.bytes, 12 << 20);
  EXPECT_EQ(workspace(stream, DType::u8, {1}).raw(), large);
  EXPECT_EQ(workspace(stream, DType::f32, {3 << 20}).raw(), large);
  EXPECT_EQ(memory_use(MemoryClass::workspace).allocations, use.allocations);
  workspace(stream, DType::f32, {4 << 20});
  // One buffer: the smaller one is gone.
  EXPECT_EQ(memory_use(MemoryClass::workspace).bytes, use.bytes + (4 << 20));
}

TEST_F(WorkspaceTest, RefusesOtherStreams) {
  SideStream side(Device::cuda(0));
  EXPECT_THROW(workspace(side.stream(), DType::f32, {1}), Error);
  Stream host;
  EXPECT_THROW(workspace(host, DType::f32, {1}), Error);
}

}  // namespace
}  // namespace trireme::kernels::cuda
