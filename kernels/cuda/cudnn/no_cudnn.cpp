// A CUDA build without cuDNN: our own kernels do all attention.
// SPDX-License-Identifier: Apache-2.0
#include "base/error.hpp"
#include "kernels/cuda/attention/cudnn.hpp"
#include "kernels/runtime/cuda_version.hpp"

namespace trireme::kernels {

std::string cudnn_version() { return "not built in"; }
bool cudnn_is_built() { return false; }

namespace cuda {

bool cudnn_attention_supports(Stream&, const AttentionShape&, const AttentionTensors&,
                              std::string* reason) {
  if (reason != nullptr) *reason = "this program was built without cuDNN";
  return false;
}

std::int64_t cudnn_attention_workspace(const AttentionShape&, const AttentionTensors&,
                                       int) {
  return 0;
}

void cudnn_attention(Stream&, const AttentionShape&, const AttentionTensors&) {
  fail(Status::resources, "this program was built without cuDNN");
}

}  // namespace cuda
}  // namespace trireme::kernels
