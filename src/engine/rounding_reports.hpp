// RoundingReports: what numbers of few bits lose in the steps that are to tell.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "comm/mesh.hpp"
#include "config/run_config.hpp"
#include "nn/fp8_report.hpp"
#include "optim/parameter_store.hpp"

namespace trireme::engine {

// Empty but in every precision.report_every-th step.
class RoundingReports {
 public:
  // Everything that is given outlives this.
  RoundingReports(const config::PrecisionSettings& precision, comm::Mesh& mesh,
                  optim::ParameterStore& store, Device device);

  // Starts counting, if `step` is one that tells.
  void begin_step(std::int64_t step);
  // Where this step's products count what they lose, or null.
  nn::Fp8Report* products();
  // The sums over all ranks: of what products lost, once all have run, and of what stored
  // numbers lost, at the end of the step. Collective over the mesh.
  void finish_products();
  void finish_stored();

  // Of x, W and dy of the linear layers in FP8.
  std::span<const RoundingLosses> product_losses() const { return product_losses_; }
  // Of stored numbers, by TensorClass.
  std::span<const RoundingLosses> stored_losses() const { return stored_losses_; }
  std::size_t bytes() const { return products_ ? products_->bytes() : 0; }

 private:
  const config::PrecisionSettings& precision_;
  comm::Mesh& mesh_;
  optim::ParameterStore& store_;
  Device device_;
  std::optional<nn::Fp8Report> products_;  // with FP8
  bool counting_products_ = false;         // in this step
  std::vector<RoundingLosses> product_losses_, stored_losses_;
};

}  // namespace trireme::engine
