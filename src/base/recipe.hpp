// Recipe: the type and the scaling of each class of tensor in a training run.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/dtype.hpp"

namespace trireme {

// What a number is for. A module or the store asks the recipe for its class, never the
// deck.
enum class TensorClass : std::uint8_t {
  activation,        // what modules pass on and keep, and their gradients
  forward_operand,   // of a linear layer's product in forward: x and W
  backward_operand,  // dy, of the two products in backward (x and W stay as in forward)
  weight,            // in use: what forward and backward read
  master,            // what the optimizer updates
  gradient,          // of a weight, as the products of one microbatch deliver it
  gradient_sum,  // summed over microbatches; the same memory as gradient if of its type
  moment1,       // of the optimizer
  moment2,
  gradient_traffic,  // weight gradients on the wire between replicas
  weight_traffic,    // gathered weights on the wire (every strategy but NO_SHARD)
  pipeline_traffic,  // activations and their gradients from stage to stage
  tensor_traffic,    // the same, and terms of their sums, among the ranks of a layer
};
inline constexpr std::size_t tensor_classes = 13;
std::string_view name_of(TensorClass what);

// Elements along a row that share a scale, with Scaling::blocks and Scaling::mx.
constexpr std::int64_t fp8_block = 128;
constexpr std::int64_t mx_block = 32;

// How a type with little range is scaled. The scale of a tensor is amax / largest number.
enum class Scaling : std::uint8_t {
  none,
  delayed,  // one scale, from the largest amax of the last steps
  current,  // one scale, from the tensor's own amax
  blocks,   // a scale for 1 x 128 of an activation, 128 x 128 of a weight
  mx,       // a power of two for 1 x 32
  dynamic,  // the largest magnitude of 256 elements in order; numbers of the dynamic type
};
std::string_view name_of(Scaling scaling);

struct Precision {
  DType type = DType::f32;
  Scaling scaling = Scaling::none;
  bool operator==(const Precision&) const = default;
};

struct Recipe {
  std::string_view name;  // precision.recipe
  std::string_view doc;   // one line, with the source
  std::array<Precision, tensor_classes> of{};
  // Master weights are rounded to their type stochastically, not to nearest.
  bool stochastic = false;

  const Precision& operator[](TensorClass what) const {
    return of[static_cast<std::size_t>(what)];
  }
  Precision& operator[](TensorClass what) { return of[static_cast<std::size_t>(what)]; }
  // Whether products are made of FP8 operands.
  bool fp8() const;
  // Of weight, master, gradient, gradient_sum and both moments, each once: a class that
  // needs no memory of its own (a master of the weight's type, a sum of the gradient's)
  // counts nothing. Scales are not counted.
  // moments: of the optimizer, how many are kept.
  double bytes_per_parameter(int moments = 2) const;
};

// Every recipe that a deck can name.
std::span<const Recipe> recipes();
// The recipe of this name. Throws Error(bad_content) naming all.
const Recipe& recipe_named(std::string_view name);

}  // namespace trireme
