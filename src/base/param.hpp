// Param: a trainable tensor as one rank stores it.
// SPDX-License-Identifier: Apache-2.0
// It also says where its parts lie in the named tensors of the whole model.
#pragma once

#include <string>
#include <vector>

#include "base/place.hpp"
#include "base/tensor_view.hpp"

namespace trireme {

struct WeightCodes;

// A box of a named whole tensor that this rank holds inside a Param. `local_begin` and
// `global_begin` have the rank of the tensor; the local box lies in the Param's own
// shape.
struct NamedBox {
  std::string tensor;  // Hugging Face's name
  Shape whole;         // shape of the whole tensor
  Shape local_begin;
  Shape global_begin;
  Shape extent;
  // Of the whole tensor on the tensor axis, the same on every rank. varying: every
  // element is on one rank. replicate: elements may be on several ranks, and each has a
  // part of their gradient. invariant: every element is on every rank, with the same
  // gradient.
  Place place = Place::varying;
  // One rank of the tensor axis owns each element: it counts in the gradient's norm and
  // is written to checkpoints by the owner only.
  bool owned = true;
};

// How a tensor starts. Every element is a pure function of (seed, tensor name, global
// index).
struct Initializer {
  // uniform: even in [least, most). log_uniform: of a vector, the logarithms of such
  // numbers.
  enum class Kind : std::uint8_t {
    zeros,
    ones,
    normal,
    uniform,
    log_uniform
  } kind = Kind::zeros;
  double standard_deviation = 0.0;
  double least = 0.0, most = 0.0;
};

// Storage of one rank. Modules declare name to boxes; the optimizer's store binds the
// views.
struct Param {
  std::string name;  // of the storage, which may fuse several tensors (q, k and v)
  Shape shape;       // on this rank
  std::vector<NamedBox> boxes;
  Initializer initializer;
  bool decay = true;  // the run's weight decay applies (not to norms and biases)
  // Its own, which a group of the deck gives; below 0: the run's.
  double learning_rate = -1.0;  // at the peak of the schedule
  double weight_decay = -1.0;   // wherever it is given, for norms and biases too
  int contributions = 1;  // gradient contributions per microbatch (2: a tied embedding)
  // An expert's: shared out over the expert ranks; data parallelism sums its gradient
  // over the other ranks of data x context only.
  bool expert = false;
  bool table = false;   // of embeddings or of the head: a row for each token or position
  bool frozen = false;  // has no gradient and is never updated
  // All that reads it are products that take codes as well (Linear, ExpertLinear).
  bool takes_codes = false;
  // A tied embedding table of which the first and the last pipeline stage hold a copy
  // each: their gradients are summed.
  bool in_embedding_group = false;

  TensorView value;                    // compute dtype; read by forward and backward
  const WeightCodes* codes = nullptr;  // in place of the value, which is empty then
  TensorView gradient;                 // accumulation dtype; added to by backward
  // The gradient's memory holds what is no part of the step: the next contribution takes
  // its place (nn::contribute).
  bool stale_gradient = false;
};

// A tensor of the model that is kept and saved with the weights but has no gradient. The
// same on every rank.
struct StateTensor {
  NamedBox named;
  TensorView value;
};

}  // namespace trireme
