// The choice between cuDNN's attention and our own.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/attention/library.hpp"

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
  return part.causal && part.new_queries && part.new_keys && all(part.queries) &&
         all(part.keys) && x.k.shape().rank() == 2 && !x.lse.empty() && rounded(x.o) &&
         rounded(x.dq) && rounded(x.dk) && rounded(x.dv);
}

}  // namespace

bool attention_by_library(Stream& stream, const AttentionShape& shape,
                          const AttentionPart& part, const AttentionTensors& tensors) {
  const AttentionLibrary wanted = attention_library();
  if (wanted == AttentionLibrary::own) return false;
  const bool must = wanted == AttentionLibrary::cudnn;
  // In a fixed order cuDNN's backward holds scores of S x S: only if it is asked for.
  if (!must && !tensors.d_o.empty()) return false;
  std::string reason = "only causal attention of whole sequences to themselves is";
  const bool supported =
      is_whole(shape, part, tensors) &&
      cudnn_attention_supports(stream, shape, tensors, must ? &reason : nullptr);
  require(supported || !must, Status::resources,
          "cuDNN does not do attention{} of {} with batch {}, sequence {}, heads {}, "
          "kv_heads {}, head_width {}: {}; AttentionLibrary::automatic would use our own "
          "kernels",
          tensors.d_o.empty() ? "" : " backward", name_of(tensors.q.dtype()), shape.batch,
          shape.sequence, shape.heads, shape.kv_heads, shape.head_width, reason);
  if (supported) cudnn_attention(stream, shape, tensors);
  return supported;
}

}  // namespace trireme::kernels::cuda
