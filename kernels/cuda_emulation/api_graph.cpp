// The emulated runtime: recording work as graphs, and launching them.
// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime_api.h>

#include <unordered_set>
#include <utility>

#include "cuda_emulation/control.hpp"
#include "kernels/cuda_emulation/api_call.hpp"
#include "kernels/cuda_emulation/capture.hpp"

using namespace trireme::cuda_emulation;

namespace trireme::cuda_emulation {
namespace {

std::int64_t launched = 0;

// Handles that were given out and not yet destroyed.
template <class Handle>
std::unordered_set<Handle>& living() {
  static auto& handles = *new std::unordered_set<Handle>;
  return handles;
}

template <class Handle>
cudaError_t destroy(Handle handle) {
  return call([&] {
    if (living<Handle>().erase(handle) == 0) return cudaErrorInvalidValue;
    delete handle;
    return cudaSuccess;
  });
}

}  // namespace

std::int64_t graph_launches() {
  const std::lock_guard lock(api_mutex());
  return launched;
}

}  // namespace trireme::cuda_emulation

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode mode) {
  return call([&] {
    CUstream_st* const stream = Streams::get().find(handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (stream != handle) return cudaErrorStreamCaptureUnsupported;  // the default stream
    if (stream->recorded.capture != nullptr) return cudaErrorIllegalState;
    stream->recorded = {std::make_shared<Capture>(*stream, mode), {}};
    return cudaSuccess;
  });
}

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* graph) {
  return call([&] {
    CUstream_st* const stream = Streams::get().find(handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (graph == nullptr) return cudaErrorInvalidValue;
    *graph = nullptr;
    const std::shared_ptr<Capture> capture = stream->recorded.capture;
    if (capture == nullptr) return cudaErrorIllegalState;
    std::shared_ptr<const Nodes> nodes;
    if (const cudaError_t error = capture->end(*stream, nodes)) return error;
    *graph = new CUgraph_st{std::move(nodes)};
    living<cudaGraph_t>().insert(*graph);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* status) {
  return call([&] {
    const CUstream_st* const stream = Streams::get().find(handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (status == nullptr) return cudaErrorInvalidValue;
    const Capture* const capture = stream->recorded.capture.get();
    *status = capture == nullptr    ? cudaStreamCaptureStatusNone
              : capture->is_valid() ? cudaStreamCaptureStatusActive
                                    : cudaStreamCaptureStatusInvalidated;
    return cudaSuccess;
  });
}

// Nodes have no handles here.
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes,
                              std::size_t* count) {
  return call([&] {
    if (!living<cudaGraph_t>().contains(graph) || count == nullptr)
      return cudaErrorInvalidValue;
    if (nodes != nullptr) return cudaErrorNotSupported;
    *count = graph->nodes->size();
    return cudaSuccess;
  });
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                 unsigned long long flags) {
  return call([&] {
    if (executable == nullptr || !living<cudaGraph_t>().contains(graph))
      return cudaErrorInvalidValue;
    if ((flags & ~cudaGraphInstantiateFlagUseNodePriority) != 0)
      return cudaErrorNotSupported;
    *executable = new CUgraphExec_st{graph->nodes};
    living<cudaGraphExec_t>().insert(*executable);
    return cudaSuccess;
  });
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t handle) {
  return call([&] {
    CUstream_st* const stream = Streams::get().find(handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (!living<cudaGraphExec_t>().contains(executable)) return cudaErrorInvalidValue;
    // On a real device it becomes a part of the recording.
    if (stream->recorded.capture != nullptr) return cudaErrorNotSupported;
    ++launched;
    return Streams::get().add_spinning(
        *stream,
        [run = std::make_shared<GraphRun>(executable->nodes)] { return run->advance(); });
  });
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) { return destroy(graph); }
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  return destroy(executable);
}
