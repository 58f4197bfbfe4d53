// A communicator of NCCL with one rank: all that is done with one, and how long it takes.
// SPDX-License-Identifier: Apache-2.0
// It shows on one GPU whether NCCL starts at all, before a job on several is tried.
#include <nccl.h>

#include <chrono>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "base/cuda_devices.hpp"
#include "base/device_memory.hpp"
#include "base/error.hpp"
#include "base/memory.hpp"

namespace trireme::bench {
namespace {

constexpr std::int64_t elements = 1 << 20;

void check(ncclResult_t code, const char* call) {
  require(code == ncclSuccess, Status::transport, "{} failed: {} ({})", call,
          ncclGetErrorString(code), ncclGetLastError(nullptr));
}

// Runs a step and prints its time.
template <class Step>
void timed(const char* name, const Step& step) {
  const auto start = std::chrono::steady_clock::now();
  step();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  std::printf("nccl %-13s %10.6f s\n", name, seconds.count());
  std::fflush(stdout);
}

void queue_sum(ncclComm_t comm, Stream& stream, const Buffer& x, std::int64_t count) {
  check(ncclAllReduce(x.view().raw(), x.view().raw(), static_cast<std::size_t>(count),
                      ncclFloat32, ncclSum, comm,
                      static_cast<cudaStream_t>(stream.native())),
        "ncclAllReduce");
}

// The sum over one rank is what was there.
void all_reduce(ncclComm_t comm, Stream& stream, const Buffer& x, float value) {
  std::vector<float> values(elements, value);
  const TensorView host(values.data(), DType::f32, {elements});
  copy_bytes(stream, host, x.view());
  queue_sum(comm, stream, x, elements);
  values.assign(values.size(), 0.0f);
  copy_bytes(stream, x.view(), host);
  stream.synchronize();
  for (const float got : values)
    require(got == value, Status::corruption,
            "the sum of {} over one rank came back as {}", value, got);
}

int run() {
  if (cuda_devices().empty()) {
    std::printf("skipped: this machine has no GPU\n");
    return 77;
  }
  int version = 0;
  check(ncclGetVersion(&version), "ncclGetVersion");
  std::printf("nccl version %d on %s\n", version, cuda_devices().front().name.c_str());
  Stream stream(Device::cuda(0));
  const Buffer x(Device::cuda(0), DType::f32, {elements}, MemoryClass::workspace, "x");
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 1;
  ncclUniqueId id;
  ncclComm_t whole = nullptr, part = nullptr;
  check(ncclGetUniqueId(&id), "ncclGetUniqueId");
  timed("init", [&] {
    check(ncclCommInitRankConfig(&whole, 1, id, 0, &config), "ncclCommInitRankConfig");
  });
  timed("all-reduce", [&] { all_reduce(whole, stream, x, 1.5f); });
  timed("split",
        [&] { check(ncclCommSplit(whole, 0, 0, &part, &config), "ncclCommSplit"); });
  timed("all-reduce 2", [&] { all_reduce(part, stream, x, -2.25f); });
  timed("100 of 1 KiB", [&] {  // one behind the other, each waited for
    for (int i = 0; i < 100; ++i) {
      queue_sum(part, stream, x, 256);
      stream.synchronize();
    }
  });
  timed("abort", [&] { check(ncclCommAbort(part), "ncclCommAbort"); });
  timed("all-reduce 3", [&] { all_reduce(whole, stream, x, 3.0f); });
  timed("finalize", [&] { check(ncclCommFinalize(whole), "ncclCommFinalize"); });
  timed("destroy", [&] { check(ncclCommDestroy(whole), "ncclCommDestroy"); });
  const DeviceMemoryState memory = device_memory_state(Device::cuda(0));
  std::printf("nccl ok, %.1f MiB of the GPU's memory in use afterwards\n",
              static_cast<double>(memory.total_bytes - memory.free_bytes) / (1 << 20));
  return 0;
}

}  // namespace
}  // namespace trireme::bench

int main() {
  try {
    return trireme::bench::run();
  } catch (const trireme::Error& error) {
    std::fprintf(stderr, "nccl_bench: error: %s\n", error.what());
    return static_cast<int>(error.status());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "nccl_bench: error: %s\n", error.what());
    return 70;
  }
}
