// Graph through the CUDA runtime's capture of streams.
// SPDX-License-Identifier: Apache-2.0
#include "base/graph.hpp"

#include <utility>

#include "base/cuda/check.hpp"

namespace trireme {
namespace {

using cuda::check;

cudaGraphExec_t executable_of(void* native) {
  return static_cast<cudaGraphExec_t>(native);
}

// A recording that ends with this object, by end() or without a result.
class Recording {
 public:
  // Of one thread: another one may write a checkpoint at the same time.
  explicit Recording(cudaStream_t queue) : queue_(queue) {
    check(cudaStreamBeginCapture(queue, cudaStreamCaptureModeThreadLocal),
          "cudaStreamBeginCapture");
    open_ = true;
  }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;
  ~Recording() {
    if (open_) cudaStreamEndCapture(queue_, &graph_);
    if (graph_ != nullptr) cudaGraphDestroy(graph_);
    if (open_) cudaGetLastError();  // the error that passes says more
  }

  cudaGraph_t end() {
    open_ = false;
    check(cudaStreamEndCapture(queue_, &graph_), "cudaStreamEndCapture");
    return graph_;
  }

 private:
  cudaStream_t queue_;
  cudaGraph_t graph_ = nullptr;
  bool open_ = false;
};

}  // namespace

Graph Graph::record(Stream& stream, const std::function<void()>& work) {
  require(stream.device().is_cuda(), "a graph is recorded on a stream of no GPU");
  Recording recording(static_cast<cudaStream_t>(stream.native()));
  work();
  const cudaGraph_t graph = recording.end();
  std::size_t nodes = 0;
  check(cudaGraphGetNodes(graph, nullptr, &nodes), "cudaGraphGetNodes");
  cudaGraphExec_t executable = nullptr;
  // Without this flag messages would have the priority of the stream that launches.
  check(cudaGraphInstantiate(&executable, graph, cudaGraphInstantiateFlagUseNodePriority),
        "cudaGraphInstantiate");
  return {executable, nodes};
}

Graph::Graph(Graph&& other) noexcept
    : native_(std::exchange(other.native_, nullptr)), nodes_(other.nodes_) {}

Graph& Graph::operator=(Graph&& other) noexcept {
  std::swap(native_, other.native_);
  std::swap(nodes_, other.nodes_);
  return *this;
}

Graph::~Graph() {
  if (native_ != nullptr) cudaGraphExecDestroy(executable_of(native_));
}

void Graph::launch(Stream& stream) const {
  check(
      cudaGraphLaunch(executable_of(native_), static_cast<cudaStream_t>(stream.native())),
      "cudaGraphLaunch");
}

}  // namespace trireme
