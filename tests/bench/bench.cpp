// Tensors of random numbers, timing, and the table of the benchmark of kernels.
// SPDX-License-Identifier: Apache-2.0
#include "bench/bench.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string_view>

#include "base/device_memory.hpp"
#include "base/event.hpp"
#include "base/format.hpp"
#include "base/philox.hpp"
#include "kernels/runtime/bandwidth.hpp"

namespace trireme::bench {
namespace {

// Writes value(i) to elements [0, period) of the dense x and repeats them.
template <class T, class F>
void fill_repeating(const TensorView& x, const F& value) {
  constexpr std::int64_t longest = 1000003;  // a prime: rows of a matrix differ
  const std::int64_t period = std::min(longest, x.elements());
  std::vector<T> block(static_cast<std::size_t>(period));
  for (std::size_t i = 0; i < block.size(); ++i) block[i] = value(i);
  const TensorView all = x.reshape({x.elements()});
  Stream stream(x.device());
  for (std::int64_t at = 0; at < x.elements(); at += period) {
    const std::int64_t count = std::min(period, x.elements() - at);
    copy_bytes(stream, TensorView(block.data(), x.dtype(), {count}), all.rows(at, count));
  }
  stream.synchronize();
}

template <class F>
void fill_floating(const TensorView& x, const F& value) {
  visit_floating(x.dtype(), [&]<class T>(T) {
    fill_repeating<T>(
        x, [&](std::size_t i) { return T(static_cast<Accumulator<T>>(value(i))); });
  });
}

std::string fixed_text(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

}  // namespace

Settings parse(int argc, char** argv) {
  Settings settings;
  bool typed = false;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    const std::string_view next = i + 1 < argc ? argv[i + 1] : "";
    if (word == "--quick") {
      settings.quick = true;
      continue;
    }
    require(
        !next.empty(), Status::command_line,
        "usage: kernel_bench [--device cpu|cuda] [--type fp32|bf16|fp16] [--only NAME] "
        "[--quick]; what is {}?",
        word);
    ++i;
    if (word == "--device" && (next == "cpu" || next == "cuda")) {
      settings.device = next == "cuda" ? Device::cuda(0) : Device::host();
    } else if (word == "--type" && (next == "fp32" || next == "bf16" || next == "fp16")) {
      settings.type = next == "fp32"   ? DType::f32
                      : next == "bf16" ? DType::bf16
                                       : DType::f16;
      typed = true;
    } else if (word == "--only") {
      settings.only = next;
    } else {
      fail(Status::command_line, "kernel_bench does not know {} {}", word, next);
    }
  }
  if (!typed && settings.device.is_cuda()) settings.type = DType::bf16;
  return settings;
}

Tensor::Tensor(const Settings& settings, DType type, const Shape& shape)
    : buffer_(std::make_shared<Buffer>(settings.device, type, shape, MemoryClass::data,
                                       "bench")) {}

Tensor Tensor::normal(const Settings& settings, DType type, const Shape& shape,
                      double deviation) {
  const Tensor result(settings, type, shape);
  const Random random(7, static_cast<std::uint64_t>(shape.elements()));
  fill_floating(result.view(),
                [&](std::size_t i) { return deviation * random.normal(i); });
  return result;
}

Tensor Tensor::positive(const Settings& settings, DType type, const Shape& shape) {
  const Tensor result(settings, type, shape);
  const Random random(8, static_cast<std::uint64_t>(shape.elements()));
  fill_floating(result.view(), [&](std::size_t i) { return 0.5 + random.uniform(i); });
  return result;
}

Tensor Tensor::indices(const Settings& settings, std::int64_t count, std::int64_t below) {
  const Tensor result(settings, DType::i32, {count});
  const Random random(9, 1);
  fill_repeating<std::int32_t>(result.view(), [&](std::size_t i) {
    return static_cast<std::int32_t>(random.below(i, static_cast<std::uint64_t>(below)));
  });
  return result;
}

Tensor Tensor::positions(const Settings& settings, std::int64_t count,
                         std::int64_t period) {
  const Tensor result(settings, DType::i32, {count});
  fill_repeating<std::int32_t>(result.view(), [&](std::size_t i) {
    return static_cast<std::int32_t>(i % static_cast<std::size_t>(period));
  });
  return result;
}

Tensor Tensor::bytes(const Settings& settings, const Shape& shape) {
  return Tensor(settings, DType::u8, shape);
}

Table::Table(const Settings& settings) : settings_(settings), stream_(settings.device) {
  const std::int64_t bytes = settings.quick              ? 1 << 16
                             : settings.device.is_cuda() ? std::int64_t{1} << 30
                                                         : std::int64_t{256} << 20;
  copy_rate_ = kernels::copy_bandwidth(settings.device, bytes, settings.quick ? 2 : 20);
  std::printf("copy bandwidth %s GB/s (read and written), compute dtype %.*s\n",
              fixed_text(copy_rate_ * 1e-9, 1).c_str(),
              static_cast<int>(name_of(settings.type).size()),
              name_of(settings.type).data());
  std::printf("%-60s %10s %10s %9s %9s  %s\n", "kernel", "MB", "GFLOP", "us", "rate",
              "share of copy or best product (repeats)");
}

double Table::median_seconds(const std::vector<Call>& calls, int& repeats) {
  using Clock = std::chrono::steady_clock;
  const auto call = [&](int i) {
    calls[static_cast<std::size_t>(i) % calls.size()](stream_);
  };
  for (int i = 0; i < static_cast<int>(calls.size()); ++i) call(i);
  stream_.synchronize();
  const auto begin = Clock::now();
  call(0);
  stream_.synchronize();
  const double once = std::chrono::duration<double>(Clock::now() - begin).count();
  repeats = settings_.quick ? 2 : static_cast<int>(std::clamp(0.3 / once, 5.0, 200.0));
  std::vector<double> seconds;
  if (settings_.device.is_cuda()) {  // all are queued: no wait lies between two of them
    std::vector<Event> points;
    for (int i = 0; i <= repeats; ++i)
      points.emplace_back(settings_.device, Event::Timing::yes);
    points[0].record(stream_);
    for (int i = 0; i < repeats; ++i) {
      call(i + 1);
      points[static_cast<std::size_t>(i) + 1].record(stream_);
    }
    stream_.synchronize();
    for (std::size_t i = 1; i < points.size(); ++i)
      seconds.push_back(points[i].seconds_since(points[i - 1]));
  } else {
    for (int i = 0; i < repeats; ++i) {
      const auto start = Clock::now();
      call(i + 1);
      seconds.push_back(std::chrono::duration<double>(Clock::now() - start).count());
    }
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds[seconds.size() / 2];
}

void Table::add(const std::string& name, const Work& work,
                const std::function<Call()>& make, double operand_bytes) {
  if (name.find(settings_.only) == std::string::npos) return;
  Line line{name, "", work};
  // Twice the second-level cache of an H100, or the caches of most processors.
  const double caches = settings_.quick ? 1 : 128e6;
  const double of_call = operand_bytes > 0 ? operand_bytes : work.bytes;
  const auto count = static_cast<int>(std::clamp(caches / of_call + 1, 1.0, 16.0));
  try {
    std::vector<Call> calls;
    for (int i = 0; i < count; ++i) calls.push_back(make());
    line.seconds = median_seconds(calls, line.repeats);
    if (work.flops > 0)
      best_flop_rate_ = std::max(
          best_flop_rate_, name.starts_with("gemm ") ? work.flops / line.seconds : 0.0);
  } catch (const Error& error) {
    line.reason = error.what();
    if (error.status() != Status::resources) failed_ = true;
  }
  lines_.push_back(std::move(line));
}

std::string Table::text_of(const Line& line) const {
  char text[256];
  if (!line.reason.empty()) {
    std::snprintf(text, sizeof text, "%-60s ", line.name.c_str());
    return text + ("left out: " + line.reason);
  }
  const bool computes = line.work.flops > 0;
  const double amount = computes ? line.work.flops : line.work.bytes;
  const double rate = amount / line.seconds;
  const double most = computes ? best_flop_rate_ : copy_rate_;
  const std::string share = most > 0 ? fixed_text(rate / most, 3) : "-";
  std::snprintf(text, sizeof text, "%-60s %10s %10s %9s %9s  %s %s (%d)",
                line.name.c_str(),
                computes ? "-" : fixed_text(line.work.bytes * 1e-6, 2).c_str(),
                computes ? fixed_text(line.work.flops * 1e-9, 2).c_str() : "-",
                fixed_text(line.seconds * 1e6, 1).c_str(),
                fixed_text(rate * (computes ? 1e-12 : 1e-9), computes ? 2 : 1).c_str(),
                computes ? "TFLOP/s" : "GB/s   ", share.c_str(), line.repeats);
  return text;
}

void Table::print() {
  for (const Line& line : lines_) std::printf("%s\n", text_of(line).c_str());
  std::fflush(stdout);
  lines_.clear();
}

}  // namespace trireme::bench
