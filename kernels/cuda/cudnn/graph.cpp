// Graphs of cuDNN's operations, and the plans that run them.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/cudnn/graph.hpp"

#include <algorithm>

namespace trireme::kernels::cuda {
Extents dense(const Extents& dims) {
  return {dims[1] * dims[2] * dims[3], dims[2] * dims[3], dims[3], 1};
}

cudnnBackendDescriptor_t Graph::keep(Descriptor descriptor) {
  kept_.push_back(std::move(descriptor));
  return kept_.back().get();
}

void Graph::add(Descriptor operation) {
  operation.finish();
  operations_.push_back(std::move(operation));
}

Graph::Tensor Graph::tensor(std::int64_t id, cudnnDataType_t type, const Extents& dims,
                            const Extents& strides, Kind kind) {
  Descriptor made(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  made.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, id);
  made.set(CUDNN_ATTR_TENSOR_DATA_TYPE, type);
  made.set(CUDNN_ATTR_TENSOR_DIMENSIONS, std::span<const std::int64_t>(dims));
  made.set(CUDNN_ATTR_TENSOR_STRIDES, std::span<const std::int64_t>(strides));
  made.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, std::int64_t{16});
  made.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, kind == Kind::value);
  made.set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, kind == Kind::scalar);
  made.finish();
  return {keep(std::move(made)), dims, strides};
}

Graph::Tensor Graph::memory(std::int64_t id, cudnnDataType_t type, const Extents& dims,
                            const Extents& strides) {
  return tensor(id, type, dims, strides, Kind::memory);
}

Graph::Tensor Graph::scalar(std::int64_t id) {
  return tensor(id, CUDNN_DATA_FLOAT, {1, 1, 1, 1}, {1, 1, 1, 1}, Kind::scalar);
}

Graph::Tensor Graph::value(const Extents& dims, cudnnDataType_t type) {
  return value(dims, dense(dims), type);
}

Graph::Tensor Graph::value(const Extents& dims, const Extents& strides,
                           cudnnDataType_t type) {
  return tensor(next_++, type, dims, strides, Kind::value);
}

void Graph::matmul(const Tensor& a, const Tensor& b, const Tensor& c) {
  Descriptor product(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  product.set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_DATA_FLOAT);
  product.finish();
  Descriptor operation(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, a.descriptor);
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, b.descriptor);
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, c.descriptor);
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_DESC, keep(std::move(product)));
  add(std::move(operation));
}

Descriptor Graph::pointwise_of(cudnnPointwiseMode_t mode, cudnnDataType_t type,
                               std::int64_t dim) {
  Descriptor made(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  made.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
  made.set(CUDNN_ATTR_POINTWISE_MATH_PREC, type);
  if (dim >= 0) made.set(CUDNN_ATTR_POINTWISE_AXIS, dim);
  made.finish();
  return made;
}

Descriptor Graph::operation_of(cudnnPointwiseMode_t mode, const Tensor& x,
                               const Tensor& y, cudnnDataType_t type, std::int64_t dim) {
  Descriptor operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR,
                keep(pointwise_of(mode, type, dim)));
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x.descriptor);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y.descriptor);
  return operation;
}

void Graph::pointwise(cudnnPointwiseMode_t mode, const Tensor& x, const Tensor& y) {
  add(operation_of(mode, x, y));
}

void Graph::pointwise(cudnnPointwiseMode_t mode, const Tensor& x, const Tensor& b,
                      const Tensor& y) {
  Descriptor operation = operation_of(mode, x, y);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b.descriptor);
  add(std::move(operation));
}

Graph::Tensor Graph::index(const Tensor& x, std::int64_t dim) {
  const Tensor y = value(x.dims, CUDNN_DATA_INT32);
  add(operation_of(CUDNN_POINTWISE_GEN_INDEX, x, y, CUDNN_DATA_FLOAT, dim));
  return y;
}

Graph::Tensor Graph::lower_triangle(const Tensor& x, const Tensor& other) {
  const Tensor row = index(x, 2), column = index(x, 3);
  const Tensor inside = value(x.dims, CUDNN_DATA_BOOLEAN), y = value(x.dims);
  Descriptor compare =
      operation_of(CUDNN_POINTWISE_CMP_GE, row, inside, CUDNN_DATA_BOOLEAN);
  compare.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, column.descriptor);
  add(std::move(compare));
  Descriptor select = operation_of(CUDNN_POINTWISE_BINARY_SELECT, x, y);
  select.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, other.descriptor);
  select.set(CUDNN_ATTR_OPERATION_POINTWISE_TDESC, inside.descriptor);
  add(std::move(select));
  return y;
}

void Graph::reduce(cudnnReduceTensorOp_t mode, const Tensor& x, const Tensor& y) {
  Descriptor reduction(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  reduction.set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_DATA_FLOAT);
  reduction.set(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1,
                &mode);
  reduction.finish();
  Descriptor operation(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, keep(std::move(reduction)));
  operation.set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x.descriptor);
  operation.set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y.descriptor);
  add(std::move(operation));
}

void Graph::reshape(const Tensor& x, const Tensor& y) {
  Descriptor operation(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x.descriptor);
  operation.set(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y.descriptor);
  add(std::move(operation));
}

// As cuDNN's own front end makes it: the handle is the graph's, and what is planned for
// the graph says nothing of the GPU.
Descriptor Graph::finish(cudnnHandle_t handle) const {
  std::vector<cudnnBackendDescriptor_t> operations;
  for (const Descriptor& operation : operations_) operations.push_back(operation.get());
  Descriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
            static_cast<std::int64_t>(operations.size()), operations.data());
  graph.finish();
  return graph;
}

namespace {

constexpr int most_proposals = 16;

std::vector<Descriptor> proposals(const Descriptor& graph) {
  Descriptor heuristic(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  const cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph.get());
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
  heuristic.finish();
  std::vector<Descriptor> configurations;
  std::vector<cudnnBackendDescriptor_t> opaque;
  for (int i = 0; i < most_proposals; ++i) {
    configurations.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    opaque.push_back(configurations.back().get());
  }
  const std::int64_t count =
      heuristic.read(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                     most_proposals, opaque.data());
  configurations.resize(
      static_cast<std::size_t>(std::clamp<std::int64_t>(count, 0, most_proposals)));
  return configurations;
}

// What the library says of the numbers that an engine makes.
std::vector<cudnnBackendNumericalNote_t> notes_of(const Descriptor& engine) {
  std::vector<cudnnBackendNumericalNote_t> notes(CUDNN_NUMERICAL_NOTE_TYPE_COUNT);
  const std::int64_t count =
      engine.read(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                  CUDNN_NUMERICAL_NOTE_TYPE_COUNT, notes.data());
  notes.resize(static_cast<std::size_t>(count));
  return notes;
}

}  // namespace

Plan::Plan(const Graph& graph, cudnnHandle_t handle, const Wish& wish)
    : graph_(graph.finish(handle)) {
  std::string reasons;
  for (const Descriptor& configuration : proposals(graph_))
    if (choose(configuration, wish, reasons)) return;
  throw CudnnRefusal(reasons.empty() ? "its heuristic proposes no engine: " + last_words()
                                     : "of the engines proposed," + reasons);
}

// Reasons for not choosing a configuration are added to `reasons`.
bool Plan::choose(const Descriptor& configuration, const Wish& wish,
                  std::string& reasons) {
  Descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  cudnnBackendDescriptor_t opaque = engine.get();
  configuration.read(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                     &opaque);
  const std::int64_t number = engine.read_integer(CUDNN_ATTR_ENGINE_GLOBAL_INDEX);
  const auto notes = notes_of(engine);
  const auto refuse = [&](const std::string& why) {
    reasons += format(" {} {};", number, why);
    return false;
  };
  if (wish.deterministic &&
      std::ranges::count(notes, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC) > 0)
    return refuse("is not deterministic");
  try {
    plan_ = Descriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    plan_.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration.get());
    plan_.finish();
    workspace_bytes_ = plan_.read_integer(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
  } catch (const Error& error) {  // of this one; the next may do
    return refuse(error.what());
  }
  if (workspace_bytes_ > wish.most_bytes)
    return refuse(format("needs a workspace of {} bytes, more than {}", workspace_bytes_,
                         wish.most_bytes));
  engine_ = number;
  return true;
}

void Plan::run(cudnnHandle_t handle, std::span<const std::int64_t> ids,
               std::span<void* const> pointers, void* workspace) const {
  Descriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, ids);
  pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR,
           static_cast<std::int64_t>(pointers.size()), pointers.data());
  pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
  pack.finish();
  check_cudnn(cudnnBackendExecute(handle, plan_.get(), pack.get()),
              "cudnnBackendExecute");
}

}  // namespace trireme::kernels::cuda
