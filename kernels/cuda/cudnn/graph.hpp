// Graphs of cuDNN's operations on tensors of four dims, and the plans that run them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <string>
#include <vector>

#include "kernels/cuda/cudnn/descriptor.hpp"

namespace trireme::kernels::cuda {

using Extents = std::array<std::int64_t, 4>;

// Strides of a dense row-major tensor.
Extents dense(const Extents& dims);

// A graph under construction. Sums and pointwise arithmetic are f32. Tensors live as long
// as the graph.
class Graph {
 public:
  struct Tensor {
    cudnnBackendDescriptor_t descriptor;
    Extents dims, strides;
  };

  // A tensor in memory, at an address of a multiple of 16 bytes that is given to run().
  Tensor memory(std::int64_t id, cudnnDataType_t type, const Extents& dims,
                const Extents& strides);
  // An f32 that run() is given by its address on the host.
  Tensor scalar(std::int64_t id);
  // What one operation hands to another, in that type; no memory holds it.
  Tensor value(const Extents& dims, cudnnDataType_t type = CUDNN_DATA_FLOAT);
  Tensor value(const Extents& dims, const Extents& strides, cudnnDataType_t type);

  // c = a b over the last two dims, for each index of the first two; where b has fewer
  // heads, neighbouring heads of a share them.
  void matmul(const Tensor& a, const Tensor& b, const Tensor& c);
  // y = mode(x), or mode(x, b).
  void pointwise(cudnnPointwiseMode_t mode, const Tensor& x, const Tensor& y);
  void pointwise(cudnnPointwiseMode_t mode, const Tensor& x, const Tensor& b,
                 const Tensor& y);
  // Elements of x where row >= column, `other` elsewhere.
  Tensor lower_triangle(const Tensor& x, const Tensor& other);
  // y: dims that are smaller than x's are reduced.
  void reduce(cudnnReduceTensorOp_t mode, const Tensor& x, const Tensor& y);
  // y: the elements of x under other dims.
  void reshape(const Tensor& x, const Tensor& y);

  // All operations so far, checked by the library for the handle's GPU.
  Descriptor finish(cudnnHandle_t handle) const;

 private:
  enum class Kind { memory, scalar, value };
  Tensor tensor(std::int64_t id, cudnnDataType_t type, const Extents& dims,
                const Extents& strides, Kind kind);
  Tensor index(const Tensor& x, std::int64_t dim);
  Descriptor pointwise_of(cudnnPointwiseMode_t mode, cudnnDataType_t type,
                          std::int64_t dim = -1);
  Descriptor operation_of(cudnnPointwiseMode_t mode, const Tensor& x, const Tensor& y,
                          cudnnDataType_t type = CUDNN_DATA_FLOAT, std::int64_t dim = -1);
  cudnnBackendDescriptor_t keep(Descriptor descriptor);
  void add(Descriptor operation);

  std::int64_t next_ = 1000;  // ids below are the caller's
  std::vector<Descriptor> kept_, operations_;
};

// An engine of the library for a graph on a handle's GPU.
class Plan {
 public:
  // What is asked of an engine.
  struct Wish {
    std::int64_t most_bytes = 0;  // of working memory
    bool deterministic = true;
  };

  // The first proposal of the library's heuristic that is as wished and can be built.
  // Throws CudnnRefusal with the reason where there is none.
  Plan(const Graph& graph, cudnnHandle_t handle, const Wish& wish);

  std::int64_t workspace_bytes() const { return workspace_bytes_; }
  // The library's number of the engine.
  std::int64_t engine() const { return engine_; }
  // Queues it on the handle's stream. pointers[i] is the address of tensor ids[i].
  void run(cudnnHandle_t handle, std::span<const std::int64_t> ids,
           std::span<void* const> pointers, void* workspace) const;

 private:
  bool choose(const Descriptor& configuration, const Wish& wish, std::string& reasons);

  Descriptor graph_, plan_;
  std::int64_t workspace_bytes_ = 0;
  std::int64_t engine_ = 0;
};

}  // namespace trireme::kernels::cuda
