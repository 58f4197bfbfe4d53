// StepTotals: sums of loss, tokens and flags over the ranks, once a step.
// SPDX-License-Identifier: Apache-2.0
#include "engine/step_totals.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.hpp"
#include "engine/planned_device.hpp"
#include "kernels/elementwise.hpp"

namespace trireme::engine {
namespace {

// Sets or reads the elements of a small f64 tensor; nothing on meta.
void put(const Buffer& x, std::size_t i, double value) {
  if (!x.view().device().is_meta()) x.view().span<double>()[i] = value;
}

double take(const Buffer& x, std::size_t i, double on_meta) {
  return x.view().device().is_meta() ? on_meta : x.view().span<double>()[i];
}

}  // namespace

StepTotals::StepTotals(comm::Mesh& mesh, Device device)
    : mesh_(mesh),
      stream_(host_beside(mesh, device)),
      groups_(mesh.groups()),
      values_(stream_.device(), DType::f64, {agreed_values + host_slots},
              MemoryClass::communication, "loss") {
  const int ranks = mesh.shape().pipeline;
  if (ranks == 1) return;
  work_ = Buffer(stream_.device(), DType::f64, {ranks}, MemoryClass::communication,
                 "work of the pipeline's ranks");
  idle_shares_.resize(static_cast<std::size_t>(ranks));
}

double StepTotals::tokens(double mine) {
  put(values_, 0, mine);
  mesh_.replicas().all_reduce(stream_, values_.view().rows(0, 1)).wait();
  return std::max(take(values_, 0, mine), 1.0);
}

void StepTotals::sum(std::span<double> values) {
  const Device device = stream_.device();
  const TensorView view(device.is_meta() ? nullptr : values.data(), DType::f64,
                        {std::ssize(values)}, device);
  mesh_.replicas().all_reduce(stream_, view).wait();
  mesh_.group(comm::Axis::pipeline).all_reduce(stream_, view).wait();
}

void StepTotals::sum_loss() {
  mesh_.group(comm::Axis::pipeline).all_reduce(stream_, values_.view().rows(0, 1)).wait();
}

void StepTotals::tell_apart(int host, int hosts) {
  require(hosts >= 1 && host >= 0 && host < hosts, "host {} of {}", host, hosts);
  host_ = host;
  hosts_ = hosts;
}

// Among more hosts than slots: by a hash that changes from step to step (the end of
// SplitMix64, Steele et al. 2014).
std::size_t StepTotals::slot_of(int host) const {
  if (hosts_ <= host_slots) return static_cast<std::size_t>(host);
  std::uint64_t z = (round_ << 32) + static_cast<std::uint64_t>(host);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return static_cast<std::size_t>((z ^ (z >> 31)) % host_slots);
}

std::vector<RankedValue> StepTotals::slowest_of_hosts(std::size_t most) const {
  std::vector<RankedValue> all;
  for (std::size_t slot = 0; slot < host_slots; ++slot)
    if (const auto one = from_order(take(values_, agreed_values + slot, 0.0)))
      all.push_back(*one);
  std::sort(all.begin(), all.end(), [](const RankedValue& a, const RankedValue& b) {
    return in_order(a) > in_order(b);
  });
  if (all.size() > most) all.resize(most);
  return all;
}

StepTotals::Outcome StepTotals::finish(const Outcome& mine, const Work& work) {
  Outcome all;
  ++round_;
  // 1. the loss; beside it, how long ranks with the same work took for it
  put(values_, 0, mine.loss);
  put(values_, 1, work.own);
  mesh_.replicas().all_reduce(stream_, values_.view().rows(0, 2)).wait();
  const int others = mesh_.replicas().size() - 1;
  const double theirs = take(values_, 1, work.own) - work.own;
  sum_loss();
  all.loss = take(values_, 0, mine.loss);
  // 2. what any rank wants or holds, who is slowest on each host, and whether one has
  // lost its loss: tensor ranks have one each
  put(values_, 0, static_cast<double>(mine.stop_request));
  put(values_, 1, mine.memory_peak);
  put(values_, 2, work.run);
  put(values_, 3, std::isfinite(all.loss) ? 0.0 : 1.0);
  for (std::size_t slot = 0; slot < host_slots; ++slot)
    put(values_, agreed_values + slot, 0.0);
  if (theirs > 0)
    put(values_, agreed_values + slot_of(host_),
        in_order(RankedValue{work.own * others / theirs, mesh_.rank()}));
  mesh_.everyone().all_reduce(stream_, values_.view(), comm::Reduce::max).wait();
  all.stop_request = static_cast<int>(take(values_, 0, 0.0));
  all.memory_peak = take(values_, 1, mine.memory_peak);
  const auto first = slowest_of_hosts(1);
  slowest_ = first.empty() ? std::nullopt : std::optional(first.front());
  if (std::isfinite(all.loss) && take(values_, 3, 0.0) > 0)
    all.loss = std::numeric_limits<double>::quiet_NaN();
  // 3. who worked, and how long
  if (!idle_shares_.empty()) sum_work(work, take(values_, 2, work.run));
  return all;
}

void StepTotals::sum_work(const Work& work, double slowest) {
  const std::size_t ranks = idle_shares_.size();
  const double beside = mesh_.shape().size() / mesh_.shape().pipeline;
  kernels::fill(stream_, work_.view(), 0.0);
  put(work_, static_cast<std::size_t>(mesh_.coordinate(comm::Axis::pipeline)),
      work.busy / beside);
  mesh_.everyone().all_reduce(stream_, work_.view()).wait();
  for (std::size_t r = 0; r < ranks; ++r)
    idle_shares_[r] = slowest > 0 ? 1.0 - take(work_, r, 0.0) / slowest : 0.0;
}

void StepTotals::sum_validation(double& loss, double& tokens) {
  put(values_, 0, loss);
  put(values_, 1, tokens);
  mesh_.replicas().all_reduce(stream_, values_.view().rows(0, 2)).wait();
  sum_loss();
  loss = take(values_, 0, loss);
  tokens = take(values_, 1, tokens);
}

}  // namespace trireme::engine
