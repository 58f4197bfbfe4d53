// Norm: RMSNorm or LayerNorm of rows, of the residual stream or of heads.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "kernels/norm.hpp"
#include "nn/pass.hpp"
#include "parallel/tensor_region.hpp"

namespace trireme::nn {

enum class NormKind : std::uint8_t { rms, layer };

struct NormConfig {
  NormKind kind = NormKind::rms;
  std::int64_t hidden = 0;  // D
  double eps = 1e-5;
  double gain_offset = 0;  // RMSNorm multiplies by this + weight (Gemma: 1)
  std::string name;        // tensors: name.weight and, for LayerNorm, name.bias
  // Rows are this rank's alone (its heads), inside the tensor region; else they are those
  // of the residual stream, outside.
  bool inner = false;
};

class Norm {
 public:
  struct Saved {
    TensorView x_TD, mean_T, rstd_T;
  };

  Norm(const NormConfig& config, const parallel::TensorRegion& region);

  // y_TD (written) = norm(x_TD). Keeps a view of x: it must live in pass.saved.
  void forward(Pass& pass, const TensorView& x_TD, const TensorView& y_TD,
               Saved& saved) const;
  // The same of a sum, which is written to x_TD.
  void forward(Pass& pass, const kernels::Addends& addends, const TensorView& x_TD,
               const TensorView& y_TD, Saved& saved) const;
  // y_TD (written) once more, the same to the bit.
  void again(Pass& pass, const Saved& saved, const TensorView& y_TD) const;
  // dx_TD (written) = residual_TD + the norm's input gradient; residual may be empty or
  // dx.
  void backward(Pass& pass, const TensorView& dy_TD, const Saved& saved,
                const TensorView& residual_TD, const TensorView& dx_TD);

  void collect(std::vector<Param*>& params);

 private:
  // Keeps of x_TD what backward needs.
  void keep(Pass& pass, const TensorView& x_TD, Saved& saved) const;

  NormConfig config_;
  Param gain_, shift_;
};

}  // namespace trireme::nn
