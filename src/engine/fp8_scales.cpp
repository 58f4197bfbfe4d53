// Fp8Scales: the largest magnitudes over the ranks.
// SPDX-License-Identifier: Apache-2.0
#include "engine/fp8_scales.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/planned_device.hpp"

namespace trireme::engine {

Fp8Scales::Fp8Scales(comm::Mesh& mesh, RankModel& model, Device device)
    : mesh_(mesh), model_(model), device_(device) {
  std::int64_t amaxes = 0;
  for (const nn::Fp8State* scales : model.fp8_states())
    amaxes = std::max(amaxes, scales->amaxes());
  if (amaxes > 0)
    amaxes_ = Buffer(host_beside(mesh, device), DType::f32, {amaxes},
                     MemoryClass::workspace, "FP8 amax on the host");
}

// A reduction by max may lose NaNs, so they travel as infinities, which the rule treats
// alike.
void Fp8Scales::finish_step() {
  for (nn::Fp8State* scales : model_.fp8_states()) {
    if (scales->amaxes() == 0) continue;
    const TensorView amax_N = amaxes_.view().rows(0, scales->amaxes());
    Stream stream(device_), host(amax_N.device());
    if (!device_.is_meta()) {
      scales->read(stream, amax_N);
      for (float& amax : amax_N.span<float>())
        if (std::isnan(amax)) amax = std::numeric_limits<float>::infinity();
    }
    mesh_.group(comm::Axis::tensor).all_reduce(host, amax_N, comm::Reduce::max).wait();
    mesh_.replicas().all_reduce(host, amax_N, comm::Reduce::max).wait();
    if (!device_.is_meta()) scales->finish_step(stream, amax_N);
  }
}

void Fp8Scales::refresh() {
  Stream stream(device_);
  for (nn::Fp8State* scales : model_.fp8_states()) scales->refresh(stream);
  model_.forget_codes();
}

}  // namespace trireme::engine
