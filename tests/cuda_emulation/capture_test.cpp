// Recording work as graphs: what is kept and replayed.
// SPDX-License-Identifier: Apache-2.0
// Calls that a recording forbids fail with CUDA's error codes.
#include <functional>
#include <thread>

#include "cuda_emulation/test_support.hpp"

namespace trireme::cuda_emulation {
namespace {

__global__ void append(int* digits, int digit) { *digits = 10 * *digits + digit; }

class CaptureTest : public testing::Test {
 protected:
  CaptureTest() {
    for (cudaStream_t* stream : {&stream_, &other_})
      EXPECT_EQ(cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking), cudaSuccess);
    for (cudaEvent_t* event : {&fork_, &join_})
      EXPECT_EQ(cudaEventCreateWithFlags(event, cudaEventDisableTiming), cudaSuccess);
    EXPECT_EQ(cudaMallocHost(&pinned_, sizeof(int)), cudaSuccess);
  }
  ~CaptureTest() override {
    EXPECT_EQ(cudaFreeHost(pinned_), cudaSuccess);
    EXPECT_EQ(cudaEventDestroy(fork_), cudaSuccess);
    EXPECT_EQ(cudaEventDestroy(join_), cudaSuccess);
    EXPECT_EQ(cudaStreamDestroy(stream_), cudaSuccess);
    EXPECT_EQ(cudaStreamDestroy(other_), cudaSuccess);
    cudaGetLastError();
  }

  void begin(cudaStreamCaptureMode mode = cudaStreamCaptureModeThreadLocal) {
    ASSERT_EQ(cudaStreamBeginCapture(stream_, mode), cudaSuccess);
  }
  // What is recorded on stream_ from begin() on.
  cudaGraphExec_t end(std::size_t nodes) {
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(stream_, &graph), cudaSuccess);
    std::size_t count = 0;
    EXPECT_EQ(cudaGraphGetNodes(graph, nullptr, &count), cudaSuccess);
    EXPECT_EQ(count, nodes);
    cudaGraphExec_t executable = nullptr;
    EXPECT_EQ(cudaGraphInstantiate(&executable, graph), cudaSuccess);
    EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
    return executable;
  }
  void replay(cudaGraphExec_t executable) {
    EXPECT_EQ(cudaGraphLaunch(executable, stream_), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  }
  void append_on(cudaStream_t stream, int digit) {
    const auto config = shape(1, 1, 0, stream);
    EXPECT_EQ(cudaLaunchKernelEx(&config, append, digits_.data(), digit), cudaSuccess);
  }
  // `call` gives the error while stream_ records; that recording is lost.
  void expect_refused(cudaError_t error, const std::function<cudaError_t()>& call,
                      cudaStreamCaptureMode mode = cudaStreamCaptureModeThreadLocal) {
    begin(mode);
    EXPECT_EQ(call(), error);
    cudaStreamCaptureStatus status{};
    EXPECT_EQ(cudaStreamIsCapturing(stream_, &status), cudaSuccess);
    EXPECT_EQ(status, cudaStreamCaptureStatusInvalidated);
    const auto config = shape(1, 1, 0, stream_);
    EXPECT_EQ(cudaLaunchKernelEx(&config, append, digits_.data(), 1),
              cudaErrorStreamCaptureInvalidated);
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(stream_, &graph), cudaErrorStreamCaptureInvalidated);
    EXPECT_EQ(graph, nullptr);
    EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  }

  cudaStream_t stream_ = nullptr, other_ = nullptr;
  cudaEvent_t fork_ = nullptr, join_ = nullptr;
  DeviceArray<int> digits_{std::vector<int>{0}}, source_{std::vector<int>{0}};
  int* pinned_ = nullptr;
  int pageable_ = 0;
};

TEST_F(CaptureTest, NothingRunsUntilItIsLaunchedAndThenAllOfItEachTime) {
  for (const bool lazy : {true, false}) {
    const With with(lazy);
    begin();
    ASSERT_EQ(cudaMemsetAsync(digits_.data(), 0, sizeof(int), stream_), cudaSuccess);
    append_on(stream_, 4);
    append_on(stream_, 2);
    const cudaGraphExec_t graph = end(3);
    EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
    append_on(stream_, 7);
    const std::int64_t before = graph_launches();
    replay(graph);
    EXPECT_EQ(digits_.values()[0], 42);
    append_on(stream_, 7);
    replay(graph);
    EXPECT_EQ(digits_.values()[0], 42);
    EXPECT_EQ(graph_launches(), before + 2);
    EXPECT_EQ(cudaGraphExecDestroy(graph), cudaSuccess);
  }
}

// Arguments are as they were when recorded, memory as it is when launched.
TEST_F(CaptureTest, CopiesReadMemoryWhenTheGraphRuns) {
  begin();
  ASSERT_EQ(cudaMemcpyAsync(source_.data(), pinned_, sizeof(int), cudaMemcpyHostToDevice,
                            stream_),
            cudaSuccess);
  ASSERT_EQ(cudaMemcpyAsync(digits_.data(), source_.data(), sizeof(int),
                            cudaMemcpyDeviceToDevice, stream_),
            cudaSuccess);
  const cudaGraphExec_t graph = end(2);
  for (const int value : {3, 8}) {
    *pinned_ = value;
    replay(graph);
    EXPECT_EQ(digits_.values()[0], value);
  }
  EXPECT_EQ(cudaGraphExecDestroy(graph), cudaSuccess);
}

// A branch on another stream: with the wait that joins it, its kernel comes before what
// follows; two branches without an order run in the one that their joining asks for.
TEST_F(CaptureTest, EventsForkAndJoinStreams) {
  for (const bool waits : {true, false}) {
    const int before = 0;
    ASSERT_EQ(cudaMemcpy(digits_.data(), &before, sizeof(int), cudaMemcpyHostToDevice),
              cudaSuccess);
    begin();
    ASSERT_EQ(cudaEventRecord(fork_, stream_), cudaSuccess);
    ASSERT_EQ(cudaStreamWaitEvent(other_, fork_), cudaSuccess);
    append_on(other_, 5);
    ASSERT_EQ(cudaEventRecord(join_, other_), cudaSuccess);
    if (waits) {
      ASSERT_EQ(cudaStreamWaitEvent(stream_, join_), cudaSuccess);
    }
    append_on(stream_, 6);
    if (!waits) {
      ASSERT_EQ(cudaStreamWaitEvent(stream_, join_), cudaSuccess);
    }
    append_on(stream_, 1);
    const cudaGraphExec_t graph = end(3);
    append_on(other_, 9);  // no longer a part of it
    EXPECT_EQ(cudaStreamSynchronize(other_), cudaSuccess);
    replay(graph);
    EXPECT_EQ(digits_.values()[0], waits ? 9561 : 9651);
    EXPECT_EQ(cudaGraphExecDestroy(graph), cudaSuccess);
  }
}

TEST_F(CaptureTest, ABranchThatIsNotJoinedIsAnError) {
  begin();
  ASSERT_EQ(cudaEventRecord(fork_, stream_), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(other_, fork_), cudaSuccess);
  append_on(other_, 5);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(other_, &graph), cudaErrorStreamCaptureUnmatched);
  EXPECT_EQ(cudaStreamEndCapture(stream_, &graph), cudaErrorStreamCaptureInvalidated);
  begin();
  ASSERT_EQ(cudaEventRecord(fork_, stream_), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(other_, fork_), cudaSuccess);
  append_on(other_, 5);
  EXPECT_EQ(cudaStreamEndCapture(stream_, &graph), cudaErrorStreamCaptureUnjoined);
  EXPECT_EQ(cudaStreamEndCapture(stream_, &graph), cudaErrorIllegalState);
  EXPECT_EQ(cudaStreamSynchronize(other_), cudaSuccess);
  EXPECT_EQ(digits_.values()[0], 0);
}

TEST_F(CaptureTest, RefusesToWait) {
  const auto unsupported = cudaErrorStreamCaptureUnsupported;
  expect_refused(unsupported, [&] { return cudaStreamSynchronize(stream_); });
  expect_refused(unsupported, [&] { return cudaStreamQuery(stream_); });
  expect_refused(unsupported, [&] { return cudaDeviceSynchronize(); });
  expect_refused(
      unsupported, [&] { return cudaDeviceSynchronize(); }, cudaStreamCaptureModeRelaxed);
  expect_refused(unsupported, [&] { return cudaEventQuery(fork_); });
  expect_refused(cudaErrorCapturedEvent, [&] {
    EXPECT_EQ(cudaEventRecord(join_, stream_), cudaSuccess);
    return cudaEventSynchronize(join_);
  });
  expect_refused(cudaErrorCapturedEvent, [&] {
    EXPECT_EQ(cudaEventRecord(join_, stream_), cudaSuccess);
    return cudaEventQuery(join_);
  });
}

TEST_F(CaptureTest, RefusesToAllocateAndToCopyAtOnce) {
  const auto unsupported = cudaErrorStreamCaptureUnsupported;
  void* memory = nullptr;
  expect_refused(unsupported, [&] { return cudaMalloc(&memory, 4); });
  expect_refused(unsupported, [&] { return cudaMallocHost(&memory, 4); });
  expect_refused(unsupported, [&] { return cudaFree(nullptr); });
  expect_refused(unsupported, [&] {
    return cudaMemcpy(digits_.data(), pinned_, 4, cudaMemcpyHostToDevice);
  });
  expect_refused(unsupported, [&] { return cudaMemset(digits_.data(), 0, 4); });
  expect_refused(unsupported, [&] {
    return cudaMemcpyAsync(digits_.data(), &pageable_, 4, cudaMemcpyHostToDevice,
                           stream_);
  });
  expect_refused(unsupported, [&] {
    return cudaMemcpyAsync(&pageable_, digits_.data(), 4, cudaMemcpyDeviceToHost,
                           stream_);
  });
}

TEST_F(CaptureTest, RefusesWhatIsOutside) {
  ASSERT_EQ(cudaEventRecord(fork_, other_), cudaSuccess);
  expect_refused(cudaErrorStreamCaptureIsolation,
                 [&] { return cudaStreamWaitEvent(stream_, fork_); });
  // The legacy stream would wait for a blocking one that records, and not for this one.
  begin();
  EXPECT_EQ(cudaMemsetAsync(digits_.data(), 0, 4, nullptr), cudaSuccess);
  EXPECT_EQ(cudaGraphExecDestroy(end(0)), cudaSuccess);
  cudaStream_t blocking = nullptr;
  ASSERT_EQ(cudaStreamCreate(&blocking), cudaSuccess);
  ASSERT_EQ(cudaStreamBeginCapture(blocking, cudaStreamCaptureModeRelaxed), cudaSuccess);
  EXPECT_EQ(cudaMemsetAsync(digits_.data(), 0, 4, nullptr),
            cudaErrorStreamCaptureImplicit);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(blocking, &graph), cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(cudaStreamDestroy(blocking), cudaSuccess);
  EXPECT_EQ(cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeRelaxed),
            cudaErrorStreamCaptureUnsupported);
}

TEST_F(CaptureTest, TwoRecordingsStayApart) {
  begin();
  ASSERT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeRelaxed),
            cudaErrorIllegalState);
  ASSERT_EQ(cudaStreamBeginCapture(other_, cudaStreamCaptureModeRelaxed), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(fork_, other_), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(stream_, fork_), cudaErrorStreamCaptureMerge);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(stream_, &graph), cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(cudaStreamEndCapture(other_, &graph), cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(cudaStreamWaitEvent(stream_, fork_), cudaErrorCapturedEvent);
}

// What this thread's recording forbids, another thread may do.
TEST_F(CaptureTest, OtherThreadsGoOn) {
  begin();
  cudaError_t allocated = cudaErrorUnknown, ended = cudaErrorUnknown;
  cudaGraph_t graph = nullptr;
  std::thread([&] {
    void* memory = nullptr;
    allocated = cudaMalloc(&memory, 4);
    if (allocated == cudaSuccess) allocated = cudaFree(memory);
    ended = cudaStreamEndCapture(stream_, &graph);
  }).join();
  EXPECT_EQ(allocated, cudaSuccess);
  EXPECT_EQ(ended, cudaErrorStreamCaptureWrongThread);
  append_on(stream_, 3);
  const cudaGraphExec_t executable = end(1);
  replay(executable);
  EXPECT_EQ(digits_.values()[0], 3);
  EXPECT_EQ(cudaGraphExecDestroy(executable), cudaSuccess);
  EXPECT_EQ(cudaGraphExecDestroy(executable), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGraphLaunch(executable, stream_), cudaErrorInvalidValue);
}

}  // namespace
}  // namespace trireme::cuda_emulation
