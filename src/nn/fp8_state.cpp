// Fp8State: tables of scales, and delayed scaling's step.
// SPDX-License-Identifier: Apache-2.0
#include "nn/fp8_state.hpp"

#include <algorithm>
#include <cmath>

#include "base/device_memory.hpp"
#include "kernels/elementwise.hpp"
#include "nn/layout.hpp"

namespace trireme::nn {
namespace {

constexpr std::int64_t operands = 3;
constexpr std::string_view history_suffix = ".amax_history", scale_suffix = ".scale";

kernels::Fp8Format format_of(const Fp8Operands& layer, std::int64_t operand) {
  const bool gradient = operand == static_cast<std::int64_t>(Operand::output_gradient);
  const Precision& precision =
      gradient ? layer.precision().backward : layer.precision().forward;
  return precision.type == DType::e5m2 ? kernels::Fp8Format::e5m2
                                       : kernels::Fp8Format::e4m3;
}

// "model.layers.0.mlp.up_proj", of the first of the tensors in the layer's storage. One
// of all experts, on any rank: "model.layers.0.mlp.experts.up_proj", without a number.
std::string base_name(const Fp8Operands& layer) {
  std::string name = layer.weight().boxes.front().tensor;
  name.erase(name.rfind(".weight"));
  if (!layer.weight().expert) return name;
  const auto last = name.rfind('.'), index = name.rfind('.', last - 1);
  return name.erase(index, last - index);
}

}  // namespace

bool is_fp8_state(std::string_view tensor) {
  return tensor.ends_with(history_suffix) || tensor.ends_with(scale_suffix);
}

float delayed_scale(std::span<const float> history, float amax, float before,
                    kernels::Fp8Format format, int margin) {
  if (!(amax > 0 && std::isfinite(amax))) return before;
  const float most = *std::max_element(history.begin(), history.end());
  return std::ldexp(kernels::fp8_scale(most, format), margin);
}

Fp8State::Fp8State(std::vector<Fp8Operands*> layers, const DelayedScaling& settings,
                   const parallel::TensorRegion& region, Device device)
    : layers_(std::move(layers)), settings_(settings), of_layer_(layers_.size()) {
  const auto L = static_cast<std::int64_t>(layers_.size());
  const auto buffer = [](Device on, const Shape& shape, const char* label) {
    return Buffer(on, DType::f32, shape, MemoryClass::workspace, label);
  };
  for (const Fp8Operands* layer : layers_)
    delayed_ = delayed_ || layer->precision().forward.scaling == Scaling::delayed;
  scales_ = buffer(device, {operands * L}, "FP8 scales");
  if (delayed_) {
    const Device host = device.is_meta() ? device : Device::host();
    amaxes_ = buffer(device, {operands * L}, "FP8 amax");
    history_ = buffer(host, {operands * L, settings.history}, "FP8 amax history");
    kept_ = buffer(host, {operands * L}, "FP8 scales on the host");
  }
  for (std::int64_t i = 0; i < L; ++i) {
    Fp8Operands& layer = *layers_[static_cast<std::size_t>(i)];
    LinearScales& mine = of_layer_[static_cast<std::size_t>(i)];
    mine.scale_3 = scales_.view().rows(operands * i, operands);
    if (delayed_) mine.amax_3 = amaxes_.view().rows(operands * i, operands);
    layer.bind(mine);
    if (!delayed_) continue;
    const auto state = [&](std::string_view suffix, const TensorView& value) {
      const Param like = unsplit_param(region, base_name(layer) + std::string(suffix),
                                       value.shape(), {});
      states_.push_back({like.boxes.front(), value});
    };
    state(history_suffix, history_.view().rows(operands * i, operands));
    state(scale_suffix, kept_.view().rows(operands * i, operands));
  }
}

void Fp8State::weights_changed() {
  for (LinearScales& scales : of_layer_) scales.weight_scaled = false;
}

std::int64_t Fp8State::amaxes() const {
  return delayed_ ? operands * static_cast<std::int64_t>(layers_.size()) : 0;
}

void Fp8State::begin_step(Stream& stream) {
  weights_changed();
  if (delayed_) kernels::fill(stream, amaxes_.view(), 0.0);
}

void Fp8State::bring(Stream& stream, const TensorView& amax_3L) const {
  copy_bytes_later(stream, amaxes_.view(), amax_3L);
}

void Fp8State::finish_step(Stream& stream, const TensorView& amax_3L) {
  const auto amax = amax_3L.span<float>();
  const auto history = history_.view().span<float>(), kept = kept_.view().span<float>();
  const auto H = static_cast<std::size_t>(settings_.history);
  for (std::size_t i = 0; i < amax.size(); ++i) {
    const auto steps = history.subspan(i * H, H);  // the newest first
    std::copy_backward(steps.begin(), steps.end() - 1, steps.end());
    steps[0] = std::isfinite(amax[i]) ? amax[i] : 0.0f;
    const auto operand = static_cast<std::int64_t>(i) % operands;
    kept[i] = delayed_scale(steps, amax[i], kept[i],
                            format_of(*layers_[i / operands], operand), settings_.margin);
  }
  publish(stream);
}

void Fp8State::refresh(Stream& stream) {
  weights_changed();
  if (delayed_) publish(stream);
}

void Fp8State::publish(Stream& stream) {
  const auto kept = kept_.view().span<float>();
  bool changed = false;
  for (std::size_t i = 0; i < kept.size(); ++i) {
    bool& stands = of_layer_[i / operands].from_history[i % operands];
    changed = changed || stands != (kept[i] > 0);
    stands = kept[i] > 0;
  }
  if (changed) ++changes_;
  copy_bytes(stream, kept_.view(), scales_.view());
}

void Fp8State::collect(std::vector<StateTensor*>& states) {
  for (StateTensor& state : states_) states.push_back(&state);
}

}  // namespace trireme::nn
