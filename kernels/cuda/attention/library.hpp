// The choice between cuDNN's attention and our own, under AttentionLibrary.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/attention/cudnn.hpp"

namespace trireme::kernels::cuda {

// Has cuDNN do the part where attention_library() wants that and the library supports
// it. false: nothing was done. Throws Error(resources) with the shape and the reason
// where AttentionLibrary::cudnn cannot be honoured.
bool attention_by_library(Stream& stream, const AttentionShape& shape,
                          const AttentionPart& part, const AttentionTensors& tensors);

// What the library is expected to take of the workspace for this part on a GPU of this
// node, or on one of today where the node has none; 0 where our own kernels do it.
std::int64_t attention_library_workspace(const AttentionShape& shape,
                                         const AttentionPart& part,
                                         const AttentionTensors& tensors);

}  // namespace trireme::kernels::cuda
