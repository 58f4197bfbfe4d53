// Copies from the host's memory to a GPU that reads pages of the host by itself.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cuda_emulation/control.hpp>
#include <vector>

#include "base/device_memory.hpp"
#include "base/memory.hpp"

namespace trireme {
namespace {

// Such a copy runs when the stream comes to it; copy_bytes() says that its source may be
// reused at once all the same.
TEST(HostPages, SourceOfACopyMayBeReusedAtOnce) {
  for (const bool reads : {false, true}) {
    cuda_emulation::set_reads_host_pages(reads);
    Stream stream(Device::cuda(0));
    const Buffer there(Device::cuda(0), DType::f32, {4, 3}, MemoryClass::workspace, "x");
    const std::vector<float> first = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    std::vector<float> here = first;
    copy_bytes(stream, TensorView(here.data(), DType::f32, {4, 3}), there.view());
    here.assign(here.size(), -1);
    std::vector<float> back(first.size());
    copy_bytes(stream, there.view(), TensorView(back.data(), DType::f32, {4, 3}));
    EXPECT_EQ(back, first) << (reads ? "read by the GPU" : "staged");
  }
  cuda_emulation::set_reads_host_pages(false);
}

}  // namespace
}  // namespace trireme
