// Graph: work of a GPU's queue that is recorded once and queued again by one call.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>

#include "base/device.hpp"

namespace trireme {

class Graph {
 public:
  // Calls `work`, which queues on `stream`, a GPU's. What it queues is kept and does not
  // run: kernels with the arguments that they have now, copies with their addresses. It
  // may not wait for the device, allocate, or copy from or to pageable memory, which
  // CUDA refuses. An exception of `work` passes through. Other threads may go on as they
  // like.
  // Throws Error(transport) for what CUDA refuses, Error(resources) without CUDA.
  static Graph record(Stream& stream, const std::function<void()>& work);

  Graph(Graph&& other) noexcept;
  Graph& operator=(Graph&& other) noexcept;
  ~Graph();

  // Queues all of it. Every address in it must still be valid.
  void launch(Stream& stream) const;
  // Kernels, copies and fills in it.
  std::size_t nodes() const { return nodes_; }

 private:
  Graph(void* native, std::size_t nodes) : native_(native), nodes_(nodes) {}

  void* native_ = nullptr;  // cudaGraphExec_t
  std::size_t nodes_ = 0;
};

}  // namespace trireme
