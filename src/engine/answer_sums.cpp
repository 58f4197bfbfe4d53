// Sums of answers pass through a part of fixed length.
// SPDX-License-Identifier: Apache-2.0
#include "engine/answer_sums.hpp"

#include <algorithm>
#include <vector>

#include "engine/planned_device.hpp"

namespace trireme::engine {
namespace {

constexpr std::size_t at_once = 2048;

void sum(comm::Mesh& mesh, double* values, Device device) {
  Stream stream(device);
  mesh.everyone()
      .all_reduce(stream, TensorView(values, DType::f64,
                                     {static_cast<std::int64_t>(at_once)}, device))
      .wait();
}

}  // namespace

void sum_answers(comm::Mesh& mesh, std::span<double> values) {
  std::vector<double> part(at_once);
  for (std::size_t first = 0; first < values.size(); first += at_once) {
    const auto some = values.subspan(first, std::min(at_once, values.size() - first));
    std::ranges::copy(some, part.begin());
    std::fill(part.begin() + std::ssize(some), part.end(), 0.0);
    sum(mesh, part.data(), Device::host());
    std::copy_n(part.begin(), some.size(), some.begin());
  }
}

void plan_answer_sums(comm::Mesh& mesh) {
  sum(mesh, nullptr, host_beside(mesh, Device::meta()));
}

}  // namespace trireme::engine
