// Fp8Operands: how the operands of one linear layer's products become FP8.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>

#include "base/param.hpp"
#include "base/recipe.hpp"
#include "kernels/fp8.hpp"
#include "nn/pass.hpp"
#include "parallel/expert_dispatch.hpp"

namespace trireme::nn {

// Of the operands of a linear layer's three products. Without scaling they are of the
// activations' type; otherwise FP8, x and W as `forward` says and dy as `backward` says.
struct LinearPrecision {
  Precision forward, backward;
  // The weight has been FP8 before, scaled by powers of two: its codes are kept.
  bool weight_was_fp8 = false;
  bool fp8() const { return forward.scaling != Scaling::none; }
  // One scale for each tensor, which Fp8State keeps.
  bool one_scale() const {
    return forward.scaling == Scaling::delayed || forward.scaling == Scaling::current;
  }
  // Rows of x and of dy, one after another, that share scales in the gradient of W: 1
  // without scales, 0 where all of them do.
  std::int64_t rows_of_a_scale() const {
    if (!fp8()) return 1;
    return one_scale() ? 0 : forward.scaling == Scaling::mx ? mx_block : fp8_block;
  }
};

// The scales of one linear layer's operands, which nn/fp8_state.hpp keeps.
enum class Operand : std::uint8_t { input, weight, output_gradient };
struct LinearScales {
  TensorView scale_3, amax_3;          // f32; amax: of this step so far, on this rank
  std::array<bool, 3> from_history{};  // delayed scaling: the scale stands for this step
  bool weight_scaled = false;          // that of the weight is up to date
};

// Codes of a weight and of its transpose that outlive a microbatch, which
// nn/weight_codes.hpp keeps.
struct KeptCodes {
  kernels::Fp8Matrix codes, turned;
  bool made = false;  // they are those of the weight as it is
};

// Scales and codes of x, W and dy, as a recipe says. The layer itself multiplies.
class Fp8Operands {
 public:
  // Of the layer with this weight, which outlives this.
  explicit Fp8Operands(const Param& weight) : weight_(weight) {}
  Fp8Operands(const Fp8Operands&) = delete;
  Fp8Operands& operator=(const Fp8Operands&) = delete;

  void set_precision(const LinearPrecision& precision) { precision_ = precision; }
  const LinearPrecision& precision() const { return precision_; }
  // Where the scales are kept, for precisions of one scale for a tensor.
  void bind(LinearScales& scales) { scales_ = &scales; }
  // Where the codes of the weight are kept; without it they are made for each product.
  void keep(KeptCodes& kept) { kept_ = &kept; }
  // The layer's weight is one tensor over the ranks of this dispatch, which outlives
  // this.
  void bind(const parallel::ExpertDispatch& dispatch) { dispatch_ = &dispatch; }
  const Param& weight() const { return weight_; }
  bool fp8() const { return precision_.fp8(); }
  bool one_scale() const { return precision_.one_scale(); }
  // Whether some rows of x may be multiplied before the others are there: no scale is
  // that of all of them.
  bool rows_stand_alone() const { return !fp8() || !one_scale(); }

  // amax_1 (in place) = the largest of all ranks that have parts of the operand.
  void agree(Pass& pass, Operand what, const TensorView& amax_1) const;
  kernels::Fp8Format format_of(Operand what) const;
  // Delayed scaling: takes the values' magnitudes down and returns the scale that earlier
  // steps have left; empty if there is none.
  TensorView scale_from_history(Pass& pass, Operand what, const TensorView& values) const;
  // From the history, or else of the values themselves, in buffer_1.
  TensorView scale_of(Pass& pass, Operand what, const TensorView& values,
                      const TensorView& buffer_1) const;
  // The same for the input or the output's gradient, whose magnitudes are taken down
  // together with their codes, where the scale does not depend on them: unseen() says
  // where to, and is empty where they have been taken down.
  TensorView scale_before_codes(Pass& pass, Operand what, const TensorView& values,
                                const TensorView& buffer_1) const;
  TensorView unseen(const Pass& pass, Operand what) const;
  // Made once for each change of the weights; empty unless a tensor has one scale.
  TensorView weight_scale(Pass& pass) const;
  // Codes of the weight, and of its transpose: those that are kept, or else taken from
  // pass.scratch. pass.fp8.report counts the former.
  kernels::Fp8Matrix weight_codes(Pass& pass) const;
  kernels::Fp8Matrix weight_codes_transposed(Pass& pass) const;
  // An operand without its memory: how its codes and scales are to be read.
  kernels::Fp8Matrix form_of(Operand what) const;
  // Codes, taken from `arena`; scale_1 is read if there is one scale.
  kernels::Fp8Matrix quantized(Pass& pass, Arena& arena, Operand what,
                               const TensorView& values, const TensorView& scale_1) const;
  // Does the same, and pass.fp8.report counts it.
  kernels::Fp8Matrix reported(Pass& pass, Arena& arena, Operand what,
                              const TensorView& values, const TensorView& scale_1) const;
  // With one scale, in one read of the values: their codes, their magnitudes where
  // unseen() says so, and the codes of the transposed matrix if `turned` is given. It is
  // written, and its codes are taken from `arena`.
  kernels::Fp8Matrix reported_once(Pass& pass, Arena& arena, Operand what,
                                   const TensorView& values, const TensorView& scale_1,
                                   kernels::Fp8Matrix* turned = nullptr) const;
  // Makes the codes of the transposed matrix.
  kernels::Fp8Matrix quantized_transposed(Pass& pass, Arena& arena, Operand what,
                                          const TensorView& values,
                                          const TensorView& scale_1) const;

 private:
  const KeptCodes& kept_codes(Pass& pass) const;
  kernels::Fp8Matrix take(Arena& arena, Operand what, const Shape& shape,
                          const TensorView& scale_1) const;

  const Param& weight_;
  LinearPrecision precision_;
  LinearScales* scales_ = nullptr;
  KeptCodes* kept_ = nullptr;
  const parallel::ExpertDispatch* dispatch_ = nullptr;
};

}  // namespace trireme::nn
