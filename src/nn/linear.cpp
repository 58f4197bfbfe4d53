// Linear: the three products, in the activations' type or in FP8.
// SPDX-License-Identifier: Apache-2.0
#include "nn/linear.hpp"

#include "kernels/gemm_codes.hpp"

namespace trireme::nn {

using kernels::Fp8Matrix;

namespace {

Fp8Matrix rows_of(Fp8Matrix x, const Range& rows) {
  if (x.codes.empty()) return x;
  x.codes = x.codes.rows(rows.begin, rows.count());
  if (x.scaling != kernels::Fp8Scaling::tensor)
    x.scales = x.scales.columns(rows.begin, rows.count());
  return x;
}

// Products want scales that lie densely, which those of some rows do not.
Fp8Matrix with_dense_scales(Pass& pass, Fp8Matrix x) {
  if (x.scaling == kernels::Fp8Scaling::tensor || x.scales.is_dense()) return x;
  const TensorView dense =
      pass.scratch.take(DType::f32, x.scales.shape(), "linear.scales");
  kernels::copy(pass.stream, x.scales, dense);
  x.scales = dense;
  return x;
}

}  // namespace

TensorView in_type(Pass& pass, const TensorView& weight, DType type) {
  if (weight.empty() || weight.dtype() == type) return weight;
  const TensorView converted = pass.scratch.take(type, weight.shape(), "weight");
  kernels::copy(pass.stream, weight, converted);
  return converted;
}

void Linear::collect(std::vector<Param*>& params) {
  weight.takes_codes = true;
  params.push_back(&weight);
  adapter.collect(params);
}

Linear::Input Linear::Input::rows(const Range& rows) const {
  return {x_TI.rows(rows.begin, rows.count()), rows_of(x, rows), weight};
}

Linear::Input Linear::input(Pass& pass, bool cut, const TensorView& x_TI,
                            Saved& saved) const {
  return cut && operands.fp8() ? codes(pass, x_TI, saved) : Input{x_TI};
}

Linear::Input Linear::codes(Pass& pass, const TensorView& x_TI, Saved& saved) const {
  Input input{x_TI};
  if (operands.one_scale())
    saved.input_scale_1 = operands.scale_before_codes(
        pass, Operand::input, x_TI, pass.saved.take(DType::f32, {1}, "linear.scale"));
  operands.weight_scale(pass);  // before the codes of x, which may agree on a scale
  input.x = operands.one_scale()
                ? operands.reported_once(pass, pass.scratch, Operand::input, x_TI,
                                         saved.input_scale_1)
                : operands.reported(pass, pass.scratch, Operand::input, x_TI, {});
  input.weight = operands.weight_codes(pass);
  return input;
}

void Linear::forward(Pass& pass, const TensorView& x_TI, const TensorView& bias_O,
                     const TensorView& y_TO, Saved& saved) const {
  forward(pass, Input{x_TI}, bias_O, y_TO, saved);
}

void Linear::forward(Pass& pass, const Input& x, const TensorView& bias_O,
                     const TensorView& y_TO, Saved& saved) const {
  const bool weighs = adapter.has_magnitudes();
  multiply(pass, x, weighs ? TensorView() : bias_O, y_TO, saved);
  adapter.forward(pass, x.x_TI, y_TO);
  if (!weighs) return;
  const ArenaScope scope(pass.scratch);
  adapter.weigh(pass, adapter.lengths(pass, pass.scratch, x.x_TI.dtype()), y_TO, y_TO);
  if (!bias_O.empty())
    kernels::add_to_rows(pass.stream, in_type(pass, bias_O, y_TO.dtype()), y_TO);
}

void Linear::multiply(Pass& pass, const Input& input, const TensorView& bias_O,
                      const TensorView& y_TO, Saved& saved) const {
  using kernels::Accumulate, kernels::Transpose;
  const TensorView& x_TI = input.x_TI;
  const DType type = x_TI.dtype();
  if (weight.codes != nullptr) {
    const ArenaScope scope(pass.scratch);
    kernels::gemm_codes(pass.stream, y_TO, x_TI, *weight.codes,
                        in_type(pass, bias_O, type));
    return;
  }
  if (!operands.fp8()) {
    const ArenaScope scope(pass.scratch);
    linear(pass.stream, x_TI, in_type(pass, weight.value, type),
           in_type(pass, bias_O, type), y_TO);
    return;
  }
  const ArenaScope scope(pass.scratch);
  const Input all = input.x.codes.empty() ? codes(pass, x_TI, saved) : input;
  const Fp8Matrix x = with_dense_scales(pass, all.x);
  if (!bias_O.empty()) {  // on every row: a product of no columns
    const TensorView none_O1 = pass.scratch.take(type, {y_TO.dim(1), 1}, "linear.none");
    kernels::gemm(pass.stream, y_TO, x_TI.columns(0, 0), Transpose::no,
                  none_O1.columns(0, 0), Transpose::yes, Accumulate::no,
                  in_type(pass, bias_O, type));
  }
  kernels::gemm_fp8(pass.stream, y_TO, x, all.weight,
                    bias_O.empty() ? Accumulate::no : Accumulate::yes,
                    kernels::Fp8Sums::fast);
}

void Linear::forward_activated(Pass& pass, Activation activation, const TensorView& x_TI,
                               const TensorView& bias_O, const TensorView& u_TO,
                               const TensorView& y_TO, Saved& saved) const {
  using kernels::Transpose;
  if (operands.fp8() || adapter.attached() || weight.codes != nullptr) {
    forward(pass, x_TI, bias_O, u_TO, saved);
    kernels::activate(pass.stream, activation, u_TO, y_TO);
    return;
  }
  const ArenaScope scope(pass.scratch);
  const DType type = x_TI.dtype();
  const TensorView weight_OI = in_type(pass, weight.value, type);
  kernels::gemm_activate(pass.stream, activation, y_TO, u_TO, x_TI, Transpose::no,
                         weight_OI, Transpose::yes, in_type(pass, bias_O, type));
}

Linear::Gradient Linear::output_gradient(Pass& pass, const TensorView& dy_TO) const {
  Gradient dy{dy_TO, {}, {}, {}};
  if (adapter.has_magnitudes()) {
    dy.output_TO = dy_TO;
    dy.lengths_O = adapter.lengths(pass, pass.kept(), dy_TO.dtype());
    dy.dy_TO = pass.kept().take(dy_TO.dtype(), dy_TO.shape(), "linear.weighed");
    adapter.weigh(pass, dy.lengths_O, dy_TO, dy.dy_TO);
  }
  dy.du_TR = adapter.output_gradient(pass, dy.dy_TO);
  if (!operands.fp8()) return dy;
  constexpr Operand what = Operand::output_gradient;
  if (!operands.one_scale()) {
    dy.fp8 = operands.reported(pass, pass.kept(), what, dy_TO, {});
    return dy;
  }
  dy.scale_1 = operands.scale_before_codes(
      pass, what, dy_TO, pass.kept().take(DType::f32, {1}, "linear.scale"));
  dy.fp8 = operands.reported_once(pass, pass.kept(), what, dy_TO, dy.scale_1,
                                  weight.frozen ? nullptr : &dy.turned);
  return dy;
}

Linear::Gradient Linear::Gradient::rows(const Range& rows) const {
  if (rows.begin == 0 && rows.end == dy_TO.dim(0)) return *this;
  return {dy_TO.rows(rows.begin, rows.count()),
          rows_of(fp8, rows),
          scale_1,
          {},
          du_TR.empty() ? du_TR : du_TR.rows(rows.begin, rows.count()),
          output_TO.empty() ? output_TO : output_TO.rows(rows.begin, rows.count()),
          lengths_O,
          weight};
}

Linear::Gradient Linear::cut_gradient(Pass& pass, bool cut, Gradient dy) const {
  if (cut && operands.fp8()) dy.weight = operands.weight_codes_transposed(pass);
  return dy;
}

void Linear::input_gradient(Pass& pass, const Gradient& dy, const TensorView& dx_TI,
                            kernels::Accumulate accumulate) const {
  multiply_gradient(pass, dy, dx_TI, accumulate);
  adapter.input_gradient(pass, dy.du_TR, dx_TI);
}

void Linear::multiply_gradient(Pass& pass, const Gradient& dy, const TensorView& dx_TI,
                               kernels::Accumulate accumulate) const {
  using kernels::Transpose;
  const ArenaScope scope(pass.scratch);
  if (!operands.fp8()) {
    kernels::gemm(pass.stream, dx_TI, dy.dy_TO, Transpose::no,
                  in_type(pass, weight.value, dy.dy_TO.dtype()), Transpose::no,
                  accumulate);
    return;
  }
  kernels::gemm_fp8(
      pass.stream, dx_TI, with_dense_scales(pass, dy.fp8),
      dy.weight.codes.empty() ? operands.weight_codes_transposed(pass) : dy.weight,
      accumulate);
}

void Linear::activated_input_gradient(Pass& pass, Activation activation,
                                      const Gradient& dy, const TensorView& u_TI,
                                      const TensorView& du_TI) const {
  using kernels::Transpose;
  if (operands.fp8() || adapter.attached()) {
    input_gradient(pass, dy, du_TI);
    kernels::activate_backward(pass.stream, activation, du_TI, u_TI, du_TI);
    return;
  }
  const ArenaScope scope(pass.scratch);
  kernels::gemm_activate_backward(
      pass.stream, activation, du_TI, u_TI, dy.dy_TO, Transpose::no,
      in_type(pass, weight.value, dy.dy_TO.dtype()), Transpose::no);
}

void Linear::post_gradients(Pass& pass, const Gradient& dy, const TensorView& x_TI,
                            const Saved& saved, Param& bias) {
  const bool has_bias = bias.shape.rank() > 0;
  const bool together = has_bias && !weight.frozen && !bias.frozen && !operands.fp8();
  if (together) {
    pass.weight_gradients.post(
        pass.stream, weight,
        [this, dy_TO = dy.dy_TO, x_TI, &bias](Stream& on, kernels::Accumulate how) {
          contribute(on, bias, [&](Stream&) {
            kernels::gemm_column_sums(on, weight.gradient, bias.gradient, dy_TO, x_TI,
                                      how);
          });
        });
  } else {
    post_weight_gradient(pass, dy, x_TI, saved);
  }
  if (!has_bias) return;
  pass.weight_gradients.post(pass.stream, bias,
                             [dy_TO = dy.output(), together, &bias](Stream& on) {
                               if (!together)
                                 kernels::add_column_sums(on, dy_TO, bias.gradient);
                             });
}

void Linear::post_magnitudes(Pass& pass, const Gradient& dy, const TensorView& x_TI) {
  const ArenaScope scope(pass.scratch);
  const TensorView v_TO =
      pass.scratch.take(dy.dy_TO.dtype(), dy.dy_TO.shape(), "linear.unweighed");
  Saved none;
  multiply(pass, Input{x_TI}, {}, v_TO, none);
  adapter.forward(pass, x_TI, v_TO);
  adapter.post_magnitudes(pass, dy.lengths_O, dy.output_TO, v_TO);
}

void Linear::post_weight_gradient(Pass& pass, const Gradient& dy, const TensorView& x_TI,
                                  const Saved& saved) {
  adapter.post_gradients(pass, dy.du_TR, dy.dy_TO, x_TI);
  if (adapter.has_magnitudes()) post_magnitudes(pass, dy, x_TI);
  if (weight.frozen) return;
  if (!operands.fp8()) {
    pass.weight_gradients.post(
        pass.stream, weight,
        [this, dy_TO = dy.dy_TO, x_TI](Stream& on, kernels::Accumulate how) {
          linear_weight_gradient(on, dy_TO, x_TI, weight.gradient, how);
        });
    return;
  }
  Arena& kept = pass.kept();
  const Fp8Matrix dy_OT = operands.one_scale()
                              ? dy.turned
                              : operands.quantized_transposed(
                                    pass, kept, Operand::output_gradient, dy.dy_TO, {});
  const Fp8Matrix x_IT = operands.quantized_transposed(pass, kept, Operand::input, x_TI,
                                                       saved.input_scale_1);
  pass.weight_gradients.post(pass.stream, weight,
                             [this, dy_OT, x_IT](Stream& on, kernels::Accumulate how) {
                               kernels::gemm_fp8(on, weight.gradient, dy_OT, x_IT, how);
                             });
}

}  // namespace trireme::nn
