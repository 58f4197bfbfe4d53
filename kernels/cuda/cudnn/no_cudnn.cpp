// A CUDA build without cuDNN: our own kernels do all attention.
// SPDX-License-Identifier: Apache-2.0
#include "base/error.hpp"
#include "kernels/cuda/attention/cudnn.hpp"
#include "kernels/runtime/cuda_version.hpp"

namespace trireme::kernels {

std::string cudnn_version() { return "not built in"; }
bool cudnn_is_built() { return false; }

namespace cuda {

std::int64_t cudnn_attention_workspace(const AttentionShape&, const AttentionTensors&,
                                       int) {
  return 0;
}

bool cudnn_attention(Stream&, const AttentionShape&, const AttentionTensors&,
                     std::string& reason) {
  reason = "this program was built without cuDNN";
  return false;
}

}  // namespace cuda
}  // namespace trireme::kernels
