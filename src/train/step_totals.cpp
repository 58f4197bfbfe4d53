// StepTotals.
// SPDX-License-Identifier: Apache-2.0
#include "train/step_totals.hpp"

#include <algorithm>

namespace trireme::train {
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
      stream_(device),
      values_(device, DType::f64, {2}, MemoryClass::communication, "loss") {
  const int stages = mesh.shape().pipeline;
  if (stages == 1) return;
  idle_ = Buffer(device, DType::f64, {stages}, MemoryClass::communication, "idle shares");
  idle_shares_.resize(static_cast<std::size_t>(stages));
}

double StepTotals::tokens(double mine) {
  put(values_, 0, mine);
  mesh_.replicas().all_reduce(stream_, values_.view().rows(0, 1)).wait();
  return std::max(take(values_, 0, mine), 1.0);
}

void StepTotals::sum_loss() {
  mesh_.group(comm::Axis::pipeline).all_reduce(stream_, values_.view().rows(0, 1)).wait();
}

StepTotals::Outcome StepTotals::finish(const Outcome& mine, double idle_share) {
  Outcome all;
  // 1. the loss
  put(values_, 0, mine.loss);
  mesh_.replicas().all_reduce(stream_, values_.view().rows(0, 1)).wait();
  sum_loss();
  all.loss = take(values_, 0, mine.loss);
  // 2. what any rank wants or holds
  put(values_, 0, mine.stop ? 1.0 : 0.0);
  put(values_, 1, mine.memory_peak);
  mesh_.everyone().all_reduce(stream_, values_.view(), comm::Reduce::max).wait();
  all.stop = take(values_, 0, 0.0) > 0;
  all.memory_peak = take(values_, 1, mine.memory_peak);
  // 3. the mean idle share of each stage
  if (idle_shares_.empty()) return all;
  const auto stage = static_cast<std::size_t>(mesh_.coordinate(comm::Axis::pipeline));
  const int ranks = mesh_.shape().size() / mesh_.shape().pipeline;
  for (std::size_t s = 0; s < idle_shares_.size(); ++s)
    put(idle_, s, s == stage ? idle_share / ranks : 0.0);
  mesh_.everyone().all_reduce(stream_, idle_.view()).wait();
  for (std::size_t s = 0; s < idle_shares_.size(); ++s)
    idle_shares_[s] = take(idle_, s, 0.0);
  return all;
}

void StepTotals::sum_validation(double& loss, double& tokens) {
  put(values_, 0, loss);
  put(values_, 1, tokens);
  mesh_.replicas().all_reduce(stream_, values_.view()).wait();
  sum_loss();
  loss = take(values_, 0, loss);
  tokens = take(values_, 1, tokens);
}

}  // namespace trireme::train
