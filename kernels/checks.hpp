// Checks of a kernel's arguments: each names the kernel, the argument and both values.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <initializer_list>
#include <string_view>

#include "base/device.hpp"
#include "base/error.hpp"
#include "base/tensor_view.hpp"

namespace trireme::kernels {

// One argument of a kernel with its name.
struct Argument {
  std::string_view name;
  const TensorView& view;
};

// The checks of one call. Every member throws Error(internal) when it does not hold.
class Checks {
 public:
  Checks(std::string_view kernel, const Stream& stream)
      : kernel_(kernel), device_(stream.device()) {}

  // `view` lies on the stream's device with this type and shape.
  void tensor(Argument argument, DType dtype, const Shape& shape) const {
    const auto& [name, view] = argument;
    require(view.shape() == shape, "{}: {} has shape {}, but {} was expected", kernel_,
            name, view.shape(), shape);
    require(view.dtype() == dtype, "{}: {} is {}, but {} was expected", kernel_, name,
            name_of(view.dtype()), name_of(dtype));
    // A meta stream may be given weights of any device: it computes nothing.
    require(device_.is_meta() || view.device() == device_,
            "{}: {} is not on the stream's device", kernel_, name);
  }
  // As above with the type and shape of its own: on this device, floating.
  void floating(Argument argument) const {
    const auto& [name, view] = argument;
    require(!view.empty(), "{}: {} is missing", kernel_, name);
    visit_floating(view.dtype(), [](auto) {});
    tensor(argument, view.dtype(), view.shape());
  }
  void matrix(Argument argument) const {
    const auto& [name, view] = argument;
    require(view.shape().rank() == 2, "{}: {} has shape {}, but a matrix was expected",
            kernel_, name, view.shape());
    floating(argument);
  }
  void dense(Argument argument) const {
    require(argument.view.is_dense(), "{}: {} of shape {} must be dense", kernel_,
            argument.name, argument.view.shape());
  }
  // Dense, or a matrix, whose rows may be strided.
  void dense_or_matrix(Argument argument) const {
    if (argument.view.shape().rank() != 2) dense(argument);
  }

 private:
  std::string_view kernel_;
  Device device_;
};

}  // namespace trireme::kernels
