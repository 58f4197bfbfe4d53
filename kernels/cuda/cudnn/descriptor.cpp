// Descriptors of cuDNN's graph interface.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/cudnn/descriptor.hpp"

#include <array>
#include <string_view>

namespace trireme::kernels::cuda {

std::string last_words() {
  std::array<char, 512> words{};
  cudnnGetLastErrorString(words.data(), words.size());
  words.back() = '\0';
  // A trace of many lines: the first one that gives a reason says it all.
  constexpr std::string_view mark = "Reason: ";
  std::string_view text(words.data());
  if (const auto at = text.find(mark); at != text.npos)
    text.remove_prefix(at + mark.size());
  return std::string(text.substr(0, text.find('\n')));
}

void check_cudnn(cudnnStatus_t status, const char* call) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  const std::string message =
      format("{} failed: {}: {}", call, cudnnGetErrorString(status), last_words());
  const int category = CUDNN_STATUS_CATEGORY(static_cast<int>(status));
  if (category == CUDNN_STATUS_NOT_SUPPORTED || category == CUDNN_STATUS_BAD_PARAM)
    throw CudnnRefusal(message);
  fail(Status::transport, "{}", message);
}

Descriptor::Descriptor(cudnnBackendDescriptorType_t type) {
  cudnnBackendDescriptor_t opaque = nullptr;
  check_cudnn(cudnnBackendCreateDescriptor(type, &opaque),
              "cudnnBackendCreateDescriptor");
  opaque_.reset(opaque);
}

void Descriptor::set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                     std::int64_t count, const void* values) {
  check_cudnn(cudnnBackendSetAttribute(get(), name, type, count, values),
              "cudnnBackendSetAttribute");
}

void Descriptor::finish() {
  check_cudnn(cudnnBackendFinalize(get()), "cudnnBackendFinalize");
}

std::int64_t Descriptor::read(cudnnBackendAttributeName_t name,
                              cudnnBackendAttributeType_t type, std::int64_t most,
                              void* values) const {
  std::int64_t count = 0;
  check_cudnn(cudnnBackendGetAttribute(get(), name, type, most, &count, values),
              "cudnnBackendGetAttribute");
  return count;
}

std::int64_t Descriptor::read_integer(cudnnBackendAttributeName_t name) const {
  std::int64_t value = 0;
  read(name, CUDNN_TYPE_INT64, 1, &value);
  return value;
}

}  // namespace trireme::kernels::cuda
