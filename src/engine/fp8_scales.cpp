// Fp8Scales: the largest magnitudes over the ranks.
// SPDX-License-Identifier: Apache-2.0
#include "engine/fp8_scales.hpp"

#include <cmath>
#include <limits>

#include "engine/planned_device.hpp"

namespace trireme::engine {

Fp8Scales::Fp8Scales(comm::Mesh& mesh, RankModel& model, Device device)
    : mesh_(mesh), model_(model), device_(device) {
  std::int64_t amaxes = 0;
  for (const nn::Fp8State* scales : model.fp8_states()) amaxes += scales->amaxes();
  if (amaxes == 0) return;
  constexpr auto use = MemoryClass::workspace;
  constexpr auto label = "FP8 amax on the host";
  amaxes_ = device.is_cuda()
                ? Buffer::pinned(DType::f32, {amaxes}, use, label)
                : Buffer(host_beside(mesh, device), DType::f32, {amaxes}, use, label);
}

void Fp8Scales::for_each(const Body& body) {
  std::int64_t begin = 0;
  for (nn::Fp8State* scales : model_.fp8_states()) {
    const std::int64_t amaxes = scales->amaxes();
    if (amaxes == 0) continue;
    body(*scales, amaxes_.view().rows(begin, amaxes));
    begin += amaxes;
  }
}

void Fp8Scales::bring() {
  if (device_.is_meta()) return;
  Stream stream(device_);
  for_each([&](const nn::Fp8State& scales, const TensorView& amax_N) {
    scales.bring(stream, amax_N);
  });
}

// A reduction by max may lose NaNs, so they travel as infinities, which the rule treats
// alike.
void Fp8Scales::finish_step() {
  for_each([&](nn::Fp8State& scales, const TensorView& amax_N) {
    Stream stream(device_), host(amax_N.device());
    if (!device_.is_meta())
      for (float& amax : amax_N.span<float>())
        if (std::isnan(amax)) amax = std::numeric_limits<float>::infinity();
    mesh_.group(comm::Axis::tensor).all_reduce(host, amax_N, comm::Reduce::max).wait();
    mesh_.replicas().all_reduce(host, amax_N, comm::Reduce::max).wait();
    if (!device_.is_meta()) scales.finish_step(stream, amax_N);
  });
}

void Fp8Scales::refresh() {
  Stream stream(device_);
  for (nn::Fp8State* scales : model_.fp8_states()) scales->refresh(stream);
  model_.forget_codes();
}

}  // namespace trireme::engine
