// Work of streams that is recorded as a graph instead of being run.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda_emulation/capture.hpp"

#include <algorithm>
#include <utility>

#include "kernels/cuda_emulation/streams.hpp"

namespace trireme::cuda_emulation {
namespace {

// Marks what the nodes in `reached` follow, directly or not.
void reach_back(const Nodes& nodes, std::vector<bool>& reached) {
  for (std::size_t i = nodes.size(); i-- > 0;) {
    if (!reached[i]) continue;
    for (const std::size_t before : nodes[i].after) reached[before] = true;
  }
}

}  // namespace

cudaError_t Capture::add(CUstream_st& stream, std::function<void()> work) {
  if (!valid_) return cudaErrorStreamCaptureInvalidated;
  nodes_.push_back({std::move(work), {}, std::exchange(stream.recorded.last, {})});
  stream.recorded.last = {nodes_.size() - 1};
  return cudaSuccess;
}

cudaError_t Capture::add_spinning(CUstream_st& stream,
                                  std::function<std::function<bool()>()> make) {
  const cudaError_t error = add(stream, {});
  if (error == cudaSuccess) nodes_.back().spin = std::move(make);
  return error;
}

cudaError_t Capture::invalidate(cudaError_t error) {
  valid_ = false;
  return error;
}

bool Capture::is_guarded() const {
  return mode_ == cudaStreamCaptureModeGlobal ||
         (mode_ == cudaStreamCaptureModeThreadLocal &&
          thread_ == std::this_thread::get_id());
}

// Every node comes before what the origin would do next.
bool Capture::is_joined() const {
  std::vector<bool> reached(nodes_.size());
  for (const std::size_t i : origin_->recorded.last) reached[i] = true;
  reach_back(nodes_, reached);
  return std::all_of(reached.begin(), reached.end(), [](bool yes) { return yes; });
}

cudaError_t Capture::end(CUstream_st& stream, std::shared_ptr<const Nodes>& nodes) {
  if (&stream != origin_) return invalidate(cudaErrorStreamCaptureUnmatched);
  if (mode_ != cudaStreamCaptureModeRelaxed && thread_ != std::this_thread::get_id())
    return cudaErrorStreamCaptureWrongThread;
  const bool joined = is_joined();
  ended_ = true;
  Streams::get().leave(*this);
  if (!valid_) return cudaErrorStreamCaptureInvalidated;
  if (!joined) return cudaErrorStreamCaptureUnjoined;
  nodes = std::make_shared<const Nodes>(std::move(nodes_));
  return cudaSuccess;
}

// From the last node on, each behind all that it follows; a branch runs when the node
// that joins it needs it.
std::vector<std::size_t> running_order(const Nodes& nodes) {
  std::vector<std::size_t> order;
  std::vector<bool> placed(nodes.size());
  std::vector<std::size_t> open;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const std::size_t root = nodes.size() - 1 - i;
    if (!placed[root]) open.push_back(root);
    while (!open.empty()) {
      const std::size_t node = open.back();
      const auto missing =
          std::find_if(nodes[node].after.begin(), nodes[node].after.end(),
                       [&](std::size_t before) { return !placed[before]; });
      if (missing != nodes[node].after.end()) {
        open.push_back(*missing);
        continue;
      }
      open.pop_back();
      placed[node] = true;
      order.push_back(node);
    }
  }
  return order;
}

GraphRun::GraphRun(std::shared_ptr<const Nodes> nodes)
    : nodes_(std::move(nodes)),
      order_(running_order(*nodes_)),
      spinning_(nodes_->size()),
      done_(nodes_->size()) {
  for (std::size_t i = 0; i < nodes_->size(); ++i)
    if ((*nodes_)[i].spin) spinning_[i] = (*nodes_)[i].spin();
}

bool GraphRun::may_run(std::size_t node) const {
  const auto& after = (*nodes_)[node].after;
  return !done_[node] && std::all_of(after.begin(), after.end(),
                                     [&](std::size_t before) { return done_[before]; });
}

bool GraphRun::advance() {
  for (const std::size_t node : order_) {
    if (!may_run(node)) continue;
    if (spinning_[node] && !spinning_[node]()) continue;
    if (!spinning_[node]) (*nodes_)[node].work();
    done_[node] = true;
  }
  return std::all_of(done_.begin(), done_.end(), [](bool yes) { return yes; });
}

}  // namespace trireme::cuda_emulation
