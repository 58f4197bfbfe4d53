// Streams and events of the emulated CUDA: what runs when, and that missing waits show.
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>

#include "cuda_emulation/test_support.hpp"

namespace trireme::cuda_emulation {
namespace {

// Stays with the process: what is freed while other tests' streams exist is not the point
// here.
cudaStream_t make_stream(unsigned flags = cudaStreamNonBlocking) {
  cudaStream_t stream = nullptr;
  EXPECT_EQ(cudaStreamCreateWithFlags(&stream, flags), cudaSuccess);
  return stream;
}
cudaEvent_t make_event(unsigned flags = cudaEventDefault) {
  cudaEvent_t event = nullptr;
  EXPECT_EQ(cudaEventCreateWithFlags(&event, flags), cudaSuccess);
  return event;
}

__global__ void put(int* to, int value) { *to = value; }
__global__ void move(int* to, const int* from) { *to = *from; }
__global__ void append(int* digits, int digit) { *digits = 10 * *digits + digit; }

void launch_on(cudaStream_t stream, void (*kernel)(int*, int), int* to, int value) {
  const auto config = shape(1, 1, 0, stream);
  ASSERT_EQ(cudaLaunchKernelEx(&config, kernel, to, value), cudaSuccess);
}
void launch_move(cudaStream_t stream, int* to, const int* from) {
  const auto config = shape(1, 1, 0, stream);
  ASSERT_EQ(cudaLaunchKernelEx(&config, move, to, from), cudaSuccess);
}

struct Cell : DeviceArray<int> {
  explicit Cell(int value = 0) : DeviceArray<int>(std::vector<int>{value}) {}
  int value() const { return values()[0]; }
};

TEST(Stream, RunsInOrder) {
  for (const bool lazy : {true, false}) {
    const With with(lazy);
    const Cell digits;
    const cudaStream_t stream = make_stream();
    for (int i = 1; i <= 5; ++i) launch_on(stream, append, digits.data(), i);
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    EXPECT_EQ(digits.value(), 12345);
    EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  }
}

// One stream writes, another reads. Without the wait the lazy streams show the old value;
// eager ones hide the fault.
int read_by_other(bool lazy, bool wait) {
  const With with(lazy);
  const Cell source, target;
  const cudaStream_t writer = make_stream(), reader = make_stream();
  const cudaEvent_t written = make_event(cudaEventDisableTiming);
  launch_on(writer, put, source.data(), 7);
  EXPECT_EQ(cudaEventRecord(written, writer), cudaSuccess);
  launch_on(writer, put, source.data(), 8);  // behind the event: not waited for
  if (wait) {
    EXPECT_EQ(cudaStreamWaitEvent(reader, written), cudaSuccess);
  }
  launch_move(reader, target.data(), source.data());
  EXPECT_EQ(cudaStreamSynchronize(reader), cudaSuccess);
  const int value = target.value();
  EXPECT_EQ(cudaStreamDestroy(writer), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(reader), cudaSuccess);
  EXPECT_EQ(cudaEventDestroy(written), cudaSuccess);
  return value;
}
TEST(Stream, AMissingWaitShowsWhereStreamsAreLazy) {
  EXPECT_EQ(read_by_other(true, true), 7);
  EXPECT_EQ(read_by_other(true, false), 0);
  EXPECT_EQ(read_by_other(false, false), 8);
}

TEST(Stream, OnlyWhatIsNeededRuns) {
  const With with(true);
  int ran_a = 0, ran_b = 0;
  const cudaStream_t a = make_stream(), b = make_stream();
  ASSERT_EQ(enqueue(a, [&] { ++ran_a; }), cudaSuccess);
  ASSERT_EQ(enqueue(b, [&] { ++ran_b; }), cudaSuccess);
  const cudaEvent_t early = make_event(cudaEventDisableTiming);
  ASSERT_EQ(cudaEventRecord(early, b), cudaSuccess);
  ASSERT_EQ(enqueue(b, [&] { ++ran_b; }), cudaSuccess);
  EXPECT_EQ(ran_a + ran_b, 0);
  ASSERT_EQ(cudaStreamSynchronize(a), cudaSuccess);
  EXPECT_EQ(ran_a, 1);
  EXPECT_EQ(ran_b, 0);
  ASSERT_EQ(cudaEventSynchronize(early), cudaSuccess);
  EXPECT_EQ(ran_b, 1);
  ASSERT_EQ(cudaStreamQuery(b), cudaSuccess);  // a host may spin on it
  EXPECT_EQ(ran_b, 2);
  for (int i = 0; i < 5000; ++i) ASSERT_EQ(enqueue(a, [&] { ++ran_a; }), cudaSuccess);
  EXPECT_GE(ran_a, 4000);  // no queue grows for ever
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(ran_a, 5001);
  EXPECT_EQ(cudaStreamDestroy(a), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(b), cudaSuccess);
  EXPECT_EQ(cudaEventDestroy(early), cudaSuccess);
}

// A chain through three streams and back, and an event that is recorded anew.
TEST(Stream, WaitsReachAcrossStreams) {
  const With with(true);
  const Cell digits;
  const cudaStream_t streams[] = {make_stream(), make_stream(), make_stream()};
  const cudaEvent_t event = make_event();
  for (int i = 1; i <= 9; ++i) {
    launch_on(streams[i % 3], append, digits.data(), i);
    ASSERT_EQ(cudaEventRecord(event, streams[i % 3]), cudaSuccess);
    ASSERT_EQ(cudaStreamWaitEvent(streams[(i + 1) % 3], event), cudaSuccess);
  }
  ASSERT_EQ(cudaStreamSynchronize(streams[0]), cudaSuccess);
  EXPECT_EQ(digits.value(), 123456789);
  for (const cudaStream_t stream : streams) {
    EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  }
  EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
}

// Waiting for an event that was never recorded is waiting for nothing.
TEST(Event, NeverRecorded) {
  const cudaEvent_t event = make_event();
  EXPECT_EQ(cudaStreamWaitEvent(nullptr, event), cudaSuccess);
  EXPECT_EQ(cudaEventSynchronize(event), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(event), cudaSuccess);
  float milliseconds = 0;
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, event, event),
            cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
  EXPECT_EQ(cudaEventDestroy(event), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaEventRecord(event, nullptr), cudaErrorInvalidResourceHandle);
  cudaGetLastError();
}

TEST(Event, Time) {
  const With with(true);
  const cudaEvent_t start = make_event(), end = make_event();
  ASSERT_EQ(cudaEventRecord(start), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(end), cudaSuccess);
  float milliseconds = -1;
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, start, end), cudaErrorNotReady);
  ASSERT_EQ(cudaEventSynchronize(end), cudaSuccess);
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, start, end), cudaSuccess);
  EXPECT_GE(milliseconds, 0.0f);
  EXPECT_EQ(cudaEventDestroy(start), cudaSuccess);
  EXPECT_EQ(cudaEventDestroy(end), cudaSuccess);
  cudaGetLastError();
}

// The default stream waits for blocking streams and they for it; others are apart.
int read_by_default_stream(unsigned flags) {
  const With with(true);
  const Cell source, target;
  const cudaStream_t stream = make_stream(flags);
  launch_on(stream, put, source.data(), 7);
  launch_move(nullptr, target.data(), source.data());
  EXPECT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
  const int value = target.value();
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  return value;
}
int written_by_default_stream(unsigned flags) {
  const With with(true);
  const Cell source, target;
  const cudaStream_t stream = make_stream(flags);
  launch_on(nullptr, put, source.data(), 7);
  launch_move(stream, target.data(), source.data());
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  const int value = target.value();
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  return value;
}
TEST(Stream, TheDefaultStreamAndOthers) {
  EXPECT_EQ(read_by_default_stream(cudaStreamDefault), 7);
  EXPECT_EQ(read_by_default_stream(cudaStreamNonBlocking), 0);
  EXPECT_EQ(written_by_default_stream(cudaStreamDefault), 7);
  EXPECT_EQ(written_by_default_stream(cudaStreamNonBlocking), 0);
}

TEST(Stream, CopiesReadPageableMemoryAtOnceAndPinnedMemoryLater) {
  const With with(true);
  const cudaStream_t stream = make_stream();
  int* pinned = nullptr;
  ASSERT_EQ(cudaMallocHost(&pinned, 2 * sizeof(int)), cudaSuccess);
  int pageable = 1;
  *pinned = 1;
  const Cell a, b;
  ASSERT_EQ(cudaMemcpyAsync(a.data(), &pageable, 4, cudaMemcpyHostToDevice, stream),
            cudaSuccess);
  ASSERT_EQ(cudaMemcpyAsync(b.data(), pinned, 4, cudaMemcpyHostToDevice, stream),
            cudaSuccess);
  pageable = *pinned = 2;  // too early for the second copy, and that shows
  pinned[1] = -5;
  ASSERT_EQ(cudaMemcpyAsync(pinned + 1, b.data(), 4, cudaMemcpyDeviceToHost, stream),
            cudaSuccess);
  EXPECT_EQ(pinned[1], -5);
  int result = 0;  // a copy to pageable memory is done when the call returns
  ASSERT_EQ(cudaMemcpyAsync(&result, a.data(), 4, cudaMemcpyDeviceToHost, stream),
            cudaSuccess);
  EXPECT_EQ(result, 1);
  EXPECT_EQ(pinned[1], 2);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  EXPECT_EQ(cudaFreeHost(pinned), cudaSuccess);
}

// The memory holds bits 1 from when its release runs, not from when it is asked for.
TEST(Stream, FreesInOrder) {
  const With with(true);
  const cudaStream_t stream = make_stream(), other = make_stream();
  int* data = nullptr;
  const Cell before, after;
  ASSERT_EQ(cudaMallocAsync(&data, sizeof(int), stream), cudaSuccess);
  launch_on(stream, put, data, 7);
  launch_move(stream, before.data(), data);
  ASSERT_EQ(cudaFreeAsync(data, stream), cudaSuccess);
  const std::size_t used = used_bytes();
  ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(used_bytes(), used - sizeof(int));
  EXPECT_EQ(before.value(), 7);
  EXPECT_EQ(cudaFree(data), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFreeAsync(data, other), cudaErrorInvalidValue);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(other), cudaSuccess);
  cudaGetLastError();
}

TEST(Stream, WrongUseIsRefused) {
  const cudaStream_t stream = make_stream();
  ASSERT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaStreamDestroy(nullptr), cudaErrorInvalidResourceHandle);
  cudaStream_t other = nullptr;
  EXPECT_EQ(cudaStreamCreateWithFlags(&other, 17), cudaErrorInvalidValue);
  cudaError_t inside = cudaSuccess;
  ASSERT_EQ(enqueue(nullptr, [&] { inside = cudaDeviceSynchronize(); }), cudaSuccess);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(inside, cudaErrorNotPermitted);
  cudaGetLastError();
}

}  // namespace
}  // namespace trireme::cuda_emulation
