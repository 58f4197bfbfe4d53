// Descriptors of cuDNN's graph interface, and the check of its answers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cudnn_graph.h>

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>

#include "base/error.hpp"

namespace trireme::kernels::cuda {

// cuDNN does not do what was asked of it: for this GPU, shape, or version.
class CudnnRefusal : public Error {
 public:
  explicit CudnnRefusal(const std::string& reason) : Error(Status::resources, reason) {}
};

// What the library said of the last failure.
std::string last_words();

// Throws CudnnRefusal where the library calls a request unsupported or malformed, and
// Error(transport) for any other failure, with the call and the library's words.
void check_cudnn(cudnnStatus_t status, const char* call);

// One of cuDNN's opaque objects, which it owns: filled, then finished, then only read.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(cudnnBackendDescriptorType_t type);

  cudnnBackendDescriptor_t get() const { return opaque_.get(); }

  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
           std::int64_t count, const void* values);
  void set(cudnnBackendAttributeName_t name, std::int64_t value) {
    set(name, CUDNN_TYPE_INT64, 1, &value);
  }
  void set(cudnnBackendAttributeName_t name, std::span<const std::int64_t> values) {
    set(name, CUDNN_TYPE_INT64, static_cast<std::int64_t>(values.size()), values.data());
  }
  void set(cudnnBackendAttributeName_t name, bool value) {
    set(name, CUDNN_TYPE_BOOLEAN, 1, &value);
  }
  void set(cudnnBackendAttributeName_t name, cudnnDataType_t type) {
    set(name, CUDNN_TYPE_DATA_TYPE, 1, &type);
  }
  void set(cudnnBackendAttributeName_t name, cudnnBackendDescriptor_t other) {
    set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &other);
  }
  void finish();

  // Writes at most `most` values and returns how many there are.
  std::int64_t read(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                    std::int64_t most, void* values) const;
  std::int64_t read_integer(cudnnBackendAttributeName_t name) const;

 private:
  struct Destroy {
    void operator()(void* opaque) const { cudnnBackendDestroyDescriptor(opaque); }
  };
  std::unique_ptr<void, Destroy> opaque_;
};

}  // namespace trireme::kernels::cuda
