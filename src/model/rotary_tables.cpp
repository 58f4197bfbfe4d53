// RotaryTables: which tables there are, and filling them.
// SPDX-License-Identifier: Apache-2.0
#include "model/rotary_tables.hpp"

namespace trireme::model {

RotaryTables::RotaryTables(const ModelConfig& m, const Range& layers,
                           const TextLengths& lengths, DType dtype, Device device) {
  Stream stream(device);
  const auto room = [&] {
    return Buffer(device, dtype == DType::f64 ? DType::f64 : DType::f32,
                  {lengths.positions, m.rotary_width()}, MemoryClass::workspace,
                  "rotary table");
  };
  const auto table = [&](double theta, const kernels::RopeScaling& scaling,
                         std::int64_t length) {
    Buffer made = room();
    kernels::rope_table(stream, theta, made.view(), scaling, length);
    return made;
  };
  bool general = false, sliding = false;
  for (std::int64_t layer = layers.begin; layer < layers.end; ++layer) {
    if (m.turns(layer)) (m.turns_as_sliding(layer) ? sliding : general) = true;
  }
  const kernels::RopeScaling& scaling = m.rope_scaling;
  const bool beyond =
      lengths.any && static_cast<double>(lengths.positions) > scaling.original;
  const bool both = beyond && scaling.kind == kernels::RopeScalingKind::longrope;
  if (general && beyond && m.any_length()) {
    all_.emplace(room());
    kernels::rope_table_of_ends(stream, m.rope_theta, all_->view(), scaling);
    beyond_.emplace(room());
    general = false;
  }
  if (general) all_.emplace(table(m.rope_theta, scaling, both ? 0 : lengths.positions));
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

void RotaryTables::prepare(Stream& stream, const ModelConfig& m,
                           std::int64_t length) const {
  if (!m.any_length() || !beyond_) return;
  if (static_cast<double>(length) <= m.rope_scaling.original) return;
  kernels::rope_table(stream, m.rope_theta, beyond_->view().rows(0, length),
                      m.rope_scaling, length);
}

std::size_t RotaryTables::bytes() const {
  std::size_t sum = 0;
  for (const auto* table : {&all_, &beyond_, &sliding_})
    if (*table) sum += (*table)->bytes();
  return sum;
}

}  // namespace trireme::model
