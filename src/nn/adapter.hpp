// Adapter: low-rank matrices beside a frozen weight, trained in its place (LoRA).
// SPDX-License-Identifier: Apache-2.0
// Legend: T rows, I input width, O output width, R ranks of all parts, L experts.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "nn/adapter_config.hpp"
#include "nn/pass.hpp"
#include "parallel/tensor_region.hpp"

namespace trireme::nn {

// y += s B A dropout(x), for each module whose rows are in the weight: a fused weight (q,
// k and v) has a part for each. The A of all parts lie one below the other.
//
// Beside a weight that is split by rows, A is whole on every rank of the tensor axis and
// B is split as the rows are; beside one that is split by columns, A is split as they are
// and B is whole: A's output is a part of a sum then, which is summed with the weight's
// own. Either way no message is added: what is whole on several ranks has a part of its
// gradient on each (Place::replicate), which the store sums.
//
// Beside the weights of experts (`experts` of them, one below the other) all matrices are
// stacked alike, and `rows` says how many rows each expert has.
//
// With DoRA each module also has a number m for each of its outputs, and y = c (W x + s B
// A x), c = m over the length of the row of V = W + s B A. No gradient passes through the
// length: that of V x is c dy, that of m the sum over tokens of dy V x over the length.
// Beside a weight that is split by columns, squares of lengths are summed over the tensor
// axis, the only message of an adapter's own. Lengths are made anew in forward and in
// backward, some rows at a time, and V x in backward: nothing more is kept.
// Source: Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models", 2021; Liu et
// al., "DoRA: Weight-Decomposed Low-Rank Adaptation", 2024, section 4.3.
class Adapter {
 public:
  using Rows =
      std::span<const std::int32_t>;  // of each expert; none without experts, and on meta

  explicit Adapter(const Param& weight) : weight_(weight) {}
  Adapter(const Adapter&) = delete;
  Adapter& operator=(const Adapter&) = delete;

  // Makes the matrices of the modules that `config` names, before anything is bound.
  // Throws Error(bad_content) where some experts of a layer have another adapter than
  // the others. experts: 0 for a weight that is not of experts.
  void attach(const AdapterConfig& config, const parallel::TensorRegion& region,
              std::int64_t experts = 0);
  bool attached() const { return !parts_.empty(); }

  // Whether there are numbers m: the caller then weighs what it has made of y, without a
  // bias, and of dy.
  bool has_magnitudes() const { return dora_ && attached(); }
  // Lengths of the rows of V, f64 [L O], in `arena`, for products in `compute`. Rows
  // without an adapter have none: 0. Collective over the region where columns are split.
  TensorView lengths(Pass& pass, Arena& arena, DType compute) const;
  // y_TO = c x_TO, written; y may be x.
  void weigh(Pass& pass, const TensorView& lengths_O, const TensorView& x_TO,
             const TensorView& y_TO, Rows rows = {}) const;
  // Posts the gradients of m, where v_TO = V x and dy_TO is not weighed.
  void post_magnitudes(Pass& pass, const TensorView& lengths_O, const TensorView& dy_TO,
                       const TensorView& v_TO, Rows rows = {});

  // Adds to y_TO.
  void forward(Pass& pass, const TensorView& x_TI, const TensorView& y_TO,
               Rows rows = {}) const;
  // The gradient of A's output, in pass.kept(); empty where nothing is attached.
  TensorView output_gradient(Pass& pass, const TensorView& dy_TO, Rows rows = {}) const;
  // Adds to dx_TI.
  void input_gradient(Pass& pass, const TensorView& du_TR, const TensorView& dx_TI,
                      Rows rows = {}) const;
  // Posts the gradients of A and B. What they read is taken from pass.kept().
  void post_gradients(Pass& pass, const TensorView& du_TR, const TensorView& dy_TO,
                      const TensorView& x_TI, std::vector<std::int32_t> rows = {});

  void collect(std::vector<Param*>& params);

 private:
  // The rows of one module in the weight, of each expert alike.
  struct Part {
    std::string module;  // of the first expert
    AdapterModule what;
    std::int64_t first_rank = 0;  // of its columns in R
    std::vector<Range> outputs;   // columns of y, one behind another in B
    std::int64_t width = 0;       // of all of them
    Param up;                     // B [L width, rank]
    Param magnitude;              // m [L width], with DoRA
  };
  // Some rows of a part, of one expert: in the weight, in B and m, and its A.
  struct Block {
    const Part& part;
    std::int64_t weight = 0, up = 0, rows = 0, down = 0;
  };
  struct Boxes;

  void add_part(const Boxes& boxes, const AdapterModule& what,
                const parallel::TensorRegion& region);
  void add_magnitudes(Part& part) const;
  bool split_by_columns() const;
  bool drops(const Pass& pass) const { return pass.dropout.active && dropout_ > 0; }
  // x, or in `arena` what dropout leaves of it.
  TensorView input(Pass& pass, Arena& arena, const TensorView& x_TI) const;
  void drop(Pass& pass, const TensorView& x_TI, const TensorView& y_TI) const;
  // s A x in `arena`.
  TensorView inner(Pass& pass, Arena& arena, const TensorView& x_TI, Rows rows) const;
  // Columns of each part times its scale.
  void scale(Pass& pass, const TensorView& u_TR) const;
  TensorView columns_of(Pass& pass, Arena& arena, const Part& part,
                        const TensorView& u_TR) const;
  void part_forward(Pass& pass, const Part& part, const TensorView& u_TR,
                    const TensorView& y_TO, Rows rows) const;
  void part_backward(Pass& pass, const Part& part, const TensorView& dy_TO,
                     const TensorView& du_TR, Rows rows) const;
  // The columns of a part in dy, dense where products are grouped.
  TensorView output_of(Pass& pass, Arena& arena, const Part& part,
                       const TensorView& dy_TO) const;

  // body(block) for all rows of all parts.
  template <class Body>
  void each_block(const Body& body) const;
  void add_squares(Pass& pass, const Block& block, DType type,
                   const TensorView& squares_O) const;
  // body(rows, outputs): of y, and its numbers among L O, for each expert.
  template <class Body>
  void each_group(const TensorView& y_TO, Rows rows, const Body& body) const;

  bool grouped() const { return experts_ > 0; }

  const Param& weight_;
  std::int64_t experts_ = 0;  // L
  double dropout_ = 0;
  bool dora_ = false;
  const parallel::TensorRegion* region_ = nullptr;
  std::int64_t first_column_ = 0, columns_ = 0;  // of this rank's inputs, of all
  std::uint64_t stream_ = 0;                     // of the masks
  std::int64_t ranks_ = 0;                       // R
  std::vector<Part> parts_;
  Param down_;  // A [L R, I]
};

}  // namespace trireme::nn
