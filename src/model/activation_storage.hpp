// ActivationStorage: where what blocks keep for their backward lies in the meantime.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "base/memory.hpp"

namespace trireme::model {

// Of one microbatch of a stage. The first blocks of the stage do not keep their
// activations in the microbatch's memory, but in places that all take turns in: what is
// there goes away behind a block's forward, and comes back before its backward to where
// it was, so that views of it hold again. A stage calls these in the order in which they
// stand here, upwards in forward and downwards in backward.
class ActivationStorage {
 public:
  virtual ~ActivationStorage() = default;

  // How many of the stage's first blocks do so.
  virtual std::size_t moved() const = 0;
  // Memory for the input of block `block`, for the work that is queued from here on; the
  // input of a block for which nobody asks stays where it is.
  virtual TensorView input(Stream& stream, std::size_t block, DType dtype,
                           const Shape& shape) = 0;
  // The same for what the block keeps.
  virtual Arena& open(Stream& stream, std::size_t block) = 0;
  // The block has queued its forward. Async: its activations go away behind that.
  virtual void offload(Stream& stream, std::size_t block) = 0;
  // Work that is queued from here on finds the block's activations where they were.
  // Async: those of the block before it begin to come back.
  virtual void reload(Stream& stream, std::size_t block) = 0;
};

}  // namespace trireme::model
