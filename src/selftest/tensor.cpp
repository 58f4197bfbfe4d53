// Tensors on the device under test.
// SPDX-License-Identifier: Apache-2.0
#include "selftest/tensor.hpp"

#include "base/device_memory.hpp"

namespace trireme::selftest {
namespace {

constexpr auto label = "self-test";

Shape widened(const Shape& shape, std::int64_t padding) {
  return padding > 0 ? Shape{shape[0], shape[1] + 2 * padding} : shape;
}

std::int64_t offset(const TensorView& view, std::int64_t i) {
  if (view.shape().rank() != 2) return i;
  return i / view.dim(1) * view.stride(0) + i % view.dim(1);
}

// The host's elements `values` as the dense tensor `x` of the device.
template <class T>
void send(const std::vector<T>& values, const TensorView& x) {
  if (values.empty()) return;
  Stream stream(x.device());
  copy_bytes(stream,
             TensorView(const_cast<T*>(values.data()), x.dtype(), x.shape()),  // read
             x);
  stream.synchronize();
}

template <class T>
std::vector<T> fetch(const TensorView& x) {
  std::vector<T> values(static_cast<std::size_t>(x.elements()));
  if (values.empty()) return values;
  Stream stream(x.device());
  copy_bytes(stream, x, TensorView(values.data(), x.dtype(), x.shape()));
  stream.synchronize();
  return values;
}

}  // namespace

Tensor::Tensor(Device device, DType dtype, const Shape& shape, std::int64_t padding)
    : buffer_(device, dtype, widened(shape, padding), MemoryClass::workspace, label),
      view_(padding > 0 ? buffer_.view().columns(padding, shape[1]) : buffer_.view()) {}

void Tensor::set(const Vector& values) const {
  visit_floating(view_.dtype(), [&]<class T>(T) {
    std::vector<T> narrow;
    narrow.reserve(values.size());
    for (const double x : values) narrow.push_back(T(static_cast<Accumulator<T>>(x)));
    send(narrow, view_);
  });
}

Vector Tensor::values() const { return values_of(view_); }

Integers::Integers(Device device, const Shape& shape, std::vector<std::int32_t> values)
    : buffer_(device, DType::i32, shape, MemoryClass::workspace, label) {
  values.resize(static_cast<std::size_t>(shape.elements()));
  send(values, buffer_.view());
}

std::vector<std::int32_t> Integers::values() const {
  return fetch<std::int32_t>(buffer_.view());
}

Codes::Codes(Device device, std::int64_t rows, std::int64_t columns)
    : buffer_(device, DType::u8, {rows, columns}, MemoryClass::workspace, label) {}

void Codes::set(std::vector<std::uint8_t> values) const { send(values, buffer_.view()); }

std::vector<std::uint8_t> Codes::values() const {
  return fetch<std::uint8_t>(buffer_.view());
}

Buffer on_host(const TensorView& x) {
  Buffer host(Device::host(), x.dtype(), x.shape(), MemoryClass::workspace, label);
  Stream stream(x.device());
  copy_bytes(stream, x, host.view());
  stream.synchronize();
  return host;
}

Vector values_of(const TensorView& x) {
  const Buffer host = on_host(x);
  Vector values;
  values.reserve(static_cast<std::size_t>(x.elements()));
  visit_floating(x.dtype(), [&]<class T>(T) {
    for (std::int64_t i = 0; i < x.elements(); ++i)
      values.push_back(static_cast<double>(
          static_cast<Accumulator<T>>(host.view().data<T>()[offset(host.view(), i)])));
  });
  return values;
}

}  // namespace trireme::selftest
