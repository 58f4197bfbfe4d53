// Mistakes between streams, made on purpose: the emulated device shows each of them.
// SPDX-License-Identifier: Apache-2.0
// What is tested is that tests see them: an event that nobody waits for, memory of the
// host that is used again before its copy has run. Its streams run as late as they may,
// and only what is asked for, so that work whose order nothing demands comes last. The
// same without the mistake gives the right result, also where streams run at once.
#include <gtest/gtest.h>

#include <algorithm>
#include <cuda_emulation/control.hpp>

#include "base/device_memory.hpp"
#include "base/event.hpp"
#include "comm/mesh.hpp"
#include "engine/token_buffers.hpp"
#include "kernels/elementwise.hpp"
#include "ranks/comm_tensors.hpp"
#include "support/device.hpp"
#include "support/world.hpp"

namespace trireme::test {
namespace {

constexpr std::int64_t elements = 1000;

using Values = std::vector<float>;

Values all(float value) { return Values(elements, value); }

Buffer on(Device device, DType dtype) {
  return Buffer(device, dtype, {elements}, MemoryClass::workspace, "x");
}

// The streams of this test, whatever the environment says; afterwards they are as before.
class Streams {
 public:
  explicit Streams(bool lazy) : before_(cuda_emulation::lazy_streams()) {
    cuda_emulation::set_lazy_streams(lazy);
  }
  ~Streams() { cuda_emulation::set_lazy_streams(before_); }

 private:
  bool before_;
};

enum class Order { kept, forgotten };

class StreamFaults : public testing::Test {
 protected:
  static Values read(const TensorView& x, Stream& stream) {
    Values values(static_cast<std::size_t>(x.elements()));
    copy_bytes(stream, x, TensorView(values.data(), DType::f32, x.shape()));
    return values;
  }

  const Device device_ = Device::cuda(world().rank());
  Stream stream_{device_};
};

class CollectiveFaults : public StreamFaults {
 protected:
  // What a kernel reads of a sum over ranks, whose own part is rank + 1.
  Values sum_read(bool lazy, Order order) {
    const Streams streams(lazy);
    const Buffer x = on(device_, DType::f32), copied = on(device_, DType::f32);
    kernels::fill(stream_, x.view(), 1.0 + world().rank());
    comm::Handle sum = mesh_.everyone().all_reduce(stream_, x.view());
    if (order == Order::kept) sum.wait();
    kernels::copy(stream_, x.view(), copied.view());
    Values values = read(copied.view(), stream_);
    if (order == Order::forgotten) sum.wait();
    stream_.synchronize();
    return values;
  }

  // What a stream reads of the sum that another one waited for.
  Values sum_read_on_another_stream(bool lazy, Order order) {
    const Streams streams(lazy);
    SideStream side(device_);
    const Buffer x = on(device_, DType::f32);
    Event summed(device_);
    kernels::fill(stream_, x.view(), 1.0 + world().rank());
    mesh_.everyone().all_reduce(stream_, x.view()).wait();
    summed.record(stream_);
    if (order == Order::kept) summed.hold(side.stream());
    Values values = read(x.view(), side.stream());
    stream_.synchronize();
    return values;
  }

  const Values right_ =
      all(static_cast<float>(world().size() * (world().size() + 1)) / 2);

  const comm::Mesh mesh_{
      world(), {.data = world().size()}, {}, device_, comm::Transport::nccl};
};

TEST_F(CollectiveFaults, AResultThatNobodyWaitedForIsSeen) {
  for (const bool lazy : {true, false}) EXPECT_EQ(sum_read(lazy, Order::kept), right_);
  EXPECT_NE(sum_read(true, Order::forgotten), right_);
}

TEST_F(CollectiveFaults, AResultThatAnotherStreamWaitedForIsSeen) {
  for (const bool lazy : {true, false})
    EXPECT_EQ(sum_read_on_another_stream(lazy, Order::kept), right_);
  EXPECT_NE(sum_read_on_another_stream(true, Order::forgotten), right_);
}

// Without messages: a kernel reads what another stream makes.
TEST_F(StreamFaults, AnOperandThatNobodyWaitedForIsSeen) {
  const auto operand_read = [&](bool lazy, Order order) {
    const Streams streams(lazy);
    SideStream side(device_);
    const Buffer x = on(device_, DType::f32), copied = on(device_, DType::f32);
    Event made(device_);
    kernels::fill(side.stream(), x.view(), 4.0);
    made.record(side.stream());
    if (order == Order::kept) made.hold(stream_);
    kernels::copy(stream_, x.view(), copied.view());
    Values values = read(copied.view(), stream_);
    side.stream().synchronize();
    return values;
  };
  for (const bool lazy : {true, false})
    EXPECT_EQ(operand_read(lazy, Order::kept), all(4));
  EXPECT_NE(operand_read(true, Order::forgotten), all(4));
}

class HostMemoryFaults : public StreamFaults {
 protected:
  void write(float value) {
    float* const at = pinned_.view().data<float>();
    std::fill_n(at, elements, value);
  }

  const Buffer pinned_ = Buffer::pinned(DType::f32, {elements},
                                        MemoryClass::communication, "pinned"),
               on_device_ = on(device_, DType::f32);
};

// The copy has not run when the host writes again.
TEST_F(HostMemoryFaults, PinnedMemoryThatIsWrittenTooEarlyIsSeen) {
  const auto copied = [&](bool lazy, Order order) {
    const Streams streams(lazy);
    Event has_read(device_);
    write(1);
    copy_bytes(stream_, pinned_.view(), on_device_.view());
    has_read.record(stream_);
    if (order == Order::kept) has_read.synchronize();
    write(2);
    return read(on_device_.view(), stream_);
  };
  for (const bool lazy : {true, false}) EXPECT_EQ(copied(lazy, Order::kept), all(1));
  EXPECT_NE(copied(true, Order::forgotten), all(1));
}

// The copy has not run when the host reads.
TEST_F(HostMemoryFaults, PinnedMemoryThatIsReadTooEarlyIsSeen) {
  const auto first_read = [&](bool lazy, Order order) {
    const Streams streams(lazy);
    write(0);
    kernels::fill(stream_, on_device_.view(), 3.0);
    copy_bytes_later(stream_, on_device_.view(), pinned_.view());
    if (order == Order::kept) stream_.synchronize();
    const float read = pinned_.view().data<float>()[elements / 2];
    stream_.synchronize();
    return read;
  };
  EXPECT_EQ(first_read(true, Order::kept), 3);
  EXPECT_EQ(first_read(false, Order::kept), 3);
  EXPECT_NE(first_read(true, Order::forgotten), 3);
}

// Of one slot the engine may ask again at once: the class waits. It is the caller's to
// leave a slot alone whose ids kernels still read.
TEST_F(HostMemoryFaults, TokenIdsThatAreFetchedTooEarlyAreSeen) {
  const auto ids_read = [&](bool lazy, Order order) {
    const Streams streams(lazy);
    engine::TokenBuffers tokens(device_, 1, elements);
    std::vector<std::int32_t> ids(elements, 5);
    const TensorView host(ids.data(), DType::i32, {elements});
    SideStream side(device_);
    const TensorView first = tokens.fetch(stream_, host, 0, false);
    std::fill(ids.begin(), ids.end(), 6);  // the host's array is free at once
    const Buffer seen = on(device_, DType::i32);
    Event fetched(device_);
    fetched.record(stream_);
    fetched.hold(side.stream());
    copy_bytes(side.stream(), first, seen.view());
    Event has_read(device_);
    has_read.record(side.stream());
    if (order == Order::kept) has_read.hold(stream_);
    tokens.fetch(stream_, host, 0, false);
    stream_.synchronize();
    std::vector<std::int32_t> result(elements);
    copy_bytes(side.stream(), seen.view(),
               TensorView(result.data(), DType::i32, {elements}));
    return result[elements / 2];
  };
  EXPECT_EQ(ids_read(true, Order::kept), 5);
  EXPECT_EQ(ids_read(false, Order::kept), 5);
  EXPECT_NE(ids_read(true, Order::forgotten), 5);
}

}  // namespace
}  // namespace trireme::test
