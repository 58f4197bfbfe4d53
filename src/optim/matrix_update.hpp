// MatrixUpdate: one step of an optimizer whose rule is about whole matrices (Muon).
// SPDX-License-Identifier: Apache-2.0
// Shards and tensor ranks cut matrices; here they are put together, dealt out over the
// ranks that hold the same weights, and given back. docs/decisions/muon.md says how.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "base/memory.hpp"
#include "comm/mesh.hpp"
#include "kernels/orthogonalize.hpp"
#include "optim/flat_layout.hpp"
#include "optim/optimizer_config.hpp"

namespace trireme::optim {

// This rank's elements of a box, [n] each; weight is empty where the master weights are
// the weights in use.
struct BoxState {
  TensorView master, gradient, momentum, weight;
};

// What a step needs beside the deck's optimizer.
struct StepFactors {
  double learning_rate = 0;  // of the Params that have none of their own
  double schedule = 1;       // of a Param's own rate: schedule_factor()
  double gradient_scale = 1;
  std::int64_t update = 1;  // its number, for Adam's correction of the moments' beginning
  // Of kernels::decide_step(), on the GPU, in place of gradient_scale; or empty.
  TensorView decision{};
};

// Of each matrix W with gradient G it keeps a momentum M and steps along an orthogonal
// matrix near to it, which NewtonSchulz() makes in config.muon.steps iterations of a
// polynomial of degree 5 (kernels/orthogonalize.hpp):
//   M = M + (1 - momentum) (G - M)
//   O = NewtonSchulz(nesterov ? G + momentum (M - G) : M)
//   W = (1 - lr weight_decay) W - lr adjustment O
// Source: Jordan et al., "Muon: an optimizer for hidden layers in neural networks", 2024;
// the momentum and the constants are those of torch.optim.Muon.
class MatrixUpdate {
 public:
  // The state of `count` elements of the flat parameter's shard from `at` on.
  using StateOf = std::function<BoxState(const FlatParameter& flat, std::int64_t at,
                                         std::int64_t count)>;

  // No matrices, no memory.
  MatrixUpdate() = default;
  // Of the flat parameters that have `matrices`. state: type of what is kept; products:
  // of the arithmetic on whole matrices.
  MatrixUpdate(const std::vector<FlatParameter>& flats, comm::Mesh& mesh, Device device,
               DType state, DType products);

  // One step of all matrices: momenta and master weights are updated, gradients are left
  // at zero. Collective over the ranks that hold weights of this stage.
  void update(Stream& stream, const OptimizerConfig& config, const StepFactors& factors,
              const StateOf& state_of);

  std::size_t bytes() const {
    return wholes_.bytes() + direction_.bytes() + memory_.bytes();
  }

 private:
  // A matrix of the model with this rank's boxes of it, which may be none.
  struct Matrix {
    const NamedBox* named = nullptr;  // for name and shape
    const FlatParameter* flat = nullptr;
    struct Box {
      ParamBox box;
      const Param* param = nullptr;
      std::int64_t at = 0;  // in the flat parameter's shard
    };
    std::vector<Box> boxes;
  };
  // Where a matrix of a round is made orthogonal.
  struct Owner {
    int tensor = 0, shard = 0, copy = 0;
  };

  void find_matrices(const std::vector<FlatParameter>& flats);
  std::size_t round_end(std::size_t first) const;
  int ranks_of(const FlatParameter& flat) const;
  Owner owner_of(const FlatParameter& flat, std::size_t i) const;
  TensorView whole_of(std::size_t i, const Matrix& matrix) const;
  void collect(Stream& stream, const OptimizerConfig& config, const StepFactors& factors,
               const StateOf& state_of, std::size_t first, std::size_t last);
  void share_out(Stream& stream, int steps, std::size_t first, std::size_t last);
  void apply(Stream& stream, const OptimizerConfig& config, const StepFactors& factors,
             const StateOf& state_of, std::size_t first, std::size_t last);

  comm::Group* tensor_ = nullptr;
  std::vector<Matrix> matrices_;  // dense, then experts'; the same on all ranks
  std::int64_t largest_ = 0;      // elements of the largest whole matrix
  std::size_t round_ = 0;         // whole matrices at once
  Buffer wholes_;                 // [round, largest]
  Buffer direction_;              // of one box
  kernels::OrthogonalizeMemory memory_;
};

}  // namespace trireme::optim
