// ExpertLinear: grouped products, or FP8 products part by part.
// SPDX-License-Identifier: Apache-2.0
#include "nn/expert_linear.hpp"

#include <algorithm>

#include "base/split.hpp"
#include "kernels/gemm_codes.hpp"
#include "kernels/moe.hpp"
#include "kernels/quantize.hpp"
#include "nn/linear.hpp"

namespace trireme::nn {
namespace {

using kernels::Fp8Matrix;

// Of every extent of a product of FP8 matrices, for any scaling.
constexpr std::int64_t multiple = mx_block;

TensorView part_of(const TensorView& x_P, std::int64_t source) {
  return x_P.empty() ? x_P : x_P.rows(source, 1);
}

}  // namespace

TensorView ExpertLinear::weight_of(std::int64_t expert) const {
  const std::int64_t O = weight.shape[0] / experts_;
  return weight.value.rows(expert * O, O);
}

// On meta there are no counts: one part with all rows, and what padding may add to any.
ExpertLinear::Parts ExpertLinear::parts(const Route& route, bool meta) const {
  const std::int64_t P = dispatch_->sources();
  Parts all;
  std::int64_t first = 0, padded_first = 0;
  const auto add = [&](std::int64_t expert, std::int64_t source, std::int64_t rows,
                       std::int64_t padded_rows) {
    all.push_back({expert, source, first, rows, padded_first, padded_rows});
    first += rows;
    padded_first += padded_rows;
  };
  if (meta) {
    add(0, 0, route.rows, divide_up(route.rows, multiple) * multiple);
    for (std::int64_t i = 0; i < 2 * experts_ * P; ++i) add(0, 0, 0, multiple);
    return all;
  }
  for (std::int64_t l = 0; l < experts_; ++l) {
    for (std::int64_t p = 0; p < P; ++p) {
      const auto at = static_cast<std::size_t>(p * experts_ + l);
      const std::int64_t rows =
          P == 1 ? route.rows_L[static_cast<std::size_t>(l)] : route.arriving_PL[at];
      if (rows > 0) add(l, p, rows, divide_up(rows, multiple) * multiple);
    }
  }
  return all;
}

TensorView ExpertLinear::padded(Pass& pass, const Parts& parts,
                                const TensorView& x_RI) const {
  const std::int64_t rows =
      parts.empty() ? 0 : parts.back().padded_first + parts.back().padded_rows;
  const TensorView x =
      pass.scratch.take(x_RI.dtype(), {rows, x_RI.dim(1)}, "experts.padded");
  kernels::fill(pass.stream, x, 0.0);
  for (const Part& part : parts)
    kernels::copy(pass.stream, x_RI.rows(part.first, part.rows),
                  x.rows(part.padded_first, part.rows));
  return x;
}

// Largest magnitudes go to the source ranks of their rows, where those of a microbatch
// are agreed on, and back to all that have rows of it.
TensorView ExpertLinear::scales_of(Pass& pass, const Parts& parts, Operand what,
                                   const TensorView& x_RI,
                                   const TensorView& buffer_P) const {
  Stream& stream = pass.stream;
  const std::int64_t P = dispatch_->sources();
  if (const TensorView known_1 = operands.scale_from_history(pass, what, x_RI);
      !known_1.empty()) {
    for (std::int64_t p = 0; p < P; ++p)
      kernels::copy(stream, known_1, buffer_P.rows(p, 1));
    return buffer_P;
  }
  const ArenaScope scope(pass.scratch);
  const TensorView amax_P = pass.scratch.take(DType::f32, {P}, "experts.amax");
  const TensorView returned_P = pass.scratch.take(DType::f32, {P}, "experts.returned");
  const TensorView amax_1 = pass.scratch.take(DType::f32, {1}, "experts.mine");
  kernels::fill(stream, amax_P, 0.0);
  for (const Part& part : parts)
    kernels::amax_so_far(stream, x_RI.rows(part.first, part.rows),
                         amax_P.rows(part.source, 1));
  dispatch_->to_each(stream, amax_P, returned_P);
  kernels::amax(stream, returned_P, amax_1);
  operands.agree(pass, what, amax_1);
  dispatch_->from_each(stream, amax_1, amax_P);
  for (std::int64_t p = 0; p < P; ++p)
    kernels::scale_of_amax(stream, amax_P.rows(p, 1), operands.format_of(what),
                           buffer_P.rows(p, 1));
  return buffer_P;
}

void ExpertLinear::multiply(Pass& pass, const Route& route, Operand what,
                            const TensorView& x_RI, const TensorView& scale_P,
                            bool transposed, const TensorView& y_RO) const {
  const ArenaScope scope(pass.scratch);
  const Parts all = parts(route, pass.stream.device().is_meta());
  const TensorView x = padded(pass, all, x_RI);
  const TensorView y =
      pass.scratch.take(y_RO.dtype(), {x.dim(0), y_RO.dim(1)}, "experts.product");
  const TensorView weight_scale_1 = operands.weight_scale(pass);
  Fp8Matrix w;
  std::int64_t expert = -1;
  const std::size_t empty = pass.scratch.mark();
  for (const Part& part : all) {
    if (part.expert != expert) {  // its weight lies below what its parts take
      pass.scratch.release(empty);
      expert = part.expert;
      w = transposed ? operands.quantized_transposed(pass, pass.scratch, Operand::weight,
                                                     weight_of(expert), weight_scale_1)
                     : operands.reported(pass, pass.scratch, Operand::weight,
                                         weight_of(expert), weight_scale_1);
    }
    const ArenaScope codes(pass.scratch);
    const Fp8Matrix a = operands.reported(pass, pass.scratch, what,
                                          x.rows(part.padded_first, part.padded_rows),
                                          part_of(scale_P, part.source));
    kernels::gemm_fp8(pass.stream, y.rows(part.padded_first, part.padded_rows), a, w,
                      kernels::Accumulate::no,
                      transposed ? kernels::Fp8Sums::exact : kernels::Fp8Sums::fast);
  }
  for (const Part& part : all)
    kernels::copy(pass.stream, y.rows(part.padded_first, part.rows),
                  y_RO.rows(part.first, part.rows));
}

void ExpertLinear::collect(std::vector<Param*>& params) {
  const std::int64_t O = experts_ > 0 ? weight.shape[0] / experts_ : 0;
  weight.takes_codes =
      O > 0 &&
      std::all_of(weight.boxes.begin(), weight.boxes.end(), [&](const NamedBox& box) {
        const std::int64_t begin = box.local_begin[0], last = begin + box.extent[0] - 1;
        return begin / O == last / O;
      });
  params.push_back(&weight);
  adapter.collect(params);
}

void ExpertLinear::forward(Pass& pass, const Route& route, const TensorView& x_RI,
                           const TensorView& y_RO, Saved& saved) const {
  multiply_forward(pass, route, x_RI, y_RO, saved);
  adapter.forward(pass, x_RI, y_RO, route.rows_L);
  if (!adapter.has_magnitudes()) return;
  const ArenaScope scope(pass.scratch);
  adapter.weigh(pass, adapter.lengths(pass, pass.scratch, x_RI.dtype()), y_RO, y_RO,
                route.rows_L);
}

void ExpertLinear::multiply_forward(Pass& pass, const Route& route,
                                    const TensorView& x_RI, const TensorView& y_RO,
                                    Saved& saved) const {
  if (weight.codes != nullptr) return multiply_codes(pass, route, x_RI, y_RO);
  if (!operands.fp8()) {
    const ArenaScope scope(pass.scratch);
    kernels::grouped_linear(pass.stream, route.rows_L, x_RI,
                            in_type(pass, weight.value, x_RI.dtype()), y_RO);
    return;
  }
  if (operands.one_scale()) {
    const TensorView buffer_P =
        pass.saved.take(DType::f32, {dispatch_->sources()}, "experts.scale");
    saved.input_scale_P = scales_of(pass, parts(route, pass.stream.device().is_meta()),
                                    Operand::input, x_RI, buffer_P);
  }
  multiply(pass, route, Operand::input, x_RI, saved.input_scale_P, false, y_RO);
}

void ExpertLinear::multiply_codes(Pass& pass, const Route& route, const TensorView& x_RI,
                                  const TensorView& y_RO) const {
  if (pass.stream.device().is_meta()) {
    kernels::grouped_linear(pass.stream, route.rows_L, x_RI, weight.codes->numbers, y_RO);
    return;
  }
  const std::int64_t O = weight.shape[0] / experts_;
  std::int64_t first = 0, expert = 0;
  for (const std::int64_t rows : route.rows_L) {
    if (rows > 0)
      kernels::gemm_codes(pass.stream, y_RO.rows(first, rows), x_RI.rows(first, rows),
                          *weight.codes, {}, expert * O);
    first += rows;
    ++expert;
  }
}

ExpertLinear::Gradient ExpertLinear::output_gradient(Pass& pass, const Route& route,
                                                     const TensorView& dy_RO) const {
  Gradient dy{dy_RO, {}};
  if (adapter.has_magnitudes()) {
    dy.output_RO = dy_RO;
    dy.lengths_O = adapter.lengths(pass, pass.kept(), dy_RO.dtype());
    dy.dy_RO = pass.kept().take(dy_RO.dtype(), dy_RO.shape(), "experts.weighed");
    adapter.weigh(pass, dy.lengths_O, dy_RO, dy.dy_RO, route.rows_L);
  }
  dy.du_RR = adapter.output_gradient(pass, dy.dy_RO, route.rows_L);
  if (!operands.one_scale()) return dy;
  const TensorView buffer_P =
      pass.kept().take(DType::f32, {dispatch_->sources()}, "experts.scale");
  dy.scale_P = scales_of(pass, parts(route, pass.stream.device().is_meta()),
                         Operand::output_gradient, dy_RO, buffer_P);
  return dy;
}

void ExpertLinear::input_gradient(Pass& pass, const Route& route, const Gradient& dy,
                                  const TensorView& dx_RI) const {
  multiply_gradient(pass, route, dy, dx_RI);
  adapter.input_gradient(pass, dy.du_RR, dx_RI, route.rows_L);
}

void ExpertLinear::multiply_gradient(Pass& pass, const Route& route, const Gradient& dy,
                                     const TensorView& dx_RI) const {
  if (!operands.fp8()) {
    const ArenaScope scope(pass.scratch);
    kernels::grouped_linear_input_gradient(pass.stream, route.rows_L, dy.dy_RO,
                                           in_type(pass, weight.value, dy.dy_RO.dtype()),
                                           dx_RI);
    return;
  }
  multiply(pass, route, Operand::output_gradient, dy.dy_RO, dy.scale_P, true, dx_RI);
}

void ExpertLinear::post_magnitudes(Pass& pass, const Route& route, const Gradient& dy,
                                   const TensorView& x_RI) {
  const ArenaScope scope(pass.scratch);
  const TensorView v_RO =
      pass.scratch.take(dy.dy_RO.dtype(), dy.dy_RO.shape(), "experts.unweighed");
  Saved none;
  multiply_forward(pass, route, x_RI, v_RO, none);
  adapter.forward(pass, x_RI, v_RO, route.rows_L);
  adapter.post_magnitudes(pass, dy.lengths_O, dy.output_RO, v_RO, route.rows_L);
}

void ExpertLinear::post_weight_gradient(Pass& pass, const Route& route,
                                        const Gradient& dy, const TensorView& x_RI,
                                        const Saved& saved) {
  adapter.post_gradients(pass, dy.du_RR, dy.dy_RO, x_RI, route.rows_L);
  if (adapter.has_magnitudes()) post_magnitudes(pass, route, dy, x_RI);
  if (weight.frozen) return;
  if (!operands.fp8()) {
    pass.weight_gradients.post(
        pass.stream, weight,
        [this, rows_L = route.rows_L, dy_RO = dy.dy_RO, x_RI](Stream& on) {
          kernels::grouped_linear_weight_gradient(on, rows_L, dy_RO, x_RI,
                                                  weight.gradient);
        });
    return;
  }
  struct Product {
    std::int64_t expert;
    Fp8Matrix dy_OT, x_IT;
  };
  const Parts all = parts(route, pass.stream.device().is_meta());
  const TensorView x = padded(pass, all, x_RI), dy_all = padded(pass, all, dy.dy_RO);
  std::vector<Product> products;
  for (const Part& part : all) {
    const auto codes = [&](Operand what, const TensorView& values,
                           const TensorView& scale_P) {
      return operands.quantized_transposed(
          pass, pass.kept(), what, values.rows(part.padded_first, part.padded_rows),
          part_of(scale_P, part.source));
    };
    const Fp8Matrix dy_OT = codes(Operand::output_gradient, dy_all, dy.scale_P);
    products.push_back(
        {part.expert, dy_OT, codes(Operand::input, x, saved.input_scale_P)});
  }
  pass.weight_gradients.post(
      pass.stream, weight, [this, products = std::move(products)](Stream& on) {
        const std::int64_t O = weight.shape[0] / experts_;
        for (const Product& p : products)
          kernels::gemm_fp8(on, weight.gradient.rows(p.expert * O, O), p.dy_OT, p.x_IT,
                            kernels::Accumulate::yes);
      });
}

void ExpertLinear::add_bias(Pass& pass, const Route& route, const TensorView& bias,
                            const TensorView& y_RO) const {
  const ArenaScope scope(pass.scratch);
  const TensorView bias_LO = in_type(pass, bias, y_RO.dtype());
  const std::int64_t O = y_RO.dim(1);
  std::int64_t first = 0;
  for (std::size_t l = 0; l < route.rows_L.size(); ++l) {
    const std::int64_t rows = route.rows_L[l];
    if (rows > 0)
      kernels::add_to_rows(pass.stream, bias_LO.rows(static_cast<std::int64_t>(l) * O, O),
                           y_RO.rows(first, rows));
    first += rows;
  }
}

void ExpertLinear::post_bias_gradient(Pass& pass, const Route& route,
                                      const TensorView& dy_RO, Param& bias) const {
  pass.weight_gradients.post(
      pass.stream, bias, [&bias, rows_L = route.rows_L, dy_RO](Stream& on) {
        const std::int64_t O = dy_RO.dim(1);
        std::int64_t first = 0;
        for (std::size_t l = 0; l < rows_L.size(); ++l) {
          const std::int64_t rows = rows_L[l];
          if (rows > 0)
            kernels::add_column_sums(
                on, dy_RO.rows(first, rows),
                bias.gradient.rows(static_cast<std::int64_t>(l) * O, O));
          first += rows;
        }
      });
}

}  // namespace trireme::nn
