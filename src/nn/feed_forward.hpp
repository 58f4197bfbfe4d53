// FeedForward: up projection, activation and down projection inside the tensor region.
// SPDX-License-Identifier: Apache-2.0
// Its rows are those of an Mlp, of a shared expert, or of a rank's experts.
// Legend: N rows, D width of the model, F hidden units on this rank, U = 2 F with a gate.
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "kernels/activation.hpp"
#include "nn/expert_linear.hpp"
#include "nn/layout.hpp"
#include "nn/linear.hpp"

namespace trireme::nn {

// Rows `units` of the up projection's matrix [F, D] or of its bias [F], and those of the
// gate's above them where the activation is gated: one product makes both. Names are
// without ".weight" and ".bias"; one name for both is that of one tensor [2 F, D], the
// gate's rows first.
Param up_param(Activation activation, const std::string& gate, const std::string& up,
               const Shape& whole, Range units, Initializer initializer);

// Layer is Linear, or ExpertLinear, whose products also want to know which row is whose:
// `where` is the route of the rows then, else nothing.
template <class Layer>
class FeedForward {
 public:
  // A tensor that is computed again (Pass::recompute) is empty.
  struct Saved {
    TensorView u_NU, a_NF;  // before and after the activation
    typename Layer::Saved up, down;
    Saved rows(const Range& rows) const {
      return {u_NU.rows(rows.begin, rows.count()), a_NF.rows(rows.begin, rows.count()),
              up, down};
    }
  };

  Layer up, down;
  Param up_bias;  // may have no elements
  // Of experts, and may have none; that of a shared expert, as of an Mlp, is added
  // outside of the tensor region.
  Param down_bias;
  Activation activation = Activation::swiglu;

  void set_precision(const LinearPrecision& products) {
    up.operands.set_precision(products);
    down.operands.set_precision(products);
  }
  std::int64_t width() const { return down.weight.shape[1]; }  // F
  bool gated() const { return kernels::row_of(activation).gated; }
  // Where the gradient of a lies, which becomes that of u unless there is a gate.
  Arena& arena_of_da(Pass& pass) const { return gated() ? pass.scratch : pass.kept(); }

  // Takes memory for u and a of `rows` rows.
  void take(Pass& pass, DType dtype, std::int64_t rows, Saved& saved) const {
    const Recompute& again = pass.recompute;
    saved.u_NU = pass.kept_unless(again.up).take(dtype, {rows, width_of_u()}, "ffn.u");
    saved.a_NF = pass.kept_unless(again.activation).take(dtype, {rows, width()}, "ffn.a");
  }

  // 1. x -> u, 2. u -> a; 3., the down projection of a, is left to the caller, who cuts
  // it by rows. An activation that is not gated is made with 1. unless backward makes it
  // from u alone: on a GPU the bits may differ.
  template <class... Where>
  void forward(Pass& pass, const TensorView& x_ND, Saved& saved,
               const Where&... where) const {
    if constexpr (std::is_same_v<Layer, Linear>) {
      if (!gated() && !pass.recompute.activation) {
        up.forward_activated(pass, activation, x_ND, up_bias.value, saved.u_NU,
                             saved.a_NF, saved.up);
        return;
      }
    }
    project(pass, x_ND, saved, where...);
    activate(pass, saved);
  }
  // What was not kept, once more. x_ND is read if u was not.
  template <class... Where>
  void again(Pass& pass, const TensorView& x_ND, Saved& saved,
             const Where&... where) const {
    if (saved.u_NU.empty()) {
      take_u(pass, x_ND, saved);
      project(pass, x_ND, saved, where...);
    }
    if (saved.a_NF.empty()) {
      take_a(pass, saved);
      activate(pass, saved);
    }
  }
  // The same for other rows than those of forward: what was kept is written over.
  template <class... Where>
  void anew(Pass& pass, const TensorView& x_ND, Saved& saved,
            const Where&... where) const {
    if (saved.u_NU.empty()) take_u(pass, x_ND, saved);
    project(pass, x_ND, saved, where...);
    if (saved.a_NF.empty()) take_a(pass, saved);
    activate(pass, saved);
  }
  // Shrinks what forward saved to what is kept.
  static void forget(const Recompute& again, Saved& saved) {
    if (again.up) saved.u_NU = {};
    if (again.activation) saved.a_NF = {};
  }

  // From the output's gradient back to that of u, which is returned and lies in
  // pass.kept(). da_NF is memory in arena_of_da(), which is written. Posts the gradient
  // of the down projection. 1. is left to the caller, who starts the communication of the
  // input's gradient before it posts that of `up`.
  template <class... Where>
  TensorView backward(Pass& pass, const TensorView& dy_ND, const Saved& saved,
                      const TensorView& da_NF, const Where&... where) {
    // 3. down projection, and with it 2. where one product makes both
    const auto dy = down.output_gradient(pass, where..., dy_ND);
    if constexpr (std::is_same_v<Layer, Linear>) {
      if (!gated()) {
        down.activated_input_gradient(pass, activation, dy, saved.u_NU, da_NF);
        down.post_weight_gradient(pass, dy, saved.a_NF, saved.down);
        return da_NF;
      }
    }
    down.input_gradient(pass, where..., dy, da_NF);
    down.post_weight_gradient(pass, where..., dy, saved.a_NF, saved.down);
    // 2. activation
    const TensorView du_NU =
        gated() ? pass.kept().take(dy_ND.dtype(), saved.u_NU.shape(), "ffn.du") : da_NF;
    kernels::activate_backward(pass.stream, activation, da_NF, saved.u_NU, du_NU);
    return du_NU;
  }

  void collect(std::vector<Param*>& params) {
    up.collect(params);
    if (up_bias.shape.rank() > 0) params.push_back(&up_bias);
    down.collect(params);
    if (down_bias.shape.rank() > 0) params.push_back(&down_bias);
  }
  void collect(std::vector<Fp8Operands*>& layers) {
    layers.push_back(&up.operands);
    layers.push_back(&down.operands);
  }
  // attach(adapter, experts) for each layer.
  template <class Attach>
  void for_each_adapter(const Attach& attach) {
    for (Layer* layer : {&up, &down}) {
      if constexpr (std::is_same_v<Layer, Linear>) {
        attach(layer->adapter, std::int64_t{0});
      } else {
        attach(layer->adapter, layer->experts());
      }
    }
  }

 private:
  std::int64_t width_of_u() const { return gated() ? 2 * width() : width(); }
  void take_u(Pass& pass, const TensorView& x_ND, Saved& saved) const {
    saved.u_NU = pass.scratch.take(x_ND.dtype(), {x_ND.dim(0), width_of_u()}, "ffn.u");
  }
  void take_a(Pass& pass, Saved& saved) const {
    saved.a_NF =
        pass.kept().take(saved.u_NU.dtype(), {saved.u_NU.dim(0), width()}, "ffn.a");
  }
  template <class... Where>
  void project(Pass& pass, const TensorView& x_ND, Saved& saved,
               const Where&... where) const {
    if constexpr (std::is_same_v<Layer, Linear>) {
      up.forward(pass, x_ND, up_bias.value, saved.u_NU, saved.up);
    } else {
      up.forward(pass, where..., x_ND, saved.u_NU, saved.up);
      if (up_bias.shape.rank() > 0)
        up.add_bias(pass, where..., up_bias.value, saved.u_NU);
    }
  }
  void activate(Pass& pass, const Saved& saved) const {
    kernels::activate(pass.stream, activation, saved.u_NU, saved.a_NF);
  }
};

}  // namespace trireme::nn
