// SampleRoute: samples go from tensor rank 0 to the other tensor ranks.
// SPDX-License-Identifier: Apache-2.0
#include "engine/sample_route.hpp"

#include <algorithm>

namespace trireme::engine {

SampleRoute::SampleRoute(comm::Mesh& mesh, const config::RunConfig& config,
                         const io::SourceConfig& data)
    : mesh_(mesh) {
  if (data.kind == io::SourceKind::synthetic || config.learns_pairs()) return;
  const int stages = mesh.shape().pipeline, stage = mesh.coordinate(comm::Axis::pipeline);
  // In a V the first pipeline rank has both ends.
  const int last = schedule::is_v_shaped(config.parallel.schedule) ? 0 : stages - 1;
  const bool everywhere =
      data.packing != io::Packing::none || !config.batch.sequence_ramp.empty();
  sends_tokens_ = mesh.shape().tensor > 1;
  has_tokens_ = everywhere || stage == 0 || stage == last;
  tells_stages_ = !everywhere && stages > (last == 0 ? 1 : 2);
  reads_ = has_tokens_ && mesh.coordinate(comm::Axis::tensor) == 0;
}

std::int64_t SampleRoute::distribute(const TensorView& tokens,
                                     const std::function<std::int64_t()>& count) const {
  const Device device = tokens.device();
  Stream host(device);
  if (sends_tokens_ && has_tokens_)
    mesh_.group(comm::Axis::tensor).broadcast(host, tokens, 0).wait();
  double targets = has_tokens_ ? static_cast<double>(count()) : 0;
  if (tells_stages_) {
    const TensorView one(device.is_meta() ? nullptr : &targets, DType::f64, {1}, device);
    mesh_.group(comm::Axis::pipeline).broadcast(host, one, 0).wait();
  }
  return static_cast<std::int64_t>(targets);
}

std::int64_t targets_in(const TensorView& targets_T) {
  const auto targets = targets_T.span<std::int32_t>();
  return std::count_if(targets.begin(), targets.end(),
                       [](std::int32_t token) { return token >= 0; });
}

}  // namespace trireme::engine
