// The choice between cuDNN's attention and our own.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/attention/library.hpp"

#include <cuda_runtime_api.h>

#include "base/cuda/check.hpp"
#include "base/cuda_devices.hpp"
#include "base/error.hpp"

namespace trireme::kernels::cuda {
namespace {

// Sequences to themselves, with statistics, results rounded to the operands' dtype.
bool is_whole(const AttentionShape& shape, const AttentionPart& part,
              const AttentionTensors& x) {
  const auto all = [&](const Range& rows) {
    return rows.begin == 0 && rows.end == shape.sequence;
  };
  const auto rounded = [&](const TensorView& result) {
    return result.empty() || result.dtype() == x.q.dtype();
  };
  return shape.cap == 0 && shape.dropout.rate == 0 && part.causal && part.new_queries &&
         part.new_keys && all(part.queries) && all(part.keys) &&
         x.k.shape().rank() == 2 && !x.lse.empty() && rounded(x.o) && rounded(x.dq) &&
         rounded(x.dk) && rounded(x.dv);
}

// By default from Hopper on, whose matrix instructions our own kernels do not use.
constexpr int first_major = 9;
int compute_major(Device device) {
  int major = 0;
  trireme::cuda::check(
      cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device.index),
      "cudaDeviceGetAttribute");
  return major;
}

bool is_taken(int major) {
  const AttentionLibrary wanted = attention_library();
  return wanted == AttentionLibrary::cudnn ||
         (wanted == AttentionLibrary::automatic && major >= first_major);
}

}  // namespace

std::int64_t attention_library_workspace(const AttentionShape& shape,
                                         const AttentionPart& part,
                                         const AttentionTensors& tensors) {
  const int major =
      count_cuda_devices() > 0 ? compute_major(Device::cuda(0)) : first_major;
  if (!is_taken(major) || !is_whole(shape, part, tensors)) return 0;
  return cudnn_attention_workspace(shape, tensors, major);
}

bool attention_by_library(Stream& stream, const AttentionShape& shape,
                          const AttentionPart& part, const AttentionTensors& tensors) {
  if (!is_taken(compute_major(stream.device()))) return false;
  std::string reason =
      "only causal attention of whole sequences to themselves is, without a cap of the "
      "scores or dropout";
  const bool done =
      is_whole(shape, part, tensors) && cudnn_attention(stream, shape, tensors, reason);
  require(done || attention_library() != AttentionLibrary::cudnn, Status::resources,
          "cuDNN does not do attention{} of {} with batch {}, sequence {}, heads {}, "
          "kv_heads {}, head_width {}: {}; AttentionLibrary::automatic would use our own "
          "kernels",
          tensors.d_o.empty() ? "" : " backward", name_of(tensors.q.dtype()), shape.batch,
          shape.sequence, shape.heads, shape.kv_heads, shape.head_width, reason);
  return done;
}

}  // namespace trireme::kernels::cuda
