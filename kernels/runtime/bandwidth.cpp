// Memory bandwidth by plain sweeps.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/runtime/bandwidth.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <vector>

#include "base/device_memory.hpp"
#include "base/event.hpp"
#include "base/median.hpp"
#include "base/memory.hpp"
#include "base/stopwatch.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/host/parallel.hpp"
#include "kernels/runtime/runtime.hpp"

namespace trireme::kernels {
namespace {

constexpr std::int64_t grain = 4096;

Buffer make_array(std::int64_t elements, const char* label) {
  Buffer array(Device::host(), DType::f32, {elements}, MemoryClass::workspace, label);
  float* data = array.view().data<float>();
  // Written by the threads that will read it: pages lie near the first to touch them.
  for_ranges("bandwidth.fill", elements, grain, threads(),
             [&](auto begin, auto end) { std::fill(data + begin, data + end, 1.0f); });
  return array;
}

// The least seconds that `work` takes, of `repeats` runs after one to warm up.
template <class F>
double best_seconds(int repeats, const F& work) {
  using Clock = std::chrono::steady_clock;
  work();
  double best = 1e30;
  for (int i = 0; i < std::max(repeats, 1); ++i) {
    const auto start = Clock::now();
    work();
    best = std::min(best, seconds_since(start));
  }
  return best;
}

// Four independent chains of vectors: one alone would wait for its own additions.
float sum_of(const float* x, std::int64_t n) {
  float s0 = 0, s1 = 0, s2 = 0, s3 = 0;
  const std::int64_t quarter = n / 4;
#pragma omp simd reduction(+ : s0, s1, s2, s3)
  for (std::int64_t i = 0; i < quarter; ++i) {
    s0 += x[i];
    s1 += x[i + quarter];
    s2 += x[i + 2 * quarter];
    s3 += x[i + 3 * quarter];
  }
  return s0 + s1 + s2 + s3;
}

}  // namespace

double triad_bandwidth(std::int64_t elements, int repeats) {
  const Buffer a_buffer = make_array(elements, "triad a");
  const Buffer b_buffer = make_array(elements, "triad b");
  const Buffer c_buffer = make_array(elements, "triad c");
  float* __restrict a = a_buffer.view().data<float>();
  const float* __restrict b = b_buffer.view().data<float>();
  const float* __restrict c = c_buffer.view().data<float>();
  const double seconds = best_seconds(repeats, [&] {
    for_ranges("bandwidth.triad", elements, grain, threads(), [&](auto begin, auto end) {
#pragma omp simd
      for (auto i = begin; i < end; ++i) a[i] = b[i] + 0.5f * c[i];
    });
  });
  return 12.0 * static_cast<double>(elements) / seconds;
}

double read_bandwidth(std::int64_t elements, int repeats) {
  const Buffer buffer = make_array(elements, "read");
  const float* data = buffer.view().data<float>();
  std::atomic<float> total{0};  // keeps the sums from being optimised away
  const double seconds = best_seconds(repeats, [&] {
    for_ranges("bandwidth.read", elements, grain, threads(), [&](auto begin, auto end) {
      total.store(sum_of(data + begin, end - begin), std::memory_order_relaxed);
    });
  });
  return 4.0 * static_cast<double>(elements) / seconds;
}

namespace {

std::vector<double> device_copy_seconds(Stream& stream, const TensorView& x,
                                        const TensorView& y, int repeats) {
  Event start(stream.device(), Event::Timing::yes);
  Event end(stream.device(), Event::Timing::yes);
  std::vector<double> seconds;
  for (int i = 0; i <= repeats; ++i) {
    start.record(stream);
    copy_bytes(stream, x, y);
    end.record(stream);
    end.synchronize();
    if (i > 0) seconds.push_back(end.seconds_since(start));
  }
  return seconds;
}

std::vector<double> host_copy_seconds(const TensorView& x, const TensorView& y,
                                      int repeats) {
  using Clock = std::chrono::steady_clock;
  const auto* from = x.data<float>();
  auto* to = y.data<float>();
  std::vector<double> seconds;
  for (int i = 0; i <= repeats; ++i) {
    const auto start = Clock::now();
    for_ranges(
        "bandwidth.copy", x.elements(), grain, threads(),
        [&](auto begin, auto end) { std::copy(from + begin, from + end, to + begin); });
    if (i > 0) seconds.push_back(seconds_since(start));
  }
  return seconds;
}

}  // namespace

double copy_bandwidth(Device device, std::int64_t bytes, int repeats) {
  const std::int64_t elements = std::max<std::int64_t>(bytes / 4, 1);
  const Buffer x(device, DType::f32, {elements}, MemoryClass::workspace, "copy");
  const Buffer y(device, DType::f32, {elements}, MemoryClass::workspace, "copy");
  Stream stream(device);
  fill(stream, x.view(), 1.0);
  fill(stream, y.view(), 2.0);
  repeats = std::max(repeats, 1);
  const double seconds =
      median(device.is_cuda() ? device_copy_seconds(stream, x.view(), y.view(), repeats)
                              : host_copy_seconds(x.view(), y.view(), repeats));
  return 8.0 * static_cast<double>(elements) / seconds;
}

}  // namespace trireme::kernels
