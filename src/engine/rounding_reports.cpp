// RoundingReports: counting in a step, and the sums over the ranks.
// SPDX-License-Identifier: Apache-2.0
#include "engine/rounding_reports.hpp"

#include "config/precision.hpp"

namespace trireme::engine {
namespace {

// Sums over all ranks of what one class has lost; of scales the largest.
std::vector<RoundingLosses> summed(comm::Group& everyone,
                                   std::span<const RoundingLosses> mine) {
  std::vector<double> sums, scales;
  for (const RoundingLosses& losses : mine) {
    sums.insert(sums.end(), {losses.elements, losses.saturated, losses.flushed});
    scales.push_back(losses.scale);
  }
  const auto view = [](std::vector<double>& x) {
    return TensorView(x.data(), DType::f64, {static_cast<std::int64_t>(x.size())});
  };
  Stream host;
  everyone.all_reduce(host, view(sums)).wait();
  everyone.all_reduce(host, view(scales), comm::Reduce::max).wait();
  std::vector<RoundingLosses> all;
  for (std::size_t i = 0; i < scales.size(); ++i)
    all.push_back({sums[3 * i], sums[3 * i + 1], sums[3 * i + 2], scales[i]});
  return all;
}

}  // namespace

RoundingReports::RoundingReports(const config::PrecisionSettings& precision,
                                 comm::Mesh& mesh, optim::ParameterStore& store,
                                 Device device)
    : precision_(precision), mesh_(mesh), store_(store), device_(device) {
  if (precision.recipe.fp8() && precision.report_every > 0) products_.emplace(device);
}

void RoundingReports::begin_step(std::int64_t step) {
  const bool tells = !device_.is_meta() && config::fp8_report_due(precision_, step);
  counting_products_ = tells && products_.has_value();
  Stream stream(device_);
  if (counting_products_) products_->clear(stream);
  store_.report().begin(stream, tells);
}

nn::Fp8Report* RoundingReports::products() {
  return counting_products_ ? &*products_ : nullptr;
}

void RoundingReports::finish_products() {
  product_losses_.clear();
  if (!counting_products_) return;
  counting_products_ = false;
  Stream stream(device_);
  const auto mine = products_->read(stream);
  product_losses_ = summed(mesh_.everyone(), mine);
}

void RoundingReports::finish_stored() {
  stored_losses_.clear();
  if (!store_.report().counting()) return;
  Stream stream(device_);
  const auto mine = store_.report().end(stream);
  stored_losses_ = summed(mesh_.everyone(), mine);
}

}  // namespace trireme::engine
