// The rates that a rank measures: of its device, and of messages with others.
// SPDX-License-Identifier: Apache-2.0
#include "selftest/rank_rates.hpp"

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

#include "base/device_memory.hpp"
#include "base/median.hpp"
#include "base/stopwatch.hpp"
#include "comm/hosts.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/runtime/bandwidth.hpp"
#include "launch/machine_peak.hpp"
#include "launch/memory_limit.hpp"
#include "selftest/pairs.hpp"

namespace trireme::selftest {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t mebibyte = 1 << 20;
constexpr double slow_factor = 20;
constexpr int windows = 5;

void sleep(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

// How often all ranks do what took the slowest of them `longest`.
int repeats(double seconds, double longest) {
  return static_cast<int>(std::clamp(seconds / std::max(longest, 1e-6), 1.0, 1000.0));
}

Buffer zeros(Device device, std::int64_t bytes) {
  return {device, DType::f32, {bytes / 4}, MemoryClass::workspace, "message rate"};
}

}  // namespace

double DeviceRates::products(double seconds, bool slowed) const {
  const bool cuda = on_.device.is_cuda();
  const DType type = cuda && on_.gpu.compute_major >= 8 ? DType::bf16 : DType::f32;
  const std::int64_t n = quick_ ? 64 : cuda ? 8192 : 1024;
  std::vector<double> rates;
  for (int i = 0; i < windows; ++i)
    rates.push_back(
        launch::gemm_rate(type, n, n, n, seconds / windows, on_.device).sustained);
  return median(std::move(rates)) / (slowed ? slow_factor : 1);
}

double DeviceRates::memory(double seconds, bool slowed) const {
  // Far more than caches hold.
  const std::int64_t bytes =
      quick_ ? 1 << 16 : (on_.device.is_cuda() ? 512 : 64) * mebibyte;
  std::vector<double> rates;
  const auto start = Clock::now();
  do {
    rates.push_back(on_.device.is_cuda()
                        ? kernels::copy_bandwidth(on_.device, bytes, windows)
                        : kernels::triad_bandwidth(bytes / 4, windows));
  } while (seconds_since(start) < seconds);
  return median(std::move(rates)) / (slowed ? slow_factor : 1);
}

std::int64_t DeviceRates::pattern_bytes() const {
  if (quick_) return mebibyte;
  const std::int64_t free =
      on_.device.is_cuda()
          ? static_cast<std::int64_t>(device_memory_state(on_.device).free_bytes)
          : launch::free_host_memory(ranks_on_node_);
  return std::clamp(free / 4, mebibyte, 256 * mebibyte);
}

MemoryTest DeviceRates::patterns(double seconds, bool spoiled) const {
  return test_memory(on_.device, pattern_bytes(), seconds, spoiled);
}

MessageRates::MessageRates(comm::World& world, const launch::ComputeDevice& on,
                           bool quick)
    : world_(world),
      mesh_(world, {.data = world.size()}, {}, on.device, on.transport),
      group_(mesh_.group(comm::Axis::data)),
      stream_(on.device) {
  const std::int64_t bytes = quick                 ? 4096
                             : on.device.is_cuda() ? 64 * mebibyte
                                                   : 4 * mebibyte;
  world.agree([&] {
    sent_ = zeros(on.device, bytes);
    received_ = zeros(on.device, bytes);
    reduced_ = zeros(on.device, 4 * bytes);
    for (const Buffer* x : {&sent_, &received_, &reduced_})
      kernels::fill(stream_, x->view(), 0);
    stream_.synchronize();
  });
}

int MessageRates::partner(int round) const {
  const comm::HostTable& hosts = comm::hosts_of(world_);
  const int rank = world_.rank();
  if (hosts.hosts() == 1) return partner_of(rank, world_.size(), round);
  const int host = hosts.number_of(rank);
  const int other = partner_of(host, hosts.hosts(), round);
  if (other < 0) return -1;
  const int there = hosts.first_rank(other) + rank - hosts.first_rank(host);
  if (hosts.number_of(there) != other) return -1;          // fewer ranks there
  return hosts.host(there) == world_.host() ? -1 : there;  // ranks dealt out in turn
}

void MessageRates::exchange(int partner) {
  comm::Handle sent, received;
  {
    const comm::Group::Exchange together(group_);
    sent = group_.send(stream_, sent_.view(), partner);
    received = group_.receive(stream_, received_.view(), partner);
  }
  received.wait();
  sent.wait();
  stream_.synchronize();
}

double MessageRates::round(int partner, double seconds, bool slowed) {
  if (partner >= 0) exchange(partner);  // connects
  world_.barrier();
  auto start = Clock::now();
  if (partner >= 0) exchange(partner);
  const double once = partner >= 0 ? seconds_since(start) : 0;
  const int times = repeats(seconds, world_.max(once * (slowed ? slow_factor : 1)));
  if (partner < 0) return -1;
  start = Clock::now();
  double last = once;
  for (int i = 0; i < times; ++i) {
    if (slowed) sleep(last * (slow_factor - 1));
    const auto begin = Clock::now();
    exchange(partner);
    last = seconds_since(begin);
  }
  const double bytes = 2 * static_cast<double>(sent_.bytes());
  return bytes * times / seconds_since(start);
}

double MessageRates::pairs(double seconds, bool slowed) {
  const int hosts = comm::hosts_of(world_).hosts();
  const int rounds = pair_rounds(hosts == 1 ? world_.size() : hosts);
  double best = -1;
  for (int r = 0; r < rounds; ++r)
    best = std::max(best, round(partner(r), seconds / rounds, slowed));
  return best;
}

double MessageRates::all_reduce(double seconds) {
  const auto reduce = [&] {
    group_.all_reduce(stream_, reduced_.view()).wait();
    stream_.synchronize();
  };
  reduce();  // connects
  world_.barrier();
  auto start = Clock::now();
  reduce();
  const int times = repeats(seconds, world_.max(seconds_since(start)));
  start = Clock::now();
  for (int i = 0; i < times; ++i) reduce();
  const double n = world_.size();
  const double through = 2 * (n - 1) / n * static_cast<double>(reduced_.bytes());
  return through * times / world_.max(seconds_since(start));
}

}  // namespace trireme::selftest
