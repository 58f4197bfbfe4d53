// Norm: forward and backward.
// SPDX-License-Identifier: Apache-2.0
#include "nn/norm.hpp"

#include "nn/layout.hpp"
#include "nn/linear.hpp"

namespace trireme::nn {

Norm::Norm(const NormConfig& config, const parallel::TensorRegion& region)
    : config_(config) {
  const auto param = config.inner ? unsplit_inner_param : unsplit_param;
  const Shape shape = {config.hidden};
  require(config.gain_offset == 0 || config.kind == NormKind::rms,
          "gains of LayerNorm have no offset");
  const bool from_zero = config.gain_offset != 0;
  gain_ = param(region, config.name + ".weight", shape,
                from_zero ? Initializer{} : Initializer{Initializer::Kind::ones});
  if (config.kind == NormKind::layer)
    shift_ = param(region, config.name + ".bias", shape, {});
}

void Norm::keep(Pass& pass, const TensorView& x_TD, Saved& saved) const {
  const DType statistics = accumulator_of(x_TD.dtype());
  saved.x_TD = x_TD;
  saved.rstd_T = pass.saved.take(statistics, {x_TD.dim(0)}, "norm.rstd");
  if (config_.kind == NormKind::layer)
    saved.mean_T = pass.saved.take(statistics, {x_TD.dim(0)}, "norm.mean");
}

void Norm::forward(Pass& pass, const TensorView& x_TD, const TensorView& y_TD,
                   Saved& saved) const {
  keep(pass, x_TD, saved);
  again(pass, saved, y_TD);
}

void Norm::forward(Pass& pass, const kernels::Addends& addends, const TensorView& x_TD,
                   const TensorView& y_TD, Saved& saved) const {
  keep(pass, x_TD, saved);
  const ArenaScope scope(pass.scratch);
  const TensorView gain_D = in_type(pass, gain_.value, x_TD.dtype());
  if (config_.kind == NormKind::rms) {
    kernels::add_rms_norm(pass.stream, addends, x_TD, {gain_D, config_.gain_offset},
                          config_.eps, y_TD, saved.rstd_T);
  } else {
    kernels::add_layer_norm(pass.stream, addends, x_TD, gain_D,
                            in_type(pass, shift_.value, x_TD.dtype()), config_.eps, y_TD,
                            saved.mean_T, saved.rstd_T);
  }
}

void Norm::again(Pass& pass, const Saved& saved, const TensorView& y_TD) const {
  const ArenaScope scope(pass.scratch);
  const DType type = saved.x_TD.dtype();
  const TensorView gain_D = in_type(pass, gain_.value, type);
  if (config_.kind == NormKind::rms) {
    kernels::rms_norm(pass.stream, saved.x_TD, {gain_D, config_.gain_offset}, config_.eps,
                      y_TD, saved.rstd_T);
  } else {
    kernels::layer_norm(pass.stream, saved.x_TD, gain_D,
                        in_type(pass, shift_.value, type), config_.eps, y_TD,
                        saved.mean_T, saved.rstd_T);
  }
}

void Norm::backward(Pass& pass, const TensorView& dy_TD, const Saved& saved,
                    const TensorView& residual_TD, const TensorView& dx_TD) {
  const DType accumulator = accumulator_of(dy_TD.dtype());
  const TensorView dgain_D = pass.fused_target(gain_, accumulator);
  const TensorView gain_D = in_type(pass, gain_.value, dy_TD.dtype());
  if (config_.kind == NormKind::rms) {
    kernels::rms_norm_backward(pass.stream, dy_TD, saved.x_TD,
                               {gain_D, config_.gain_offset}, saved.rstd_T, residual_TD,
                               dx_TD, dgain_D);
    pass.add_fused(gain_, dgain_D);
    return;
  }
  const TensorView dshift_D = pass.fused_target(shift_, accumulator);
  kernels::layer_norm_backward(pass.stream, dy_TD, saved.x_TD, gain_D, saved.mean_T,
                               saved.rstd_T, residual_TD, dx_TD, dgain_D, dshift_D);
  pass.add_fused(gain_, dgain_D);
  pass.add_fused(shift_, dshift_D);
}

void Norm::collect(std::vector<Param*>& params) {
  params.push_back(&gain_);
  if (config_.kind == NormKind::layer) params.push_back(&shift_);
}

}  // namespace trireme::nn
