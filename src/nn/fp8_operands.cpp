// Fp8Operands: scales from history or from the values, and codes.
// SPDX-License-Identifier: Apache-2.0
#include "nn/fp8_operands.hpp"

#include "kernels/elementwise.hpp"
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

kernels::Fp8Format Fp8Operands::format_of(Operand what) const {
  return of_operand(precision_, what).type == DType::e5m2 ? kernels::Fp8Format::e5m2
                                                          : kernels::Fp8Format::e4m3;
}

// All experts have the layer's scale.
void Fp8Operands::agree(Pass& pass, Operand what, const TensorView& amax_1) const {
  if (pass.fp8.amax_region != nullptr)
    pass.fp8.amax_region->agree(pass.stream, pass.scratch, amax_1);
  if (what != Operand::weight || dispatch_ == nullptr) return;
  const ArenaScope scope(pass.scratch);
  const TensorView all_P =
      pass.scratch.take(DType::f32, {dispatch_->sources()}, "experts.amax");
  dispatch_->from_each(pass.stream, amax_1, all_P);
  kernels::amax(pass.stream, all_P, amax_1);
}

TensorView Fp8Operands::scale_from_history(Pass& pass, Operand what,
                                           const TensorView& values) const {
  require(scales_ != nullptr, "a linear layer in FP8 has no scales");
  if (of_operand(precision_, what).scaling != Scaling::delayed) return {};
  if (pass.fp8.training)
    kernels::amax_so_far(pass.stream, values, row_of(scales_->amax_3, what));
  if (!scales_->from_history[static_cast<std::size_t>(what)]) return {};
  return row_of(scales_->scale_3, what);
}

// From the history, or else of the values themselves, in buffer_1.
TensorView Fp8Operands::scale_of(Pass& pass, Operand what, const TensorView& values,
                                 const TensorView& buffer_1) const {
  const TensorView known_1 = scale_from_history(pass, what, values);
  if (!known_1.empty()) return known_1;
  const ArenaScope scope(pass.scratch);
  const TensorView amax_1 = pass.scratch.take(DType::f32, {1}, "linear.amax");
  kernels::amax(pass.stream, values, amax_1);
  agree(pass, what, amax_1);
  const bool codes = what == Operand::weight && precision_.weight_was_fp8;
  kernels::scale_of_amax(
      pass.stream, amax_1, format_of(what), buffer_1,
      codes ? kernels::ScaleSteps::powers_of_two : kernels::ScaleSteps::any);
  return buffer_1;
}

TensorView Fp8Operands::unseen(const Pass& pass, Operand what) const {
  const bool waits = of_operand(precision_, what).scaling == Scaling::delayed &&
                     scales_->from_history[static_cast<std::size_t>(what)];
  return waits && pass.fp8.training ? row_of(scales_->amax_3, what) : TensorView();
}

TensorView Fp8Operands::scale_before_codes(Pass& pass, Operand what,
                                           const TensorView& values,
                                           const TensorView& buffer_1) const {
  require(scales_ != nullptr, "a linear layer in FP8 has no scales");
  if (!unseen(pass, what).empty()) return row_of(scales_->scale_3, what);
  return scale_of(pass, what, values, buffer_1);
}

// Made once for each change of the weights.
TensorView Fp8Operands::weight_scale(Pass& pass) const {
  if (!precision_.one_scale()) return {};
  const TensorView scale_1 = row_of(scales_->scale_3, Operand::weight);
  if (!scales_->weight_scaled) scale_of(pass, Operand::weight, weight_.value, scale_1);
  scales_->weight_scaled = true;
  return scale_1;
}

Fp8Matrix Fp8Operands::form_of(Operand what) const {
  Fp8Matrix x;
  x.format = format_of(what);
  x.scaling = scaling_of(of_operand(precision_, what), what);
  if (what == Operand::weight && precision_.weight_was_fp8)
    x.steps = kernels::ScaleSteps::powers_of_two;
  return x;
}

// Made in the first microbatch that asks, both orders at once: one read of the weight
// where a tensor has one scale.
const KeptCodes& Fp8Operands::kept_codes(Pass& pass) const {
  const TensorView scale_1 = weight_scale(pass);
  if (kept_->made) return *kept_;
  const TensorView& values = weight_.value;
  if (precision_.one_scale()) {
    kept_->codes.scales = kept_->turned.scales = scale_1;
    kernels::quantize_and_transpose(pass.stream, values, kept_->codes,
                                    kept_->turned.codes, {});
  } else {
    const ArenaScope scope(pass.scratch);
    const TensorView turned = pass.scratch.take(
        values.dtype(), {values.dim(1), values.dim(0)}, "linear.turned");
    kernels::quantize(pass.stream, values, kept_->codes);
    kernels::transpose(pass.stream, values, turned);
    kernels::quantize(pass.stream, turned, kept_->turned);
  }
  kept_->made = true;
  return *kept_;
}

Fp8Matrix Fp8Operands::weight_codes(Pass& pass) const {
  if (kept_ == nullptr)
    return reported(pass, pass.scratch, Operand::weight, weight_.value,
                    weight_scale(pass));
  const Fp8Matrix& codes = kept_codes(pass).codes;
  if (pass.fp8.report != nullptr)
    pass.fp8.report->add(pass.stream, Operand::weight, weight_.value, codes);
  return codes;
}

Fp8Matrix Fp8Operands::weight_codes_transposed(Pass& pass) const {
  if (kept_ != nullptr) return kept_codes(pass).turned;
  return quantized_transposed(pass, pass.scratch, Operand::weight, weight_.value,
                              weight_scale(pass));
}

Fp8Matrix Fp8Operands::take(Arena& arena, Operand what, const Shape& shape,
                            const TensorView& scale_1) const {
  Fp8Matrix x = form_of(what);
  x.codes = arena.take(DType::u8, shape, "linear.codes");
  x.scales = precision_.one_scale()
                 ? scale_1
                 : arena.take(DType::f32,
                              kernels::fp8_scales_shape(x.scaling, shape[0], shape[1]),
                              "linear.scales");
  return x;
}

Fp8Matrix Fp8Operands::quantized(Pass& pass, Arena& arena, Operand what,
                                 const TensorView& values,
                                 const TensorView& scale_1) const {
  const Fp8Matrix result = take(arena, what, values.shape(), scale_1);
  kernels::quantize(pass.stream, values, result);
  return result;
}

Fp8Matrix Fp8Operands::reported(Pass& pass, Arena& arena, Operand what,
                                const TensorView& values,
                                const TensorView& scale_1) const {
  const Fp8Matrix result = quantized(pass, arena, what, values, scale_1);
  if (pass.fp8.report != nullptr) pass.fp8.report->add(pass.stream, what, values, result);
  return result;
}

Fp8Matrix Fp8Operands::reported_once(Pass& pass, Arena& arena, Operand what,
                                     const TensorView& values, const TensorView& scale_1,
                                     Fp8Matrix* turned) const {
  const Fp8Matrix result = take(arena, what, values.shape(), scale_1);
  if (turned != nullptr)
    *turned = take(arena, what, {values.dim(1), values.dim(0)}, scale_1);
  kernels::quantize_and_transpose(pass.stream, values, result,
                                  turned != nullptr ? turned->codes : TensorView(),
                                  unseen(pass, what));
  if (pass.fp8.report != nullptr) pass.fp8.report->add(pass.stream, what, values, result);
  return result;
}

// With one scale codes are those of the values, otherwise not: their blocks lie the other
// way.
Fp8Matrix Fp8Operands::quantized_transposed(Pass& pass, Arena& arena, Operand what,
                                            const TensorView& values,
                                            const TensorView& scale_1) const {
  const Shape shape = {values.dim(1), values.dim(0)};
  const Fp8Matrix result = take(arena, what, shape, scale_1);
  if (precision_.one_scale()) {
    Fp8Matrix only_turned = result;
    only_turned.codes = {};
    kernels::quantize_and_transpose(pass.stream, values, only_turned, result.codes, {});
    return result;
  }
  const ArenaScope scope(pass.scratch);
  const TensorView turned = pass.scratch.take(values.dtype(), shape, "linear.turned");
  kernels::transpose(pass.stream, values, turned);
  kernels::quantize(pass.stream, turned, result);
  return result;
}

}  // namespace trireme::nn
