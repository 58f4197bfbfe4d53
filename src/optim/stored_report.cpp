// StoredReport: counting before rounding.
// SPDX-License-Identifier: Apache-2.0
#include "optim/stored_report.hpp"

#include <algorithm>

#include "base/device_memory.hpp"
#include "kernels/elementwise.hpp"
#include "optim/stored_numbers.hpp"

namespace trireme::optim {
namespace {

constexpr auto classes = static_cast<std::int64_t>(tensor_classes);

bool is_narrow(DType type) { return size_of(type) <= 2; }

}  // namespace

StoredReport::StoredReport(Device device)
    : counts_(device, DType::f64, {classes, 2}, MemoryClass::workspace,
              "what rounding loses"),
      amax_(device, DType::f32, {1}, MemoryClass::workspace, "largest magnitude") {}

void StoredReport::begin(Stream& stream, bool count) {
  counting_ = count && counts_.bytes() > 0;
  if (!counting_) return;
  losses_ = {};
  kernels::fill(stream, counts_.view(), 0.0);
}

TensorView StoredReport::counts_of(TensorClass what) const {
  return counts_.view().rows(static_cast<std::int64_t>(what), 1).reshape({2});
}

void StoredReport::add(Stream& stream, TensorClass what, const TensorView& wide_N,
                       DType type, float scale) {
  if (!counting_ || !is_narrow(type)) return;
  RoundingLosses& losses = losses_[static_cast<std::size_t>(what)];
  losses.elements += static_cast<double>(wide_N.elements());
  if (!has_scale(type) || amax_of(stream, wide_N, amax_.view()) != 0)
    losses.scale = std::max(losses.scale, double{scale});
  kernels::count_rounding_losses(stream, wide_N, kernels::rounding_limits(type, scale),
                                 {}, {}, counts_of(what));
}

void StoredReport::add(Stream& stream, TensorClass what, const TensorView& wide_N,
                       DType type, const kernels::TensorRun& run,
                       const TensorView& scales_S) {
  if (!counting_ || !is_narrow(type)) return;
  RoundingLosses& losses = losses_[static_cast<std::size_t>(what)];
  losses.elements += static_cast<double>(wide_N.elements());
  kernels::count_rounding_losses(stream, wide_N, kernels::rounding_limits(type), run,
                                 scales_S, counts_of(what));
}

std::array<RoundingLosses, tensor_classes> StoredReport::end(Stream& stream) {
  counting_ = false;
  std::array<double, 2 * tensor_classes> counts{};
  copy_bytes(stream, counts_.view(),
             TensorView(counts.data(), DType::f64, counts_.view().shape()));
  stream.synchronize();
  for (std::size_t c = 0; c < tensor_classes; ++c) {
    losses_[c].saturated = counts[2 * c];
    losses_[c].flushed = counts[2 * c + 1];
  }
  return losses_;
}

}  // namespace trireme::optim
