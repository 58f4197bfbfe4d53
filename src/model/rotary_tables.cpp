// RotaryTables: which tables there are, and filling them.
// SPDX-License-Identifier: Apache-2.0
#include "model/rotary_tables.hpp"

namespace trireme::model {

RotaryTables::RotaryTables(const ModelConfig& m, const Range& layers,
                           const TextLengths& lengths, DType dtype, Device device) {
  Stream stream(device);
  const auto table = [&](double theta, const kernels::RopeScaling& scaling,
                         std::int64_t length) {
    Buffer made(device, dtype == DType::f64 ? DType::f64 : DType::f32,
                {lengths.positions, m.rotary_width()}, MemoryClass::workspace,
                "rotary table");
    kernels::rope_table(stream, theta, made.view(), scaling, length);
    return made;
  };
  bool general = false, sliding = false;
  for (std::int64_t layer = layers.begin; layer < layers.end; ++layer) {
    if (m.turns(layer)) (m.turns_as_sliding(layer) ? sliding : general) = true;
  }
  const kernels::RopeScaling& scaling = m.rope_scaling;
  const bool both = lengths.any && scaling.kind == kernels::RopeScalingKind::longrope &&
                    static_cast<double>(lengths.positions) > scaling.original;
  if (general) all_.emplace(table(m.rope_theta, scaling, both ? 0 : m.sequence));
  if (general && both) beyond_.emplace(table(m.rope_theta, scaling, lengths.positions));
  if (sliding) sliding_.emplace(table(m.sliding_rope_theta, {}, m.sequence));
}

nn::RotaryTable RotaryTables::of(const ModelConfig& m, std::int64_t layer) const {
  if (!m.turns(layer)) return {};
  if (m.turns_as_sliding(layer)) return sliding_->view();
  if (!beyond_) return all_->view();
  return {all_->view(), beyond_->view(),
          static_cast<std::int64_t>(m.rope_scaling.original)};
}

std::size_t RotaryTables::bytes() const {
  std::size_t sum = 0;
  for (const auto* table : {&all_, &beyond_, &sliding_})
    if (*table) sum += (*table)->bytes();
  return sum;
}

}  // namespace trireme::model
