// Work of streams that is recorded as a graph instead of being run.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "cuda_emulation/api_types.hpp"

namespace trireme::cuda_emulation {

// What runs after the nodes before it that it names, and after no others: work, or a
// kernel that spins, which each launch of a graph makes anew.
struct Node {
  std::function<void()> work;
  std::function<std::function<bool()>()> spin;
  std::vector<std::size_t> after;
};
using Nodes = std::vector<Node>;

// A recording in progress. A stream is part of it from cudaStreamBeginCapture, or from
// the first wait for an event that another of its streams recorded. A call that it does
// not allow makes it invalid, and nothing comes of it.
class Capture {
 public:
  Capture(CUstream_st& origin, cudaStreamCaptureMode mode)
      : origin_(&origin), mode_(mode) {}

  cudaError_t add(CUstream_st& stream, std::function<void()> work);
  cudaError_t add_spinning(CUstream_st& stream,
                           std::function<std::function<bool()>()> make);
  cudaError_t invalidate(cudaError_t error);  // returns the error
  // Whether calls of this thread that might disturb a recording are errors now.
  bool is_guarded() const;
  // What the origin's stream ends with; every stream leaves.
  cudaError_t end(CUstream_st& stream, std::shared_ptr<const Nodes>& nodes);

  const CUstream_st* origin() const { return origin_; }
  bool is_valid() const { return valid_; }
  bool has_ended() const { return ended_; }

 private:
  bool is_joined() const;

  CUstream_st* origin_;
  cudaStreamCaptureMode mode_;
  std::thread::id thread_ = std::this_thread::get_id();
  Nodes nodes_;
  bool valid_ = true, ended_ = false;
};

// Where a stream, or an event, stands in a recording.
struct Recorded {
  std::shared_ptr<Capture> capture;  // null: in none
  std::vector<std::size_t> last;     // what comes next follows these nodes
};

// The nodes in an order that what they name allows, those that nothing waits for as late
// as may be.
std::vector<std::size_t> running_order(const Nodes& nodes);

// One launch of a graph. Kernels that spin are issued with it, in the order in which
// they were recorded; while one waits, what does not follow it goes on.
class GraphRun {
 public:
  explicit GraphRun(std::shared_ptr<const Nodes> nodes);
  bool advance();  // as far as it can come; true: all has ended

 private:
  bool may_run(std::size_t node) const;

  std::shared_ptr<const Nodes> nodes_;
  std::vector<std::size_t> order_;
  std::vector<std::function<bool()>> spinning_;
  std::vector<bool> done_;
};

}  // namespace trireme::cuda_emulation

struct CUgraph_st {
  std::shared_ptr<const trireme::cuda_emulation::Nodes> nodes;
};
struct CUgraphExec_st {
  std::shared_ptr<const trireme::cuda_emulation::Nodes> nodes;
};
