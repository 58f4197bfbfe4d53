// ExpertLinear: one linear layer of each of several experts, in the types of a recipe.
// SPDX-License-Identifier: Apache-2.0
// Legend: R rows, sorted by expert and then by the rank that they come from; L experts
// here, P ranks of the expert axis, I input width, O output width.
#pragma once

#include <vector>

#include "nn/adapter.hpp"
#include "nn/fp8_operands.hpp"
#include "parallel/expert_dispatch.hpp"

namespace trireme::nn {

// The experts' weights lie one below the other, [L O, I]. With FP8 the products are those
// of Linear, an expert and a source at a time, so that they do not depend on how many
// ranks share the experts out:
// - one scale for a tensor: of x and dy for all rows of one rank's microbatch, whichever
//   expert they go to (delayed: of all microbatches); of W for all experts of the layer;
// - scales of blocks: along tokens (for dW) of one expert's rows from one rank.
// Rows are padded with zeros to the multiples that FP8 products want.
class ExpertLinear {
 public:
  ExpertLinear() = default;
  ExpertLinear(const ExpertLinear&) = delete;
  ExpertLinear& operator=(const ExpertLinear&) = delete;

  using Route = parallel::ExpertDispatch::Route;
  // Scales of x by source, if there is one for a tensor.
  struct Saved {
    TensorView input_scale_P;
  };
  struct Gradient {
    TensorView dy_RO, scale_P;
    TensorView du_RR{};  // of the adapters' inner values, if they are attached
    TensorView output_RO{}, lengths_O{};  // with DoRA: see Linear::Gradient
    const TensorView& output() const { return output_RO.empty() ? dy_RO : output_RO; }
  };

  Param weight;
  Fp8Operands operands{weight};
  Adapter adapter{weight};  // of each expert

  // The dispatch outlives this.
  void bind(const parallel::ExpertDispatch& dispatch, std::int64_t experts) {
    dispatch_ = &dispatch;
    experts_ = experts;
    operands.bind(dispatch);
  }

  // As Linear's; with FP8 and one scale for a tensor also collective over the expert
  // axis. y_RO, dx_RI: written.
  void forward(Pass& pass, const Route& route, const TensorView& x_RI,
               const TensorView& y_RO, Saved& saved) const;
  Gradient output_gradient(Pass& pass, const Route& route, const TensorView& dy_RO) const;
  void input_gradient(Pass& pass, const Route& route, const Gradient& dy,
                      const TensorView& dx_RI) const;
  void post_weight_gradient(Pass& pass, const Route& route, const Gradient& dy,
                            const TensorView& x_RI, const Saved& saved);

  std::int64_t experts() const { return experts_; }
  // The weight and the adapters' matrices.
  void collect(std::vector<Param*>& params);

  // Each expert's part of `bias` [L O] is added to its rows of y_RO, which may be columns
  // of a wider matrix; the gradient of such a bias is posted.
  void add_bias(Pass& pass, const Route& route, const TensorView& bias,
                const TensorView& y_RO) const;
  void post_bias_gradient(Pass& pass, const Route& route, const TensorView& dy_RO,
                          Param& bias) const;

 private:
  // Rows of one expert that come from one rank, and where they lie in padded matrices.
  struct Part {
    std::int64_t expert = 0, source = 0, first = 0, rows = 0;
    std::int64_t padded_first = 0, padded_rows = 0;
  };
  using Parts = std::vector<Part>;

  Parts parts(const Route& route, bool meta) const;
  TensorView padded(Pass& pass, const Parts& parts, const TensorView& x_RI) const;
  TensorView scales_of(Pass& pass, const Parts& parts, Operand what,
                       const TensorView& x_RI, const TensorView& buffer_P) const;
  TensorView weight_of(std::int64_t expert) const;
  void multiply_forward(Pass& pass, const Route& route, const TensorView& x_RI,
                        const TensorView& y_RO, Saved& saved) const;
  void multiply_codes(Pass& pass, const Route& route, const TensorView& x_RI,
                      const TensorView& y_RO) const;
  void multiply_gradient(Pass& pass, const Route& route, const Gradient& dy,
                         const TensorView& dx_RI) const;
  void post_magnitudes(Pass& pass, const Route& route, const Gradient& dy,
                       const TensorView& x_RI);
  // y_RO (written) = the products of padded rows, quantized as `what`, with each expert's
  // weight, transposed or not.
  void multiply(Pass& pass, const Route& route, Operand what, const TensorView& x_RI,
                const TensorView& scale_P, bool transposed, const TensorView& y_RO) const;

  const parallel::ExpertDispatch* dispatch_ = nullptr;
  std::int64_t experts_ = 0;  // L
};

}  // namespace trireme::nn
