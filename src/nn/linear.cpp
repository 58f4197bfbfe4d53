// Linear: the three products, in the activations' type or in FP8.
// SPDX-License-Identifier: Apache-2.0
#include "nn/linear.hpp"

#include "kernels/activation.hpp"
#include "kernels/quantize.hpp"
#include "nn/fp8_report.hpp"
#include "parallel/amax_region.hpp"

namespace trireme::nn {
namespace {

using kernels::Fp8Matrix;

const Precision& of_operand(const LinearPrecision& precision, Operand what) {
  return what == Operand::output_gradient ? precision.backward : precision.forward;
}

kernels::Fp8Scaling scaling_of(const Precision& precision, Operand what) {
  using kernels::Fp8Scaling;
  if (precision.scaling == Scaling::mx) return Fp8Scaling::row_32;
  if (precision.scaling != Scaling::blocks) return Fp8Scaling::tensor;
  return what == Operand::weight ? Fp8Scaling::block_128 : Fp8Scaling::row_128;
}

TensorView row_of(const TensorView& rows_3, Operand what) {
  return rows_3.rows(static_cast<std::int64_t>(what), 1);
}

}  // namespace

TensorView in_type(Pass& pass, const TensorView& weight, DType type) {
  if (weight.empty() || weight.dtype() == type) return weight;
  const TensorView converted = pass.scratch.take(type, weight.shape(), "weight");
  kernels::copy(pass.stream, weight, converted);
  return converted;
}

kernels::Fp8Format Linear::format_of(Operand what) const {
  return of_operand(precision_, what).type == DType::e5m2 ? kernels::Fp8Format::e5m2
                                                          : kernels::Fp8Format::e4m3;
}

void Linear::agree(Pass& pass, const TensorView& amax_1) const {
  if (pass.amax_region != nullptr)
    pass.amax_region->agree(pass.stream, pass.scratch, amax_1);
}

TensorView Linear::scale_from_history(Pass& pass, Operand what,
                                      const TensorView& values) const {
  require(scales_ != nullptr, "a linear layer in FP8 has no scales");
  if (of_operand(precision_, what).scaling != Scaling::delayed) return {};
  if (pass.training)
    kernels::amax_so_far(pass.stream, values, row_of(scales_->amax_3, what));
  if (!scales_->from_history[static_cast<std::size_t>(what)]) return {};
  return row_of(scales_->scale_3, what);
}

// From the history, or else of the values themselves, in room_1.
TensorView Linear::scale_of(Pass& pass, Operand what, const TensorView& values,
                            const TensorView& room_1) const {
  const TensorView known_1 = scale_from_history(pass, what, values);
  if (!known_1.empty()) return known_1;
  const ArenaScope scope(pass.scratch);
  const TensorView amax_1 = pass.scratch.take(DType::f32, {1}, "linear.amax");
  kernels::amax(pass.stream, values, amax_1);
  agree(pass, amax_1);
  const bool codes = what == Operand::weight && precision_.weight_was_fp8;
  kernels::scale_of_amax(
      pass.stream, amax_1, format_of(what), room_1,
      codes ? kernels::ScaleSteps::powers_of_two : kernels::ScaleSteps::any);
  return room_1;
}

// Made once for each change of the weights.
TensorView Linear::weight_scale(Pass& pass) const {
  if (!precision_.one_scale()) return {};
  const TensorView scale_1 = row_of(scales_->scale_3, Operand::weight);
  if (!scales_->weight_scaled) scale_of(pass, Operand::weight, weight.value, scale_1);
  scales_->weight_scaled = true;
  return scale_1;
}

Fp8Matrix Linear::room(Arena& arena, Operand what, const Shape& shape,
                       const TensorView& scale_1) const {
  Fp8Matrix x;
  x.format = format_of(what);
  x.scaling = scaling_of(of_operand(precision_, what), what);
  if (what == Operand::weight && precision_.weight_was_fp8)
    x.steps = kernels::ScaleSteps::powers_of_two;
  x.codes = arena.take(DType::u8, shape, "linear.codes");
  x.scales = precision_.one_scale()
                 ? scale_1
                 : arena.take(DType::f32,
                              kernels::fp8_scales_shape(x.scaling, shape[0], shape[1]),
                              "linear.scales");
  return x;
}

Fp8Matrix Linear::quantized(Pass& pass, Arena& arena, Operand what,
                            const TensorView& values, const TensorView& scale_1) const {
  const Fp8Matrix result = room(arena, what, values.shape(), scale_1);
  kernels::quantize(pass.stream, values, result);
  return result;
}

Fp8Matrix Linear::reported(Pass& pass, Arena& arena, Operand what,
                           const TensorView& values, const TensorView& scale_1) const {
  const Fp8Matrix result = quantized(pass, arena, what, values, scale_1);
  if (pass.fp8_report != nullptr) pass.fp8_report->add(pass.stream, what, values, result);
  return result;
}

// With one scale the codes are transposed, otherwise the values: their blocks lie the
// other way.
Fp8Matrix Linear::quantized_transposed(Pass& pass, Arena& arena, Operand what,
                                       const TensorView& values,
                                       const TensorView& scale_1) const {
  const Shape shape = {values.dim(1), values.dim(0)};
  const Fp8Matrix result = room(arena, what, shape, scale_1);
  const ArenaScope scope(pass.scratch);
  if (precision_.one_scale()) {
    const Fp8Matrix codes = quantized(pass, pass.scratch, what, values, scale_1);
    kernels::transpose(pass.stream, codes.codes, result.codes);
    return result;
  }
  const TensorView turned = pass.scratch.take(values.dtype(), shape, "linear.turned");
  kernels::transpose(pass.stream, values, turned);
  kernels::quantize(pass.stream, turned, result);
  return result;
}

void Linear::forward(Pass& pass, const TensorView& x_TI, const TensorView& bias_O,
                     const TensorView& y_TO, Saved& saved) const {
  using kernels::Accumulate, kernels::Transpose;
  const DType type = x_TI.dtype();
  if (!precision_.fp8()) {
    const ArenaScope scope(pass.scratch);
    linear(pass.stream, x_TI, in_type(pass, weight.value, type),
           in_type(pass, bias_O, type), y_TO);
    return;
  }
  if (precision_.one_scale())
    saved.input_scale_1 = scale_of(pass, Operand::input, x_TI,
                                   pass.saved.take(DType::f32, {1}, "linear.scale"));
  const ArenaScope scope(pass.scratch);
  const TensorView weight_scale_1 = weight_scale(pass);
  const Fp8Matrix x =
      reported(pass, pass.scratch, Operand::input, x_TI, saved.input_scale_1);
  const Fp8Matrix w =
      reported(pass, pass.scratch, Operand::weight, weight.value, weight_scale_1);
  if (!bias_O.empty()) {  // on every row: a product of no columns
    const TensorView none_O1 = pass.scratch.take(type, {y_TO.dim(1), 1}, "linear.none");
    kernels::gemm(pass.stream, y_TO, x_TI.columns(0, 0), Transpose::no,
                  none_O1.columns(0, 0), Transpose::yes, Accumulate::no,
                  in_type(pass, bias_O, type));
  }
  kernels::gemm_fp8(pass.stream, y_TO, x, w,
                    bias_O.empty() ? Accumulate::no : Accumulate::yes);
}

void Linear::forward_gelu(Pass& pass, const TensorView& x_TI, const TensorView& bias_O,
                          const TensorView& u_TO, const TensorView& y_TO,
                          Saved& saved) const {
  if (precision_.fp8()) {
    forward(pass, x_TI, bias_O, u_TO, saved);
    kernels::gelu(pass.stream, u_TO, y_TO);
    return;
  }
  const ArenaScope scope(pass.scratch);
  const DType type = x_TI.dtype();
  linear_gelu(pass.stream, x_TI, in_type(pass, weight.value, type),
              in_type(pass, bias_O, type), u_TO, y_TO);
}

Linear::Gradient Linear::output_gradient(Pass& pass, const TensorView& dy_TO) const {
  Gradient dy{dy_TO, {}, {}};
  if (!precision_.fp8()) return dy;
  if (precision_.one_scale())
    dy.scale_1 = scale_of(pass, Operand::output_gradient, dy_TO,
                          pass.kept().take(DType::f32, {1}, "linear.scale"));
  dy.fp8 = reported(pass, pass.kept(), Operand::output_gradient, dy_TO, dy.scale_1);
  return dy;
}

Linear::Gradient Linear::Gradient::rows(const Range& rows) const {
  if (rows.begin == 0 && rows.end == dy_TO.dim(0)) return *this;
  require(fp8.codes.empty(), "an FP8 gradient is not cut by rows");
  return {dy_TO.rows(rows.begin, rows.count()), {}, {}};
}

void Linear::input_gradient(Pass& pass, const Gradient& dy, const TensorView& dx_TI,
                            kernels::Accumulate accumulate) const {
  using kernels::Transpose;
  const ArenaScope scope(pass.scratch);
  if (!precision_.fp8()) {
    kernels::gemm(pass.stream, dx_TI, dy.dy_TO, Transpose::no,
                  in_type(pass, weight.value, dy.dy_TO.dtype()), Transpose::no,
                  accumulate);
    return;
  }
  kernels::gemm_fp8(pass.stream, dx_TI, dy.fp8,
                    quantized_transposed(pass, pass.scratch, Operand::weight,
                                         weight.value, weight_scale(pass)),
                    accumulate);
}

void Linear::gelu_input_gradient(Pass& pass, const Gradient& dy, const TensorView& u_TI,
                                 const TensorView& du_TI) const {
  if (precision_.fp8()) {
    input_gradient(pass, dy, du_TI);
    kernels::gelu_backward(pass.stream, du_TI, u_TI, du_TI);
    return;
  }
  const ArenaScope scope(pass.scratch);
  linear_gelu_input_gradient(pass.stream, dy.dy_TO,
                             in_type(pass, weight.value, dy.dy_TO.dtype()), u_TI, du_TI);
}

void Linear::post_gradients(Pass& pass, const Gradient& dy, const TensorView& x_TI,
                            const Saved& saved, Param& bias) {
  const bool has_bias = bias.shape.rank() > 0;
  const bool together = has_bias && !weight.frozen && !bias.frozen && !precision_.fp8();
  if (together) {
    pass.weight_gradients.post(
        pass.stream, weight, [this, dy_TO = dy.dy_TO, x_TI, &bias](Stream& on) {
          kernels::gemm_column_sums(on, weight.gradient, bias.gradient, dy_TO, x_TI);
        });
  } else {
    post_weight_gradient(pass, dy, x_TI, saved);
  }
  if (!has_bias) return;
  pass.weight_gradients.post(pass.stream, bias,
                             [dy_TO = dy.dy_TO, together, &bias](Stream& on) {
                               if (!together)
                                 kernels::add_column_sums(on, dy_TO, bias.gradient);
                             });
}

void Linear::post_weight_gradient(Pass& pass, const Gradient& dy, const TensorView& x_TI,
                                  const Saved& saved) {
  if (weight.frozen) return;
  if (!precision_.fp8()) {
    pass.weight_gradients.post(pass.stream, weight,
                               [this, dy_TO = dy.dy_TO, x_TI](Stream& on) {
                                 linear_weight_gradient(on, dy_TO, x_TI, weight.gradient);
                               });
    return;
  }
  Arena& kept = pass.kept();
  const Fp8Matrix dy_OT =
      quantized_transposed(pass, kept, Operand::output_gradient, dy.dy_TO, dy.scale_1);
  const Fp8Matrix x_IT =
      quantized_transposed(pass, kept, Operand::input, x_TI, saved.input_scale_1);
  pass.weight_gradients.post(pass.stream, weight, [this, dy_OT, x_IT](Stream& on) {
    kernels::gemm_fp8(on, weight.gradient, dy_OT, x_IT, kernels::Accumulate::yes);
  });
}

}  // namespace trireme::nn
