// StepTotals: sums of loss, tokens and flags over the ranks, once a step.
// SPDX-License-Identifier: Apache-2.0
#include "engine/step_totals.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "base/error.hpp"
#include "engine/planned_device.hpp"
#include "kernels/math/step_decision.hpp"

namespace trireme::engine {
namespace {

// Sets or reads the elements of a small f64 tensor; nothing on meta.
void put(const Buffer& x, std::size_t i, double value) {
  if (!x.view().device().is_meta()) x.view().span<double>()[i] = value;
}

// Two whole numbers as one: below 2^20, and below 2^33.
constexpr double in_front = 0x1p20;
double packed(double low, double high) { return low + in_front * high; }
double low_of(double both) { return std::fmod(both, in_front); }
double high_of(double both) { return std::floor(both / in_front); }

// The wish to stop and the most rounds of experts in the lower half of one of them.
constexpr double wishes = 16;
double packed_stop(double stop, const parallel::ExpertRounds& rounds) {
  return packed(stop + wishes * rounds.max, rounds.count);
}
double stop_of(double both) { return std::fmod(both, wishes); }
parallel::ExpertRounds rounds_of(double stop, double host) {
  return {high_of(host), high_of(stop), std::floor(low_of(stop) / wishes)};
}

// Two numbers of 32 bits as one of 64, which is copied and never computed with. No pair
// of usual numbers, or of NaNs as compilers make them, is a NaN of 64 bits.
double paired(float first, float second) {
  return std::bit_cast<double>(std::array<float, 2>{first, second});
}
std::array<float, 2> pair_of(double both) {
  return std::bit_cast<std::array<float, 2>>(both);
}

double take(const Buffer& x, std::size_t i, double on_meta) {
  return x.view().device().is_meta() ? on_meta : x.view().span<double>()[i];
}

}  // namespace

StepTotals::StepTotals(comm::Mesh& mesh, Device device)
    : mesh_(mesh),
      stream_(host_beside(mesh, device)),
      groups_(mesh.groups()),
      values_(stream_.device(), DType::f64, {row_values}, MemoryClass::communication,
              "what the ranks add up") {
  const int ranks = mesh.shape().pipeline;
  if (ranks > 1) idle_shares_.resize(static_cast<std::size_t>(ranks));
}

double StepTotals::tokens(double mine) {
  put(values_, 0, mine);
  mesh_.replicas().all_reduce(stream_, values_.view().rows(0, 1)).wait();
  return take(values_, 0, mine);
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
  for (const double slot : slots_)
    if (const auto one = from_ordered_double(slot)) all.push_back(*one);
  std::sort(all.begin(), all.end(), [](const RankedValue& a, const RankedValue& b) {
    return to_ordered_double(a) > to_ordered_double(b);
  });
  if (all.size() > most) all.resize(most);
  return all;
}

StepTotals::Outcome StepTotals::finish(const Outcome& mine, const Work& work) {
  ++round_;
  slots_.fill(0);
  std::fill(idle_shares_.begin(), idle_shares_.end(), 0.0);
  const std::array<double, row_values> row = {
      mine.loss,
      packed_stop(static_cast<double>(mine.stop_request), mine.rounds),
      mine.memory_peak,
      mine.squares,
      work.own,
      paired(static_cast<float>(work.run), static_cast<float>(work.busy)),
      paired(mine.joules.gpus, mine.joules.nodes),
      packed(static_cast<double>(host_), mine.rounds.sum)};
  for (std::size_t i = 0; i < row.size(); ++i) put(values_, i, row[i]);
  const comm::CombineRows combine =
      [this](const TensorView& rows, const TensorView& out) { combine_rows(rows, out); };
  mesh_.everyone().all_reduce(stream_, values_.view(), combine).wait();
  const TensorView& all = values_.view();
  if (mesh_.everyone().size() == 1 && !all.device().is_meta())
    combine_rows(all.reshape({1, row_values}), all);
  const auto joules =
      pair_of(take(values_, joules_at, paired(mine.joules.gpus, mine.joules.nodes)));
  const auto first = slowest_of_hosts(1);
  slowest_ = first.empty() ? std::nullopt : std::optional(first.front());
  return {.loss = take(values_, loss_at, mine.loss),
          .stop_request = static_cast<int>(stop_of(take(values_, stop_at, 0.0))),
          .memory_peak = take(values_, memory_at, mine.memory_peak),
          .squares = take(values_, squares_at, mine.squares),
          .rounds = rounds_of(take(values_, stop_at, 0.0), take(values_, host_at, 0.0)),
          .joules = {joules[0], joules[1]}};
}

// Sums are made in the order of ranks, of the loss first over replicas, then over stages.
void StepTotals::combine_rows(const TensorView& rows_PN, const TensorView& out_N) {
  const std::span<const double> rows = rows_PN.span<double>();
  const comm::MeshShape& mesh = mesh_.shape();
  const auto T = static_cast<std::size_t>(mesh.tensor);
  const auto P = rows.size() / row_values,
             in_stage = P / static_cast<std::size_t>(mesh.pipeline);
  const auto at = [&](std::size_t rank, std::size_t value) {
    return rows[rank * row_values + value];
  };
  std::array<double, row_values> all{};
  double stop = 0, run = 0, gpus = 0, nodes = 0;
  parallel::ExpertRounds rounds;
  kernels::math::StepSums sums(static_cast<std::int32_t>(in_stage), mesh.tensor);
  for (std::size_t rank = 0; rank < P; ++rank) {
    stop = std::max(stop, stop_of(at(rank, stop_at)));
    rounds.add(rounds_of(at(rank, stop_at), at(rank, host_at)));
    all[memory_at] = std::max(all[memory_at], at(rank, memory_at));
    run = std::max(run, static_cast<double>(pair_of(at(rank, work_at))[0]));
    const auto joules = pair_of(at(rank, joules_at));
    gpus += static_cast<double>(joules[0]);
    nodes += static_cast<double>(joules[1]);
    sums.add(at(rank, loss_at), at(rank, squares_at));
  }
  all[loss_at] = sums.loss();
  all[squares_at] = sums.squares();
  all[stop_at] = packed_stop(stop, rounds);
  all[host_at] = packed(0, rounds.sum);
  all[joules_at] = paired(static_cast<float>(gpus), static_cast<float>(nodes));
  for (std::size_t first = 0; first < P; first += in_stage) {
    double busy = 0;
    for (std::size_t rank = first; rank < first + in_stage; ++rank)
      busy += static_cast<double>(pair_of(at(rank, work_at))[1]) /
              static_cast<double>(in_stage);
    if (!idle_shares_.empty())
      idle_shares_[first / in_stage] = run > 0 ? 1.0 - busy / run : 0.0;
    for (std::size_t tensor = 0; tensor < T; ++tensor)
      find_slow(rows.subspan((first + tensor) * row_values), in_stage / T,
                static_cast<int>(first + tensor));
  }
  std::copy(all.begin(), all.end(), out_N.span<double>().begin());
}

// Of `ranks` ranks with the same work, from rank `first` on, by their rows.
void StepTotals::find_slow(std::span<const double> rows, std::size_t ranks, int first) {
  const int T = mesh_.shape().tensor;
  const std::size_t stride = row_values * static_cast<std::size_t>(T);
  double sum = rows[own_at];
  for (std::size_t i = 1; i < ranks; ++i) sum += rows[i * stride + own_at];
  for (std::size_t i = 0; i < ranks; ++i) {
    const double own = rows[i * stride + own_at], theirs = sum - own;
    if (!(theirs > 0)) continue;
    double& slot = slots_[slot_of(static_cast<int>(low_of(rows[i * stride + host_at])))];
    slot = std::max(
        slot, to_ordered_double(RankedValue{own * static_cast<double>(ranks - 1) / theirs,
                                            first + static_cast<int>(i) * T}));
  }
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
