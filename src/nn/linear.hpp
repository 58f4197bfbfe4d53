// Linear: y = x W^T + bias and its gradients, in the types of a recipe.
// SPDX-License-Identifier: Apache-2.0
// Legend: T rows, I input width, O output width; weights are [out, in].
#pragma once

#include "base/split.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/gemm_epilogue.hpp"
#include "nn/adapter.hpp"
#include "nn/fp8_operands.hpp"

namespace trireme::nn {

using kernels::Activation;

// y_TO = x_TI W_OI^T (+ bias_O, which may be empty)
inline void linear(Stream& stream, const TensorView& x_TI, const TensorView& weight_OI,
                   const TensorView& bias_O, const TensorView& y_TO) {
  using kernels::Transpose;
  kernels::gemm(stream, y_TO, x_TI, Transpose::no, weight_OI, Transpose::yes,
                kernels::Accumulate::no, bias_O);
}

// dx_TI = dy_TO W_OI
inline void linear_input_gradient(Stream& stream, const TensorView& dy_TO,
                                  const TensorView& weight_OI, const TensorView& dx_TI) {
  using kernels::Transpose;
  kernels::gemm(stream, dx_TI, dy_TO, Transpose::no, weight_OI, Transpose::no);
}

// dW_OI = dy_TO^T x_TI, or += it
inline void linear_weight_gradient(Stream& stream, const TensorView& dy_TO,
                                   const TensorView& x_TI, const TensorView& dweight_OI,
                                   kernels::Accumulate accumulate) {
  using kernels::Transpose;
  kernels::gemm(stream, dweight_OI, dy_TO, Transpose::yes, x_TI, Transpose::no,
                accumulate);
}

// A weight in the type of activations: itself, or converted into pass.scratch. Empty
// stays empty.
TensorView in_type(Pass& pass, const TensorView& weight, DType type);

// With FP8 and one scale for a tensor: y = Q(x) Q(W)^T, dx = Q(dy) Q(W),
// dW += Q(dy)^T Q(x), where the three Q(.) are the same numbers wherever they occur. Sums
// are f32. T, I and O are multiples of 16 (T in backward only), of 32 with Scaling::mx.
//
// With scales of blocks these lie along the inner dimension of each product, and x and dy
// are quantized anew for dW: 1 x 128 of x and dy along I, O and, for dW, T; 128 x 128 of
// W, which has the same numbers in both products. Scaling::mx: 1 x 32 of each operand
// along the inner dimension. Blocks are those of this rank's part. Source: Micikevicius
// et al., "FP8 formats for deep learning", 2022; DeepSeek-AI, "DeepSeek-V3", 2024,
// section 3.3.2.
class Linear {
 public:
  Linear() = default;
  Linear(const Linear&) = delete;
  Linear& operator=(const Linear&) = delete;

  // Of one forward: the scale of x, if there is one.
  struct Saved {
    TensorView input_scale_1;
  };
  // x as products of some of its rows take it: where operands are FP8 with the codes of
  // all its rows, and of the weight.
  struct Input {
    TensorView x_TI;
    kernels::Fp8Matrix x{}, weight{};
    Input rows(const Range& rows) const;
  };
  // dy as the two products of backward take it.
  struct Gradient {
    TensorView dy_TO;
    kernels::Fp8Matrix fp8;
    TensorView scale_1;
    kernels::Fp8Matrix turned;  // codes of dy^T, with one scale, unless W is frozen
    TensorView du_TR{};         // of the adapter's inner values, if it is attached
    // With DoRA dy_TO is weighed; this is as it came, and lengths of rows of weights.
    TensorView output_TO{}, lengths_O{};
    kernels::Fp8Matrix weight{};  // of products of some rows: codes of the weight
    const TensorView& output() const { return output_TO.empty() ? dy_TO : output_TO; }
    Gradient rows(const Range& rows) const;
  };

  Param weight;
  Fp8Operands operands{weight};
  Adapter adapter{weight};  // adds to the products, in the type of activations

  // y_TO (written). bias_O may be empty. With FP8 collective over pass.fp8.amax_region.
  void forward(Pass& pass, const TensorView& x_TI, const TensorView& bias_O,
               const TensorView& y_TO, Saved& saved) const;
  void forward(Pass& pass, const Input& x, const TensorView& bias_O,
               const TensorView& y_TO, Saved& saved) const;
  // For products of some rows at a time: operands become codes here, once and as a whole,
  // so that bits are those of one product. Taken from pass.scratch. Without `cut` that is
  // left to the product.
  Input input(Pass& pass, bool cut, const TensorView& x_TI, Saved& saved) const;
  Gradient cut_gradient(Pass& pass, bool cut, Gradient dy) const;
  // The same with y_TO (written) = the activation, which is not gated, of u_TO, as one
  // product where the device has it.
  void forward_activated(Pass& pass, Activation activation, const TensorView& x_TI,
                         const TensorView& bias_O, const TensorView& u_TO,
                         const TensorView& y_TO, Saved& saved) const;
  // With FP8 taken from pass.kept(), and collective as forward().
  Gradient output_gradient(Pass& pass, const TensorView& dy_TO) const;
  // dx_TI = dy W, written, or added to.
  void input_gradient(Pass& pass, const Gradient& dy, const TensorView& dx_TI,
                      kernels::Accumulate accumulate = kernels::Accumulate::no) const;
  // du_TI = dy W times the derivative of the activation at u_TI, written.
  void activated_input_gradient(Pass& pass, Activation activation, const Gradient& dy,
                                const TensorView& u_TI, const TensorView& du_TI) const;
  // Posts dW += dy^T x. What it reads is taken from pass.kept().
  void post_weight_gradient(Pass& pass, const Gradient& dy, const TensorView& x_TI,
                            const Saved& saved);
  // The same, and the gradient of a bias behind it (which may have no elements), as one
  // product where both are wanted and the operands are not FP8.
  void post_gradients(Pass& pass, const Gradient& dy, const TensorView& x_TI,
                      const Saved& saved, Param& bias);
  // The weight and its adapter's matrices.
  void collect(std::vector<Param*>& params);

 private:
  Input codes(Pass& pass, const TensorView& x_TI, Saved& saved) const;
  void multiply(Pass& pass, const Input& x, const TensorView& bias_O,
                const TensorView& y_TO, Saved& saved) const;
  void multiply_gradient(Pass& pass, const Gradient& dy, const TensorView& dx_TI,
                         kernels::Accumulate accumulate) const;
  void post_magnitudes(Pass& pass, const Gradient& dy, const TensorView& x_TI);
};

}  // namespace trireme::nn
