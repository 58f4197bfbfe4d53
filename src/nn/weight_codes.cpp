// WeightCodes: the memory of kept codes.
// SPDX-License-Identifier: Apache-2.0
#include "nn/weight_codes.hpp"

namespace trireme::nn {
namespace {

// Tensor cores and vector loads want rows of codes, and scales, to start aligned.
constexpr std::int64_t alignment = 64;

std::int64_t aligned(std::int64_t elements) {
  return divide_up(elements, alignment) * alignment;
}

}  // namespace

WeightCodes::WeightCodes(const std::vector<Fp8Operands*>& layers, Device device) {
  std::vector<Fp8Operands*> kept;
  for (Fp8Operands* layer : layers)
    if (!layer->weight().expert) kept.push_back(layer);
  of_layer_.resize(kept.size());
  // First how much there is, then where each lies.
  std::int64_t codes = 0, scales = 0;
  const auto place = [&](const Fp8Operands& layer, const Shape& shape, bool allocated) {
    kernels::Fp8Matrix x = layer.form_of(Operand::weight);
    const Shape blocks = layer.one_scale()
                             ? Shape{0}
                             : kernels::fp8_scales_shape(x.scaling, shape[0], shape[1]);
    if (allocated) {
      x.codes = codes_.view().rows(codes, shape.elements()).reshape(shape);
      if (!layer.one_scale())
        x.scales = scales_.view().rows(scales, blocks.elements()).reshape(blocks);
    }
    codes += aligned(shape.elements());
    scales += aligned(blocks.elements());
    return x;
  };
  for (const bool allocated : {false, true}) {
    codes = scales = 0;
    for (std::size_t i = 0; i < kept.size(); ++i) {
      const Shape shape = kept[i]->weight().shape;
      of_layer_[i].codes = place(*kept[i], shape, allocated);
      of_layer_[i].turned = place(*kept[i], {shape[1], shape[0]}, allocated);
      kept[i]->keep(of_layer_[i]);
    }
    if (allocated) break;
    codes_ = Buffer(device, DType::u8, {codes}, MemoryClass::workspace, "weight codes");
    if (scales == 0) continue;
    scales_ = Buffer(device, DType::f32, {scales}, MemoryClass::workspace,
                     "scales of weight codes");
  }
}

void WeightCodes::weights_changed() {
  for (KeptCodes& kept : of_layer_) kept.made = false;
}

}  // namespace trireme::nn
