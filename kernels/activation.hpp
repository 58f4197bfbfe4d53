// Activations, forward and backward: the table of them, and the kernels for all.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/device.hpp"
#include "base/tensor_view.hpp"

namespace trireme::kernels {

// In the order of the rows. The formula of each is a struct of its name in
// kernels/math/activation.hpp, its oracle a case in kernels/reference/activation.cpp.
enum class Activation : std::uint8_t {
  swiglu,
  gelu,
  relu2,
  geglu,
  gelu_erf,
  clamped_swiglu,
  silu,
  relu,
  geglu_erf,
  reglu,
  reglu2,
  glu
};

struct ActivationRow {
  const char* name;  // in decks
  bool gated;        // two inputs for each output, a gate and what it lets through
};

inline constexpr std::array activations = {
    // silu(gate) up. Source: Shazeer, "GLU variants improve Transformer", 2020, eq. 5.
    ActivationRow{"swiglu", true},
    // 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), GPT-2's "gelu_new". Source:
    // Hendrycks and Gimpel, "Gaussian error linear units", 2016.
    ActivationRow{"gelu", false},
    // max(x, 0)^2. Source: So et al., "Primer: searching for efficient transformers for
    // language modeling", 2021, section 4.2.
    ActivationRow{"relu2", false},
    // gelu(gate) up, Gemma's. Source: Shazeer, 2020, eq. 5.
    ActivationRow{"geglu", true},
    // x times the normal distribution function of x, "gelu" of transformers. Source:
    // Hendrycks and Gimpel, 2016.
    ActivationRow{"gelu_erf", false},
    // (up + 1) gate sigma(1.702 gate), after gate is cut at 7 and up at -7 and 7. Source:
    // OpenAI, "gpt-oss-120b & gpt-oss-20b model card", 2025, section 2.2.
    ActivationRow{"clamped_swiglu", true},
    // x sigma(x). Source: Elfwing et al., "Sigmoid-weighted linear units", 2018, eq. 5.
    ActivationRow{"silu", false},
    ActivationRow{"relu", false},  // max(x, 0)
    // gelu_erf(gate) up, relu(gate) up, relu2(gate) up. Source: Shazeer, 2020, eq. 5.
    ActivationRow{"geglu_erf", true},
    ActivationRow{"reglu", true},
    ActivationRow{"reglu2", true},
    // sigma(gate) up. Source: Dauphin et al., "Language modeling with gated convolutional
    // networks", 2017, equation 1.
    ActivationRow{"glu", true},
};

constexpr const ActivationRow& row_of(Activation kind) {
  return activations[static_cast<std::size_t>(kind)];
}

// Legend: N rows, F outputs of a row; U = F inputs of a row, or 2 F where the activation
// is gated: gates u[:, :F] and u[:, F:]. Tensors are in the compute dtype. Those of
// ungated activations may also be dense tensors of any one shape.

// a_NF = activation(u_NU).
void activate(Stream& stream, Activation kind, const TensorView& u_NU,
              const TensorView& a_NF);

// du_NU is written; it may be da itself where the activation is not gated.
void activate_backward(Stream& stream, Activation kind, const TensorView& da_NF,
                       const TensorView& u_NU, const TensorView& du_NU);

}  // namespace trireme::kernels
