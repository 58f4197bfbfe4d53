// OwnGradients: what a rank's own backward has made, before ranks are summed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <unordered_map>
#include <vector>

#include "base/weight_access.hpp"
#include "engine/step_print.hpp"
#include "engine/step_totals.hpp"
#include "optim/parameter_store.hpp"

namespace trireme::engine {

// Stands between the stages and the owner of their weights, on a host, and passes on all
// that it is told.
class OwnGradients final : public WeightAccess {
 public:
  // `others` owns the weights, and outlives this.
  explicit OwnGradients(WeightAccess& others) : others_(others) {}

  // A run of a step begins. `looks`: each contribution to a gradient goes into a hash.
  void begin(bool looks);
  // Flips a bit of the next gradient that is complete: a fault for tests.
  void flip_next() { flips_ = true; }
  // Of the run, in the order in which gradients were complete first.
  const std::vector<TensorPrint>& prints() const { return prints_; }

  void fetch(int module, Direction direction) override {
    others_.fetch(module, direction);
  }
  void release(int module) override { others_.release(module); }
  void open_gradients(int module) override { others_.open_gradients(module); }
  void close_gradients(int module) override { others_.close_gradients(module); }
  void ready(Param& param) override;

 private:
  WeightAccess& others_;
  bool looks_ = false, flips_ = false;
  std::vector<TensorPrint> prints_;
  std::unordered_map<const Param*, std::size_t> places_;  // in prints_
};

// Of a run of which `mine` is what the rank has to tell. The sums are this rank's part of
// those in the store; where they are kept in few bits their squares stand for them.
StepPrint print_of(const StepTotals::Outcome& mine, const OwnGradients& own,
                   optim::ParameterStore& store);

}  // namespace trireme::engine
