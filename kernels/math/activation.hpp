// The formulas of activations, one element at a time, the same on hosts and GPUs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>

#include "base/error.hpp"
#include "base/host_device.hpp"
#include "kernels/activation.hpp"

// A is the type of the arithmetic, float or double; M what a device makes it of:
// M::exp_of_nonpositive(x), e^x for x <= 0, and M::divide(a, b). sigma(x) = 1 / (1 +
// e^-x).
namespace trireme::kernels::math {

// sigma(x) and sigma(-x) = 1 - sigma(x), each with small relative error in both tails.
template <class A>
struct Logistic {
  A value, complement;
};

template <class M, class A>
TRIREME_HOST_DEVICE Logistic<A> logistic(A x) {
  const A e = M::exp_of_nonpositive(-std::abs(x));
  const A large = M::divide(A(1), A(1) + e);
  const A small = e * large;
  return x < A(0) ? Logistic<A>{small, large} : Logistic<A>{large, small};
}

// A formula has the value of one output and, from da, the gradient of its inputs: of x,
// or of a gate and of what it lets through, up.
template <class A>
struct GatedGradient {
  A gate, up;
};

// silu(gate) up, silu(g) = g sigma(g), silu'(g) = sigma (1 + g (1 - sigma)).
template <class M>
struct Swiglu {
  static constexpr bool gated = true;

  template <class A>
  TRIREME_HOST_DEVICE static A value(A gate, A up) {
    return gate * logistic<M>(gate).value * up;
  }
  template <class A>
  TRIREME_HOST_DEVICE static GatedGradient<A> gradient(A da, A gate, A up) {
    const Logistic<A> sigma = logistic<M>(gate);
    const A slope = sigma.value * (A(1) + gate * sigma.complement);
    return {da * up * slope, da * gate * sigma.value};
  }
};

// GELU by tanh is x sigma(2 v), v = sqrt(2 / pi) (x + 0.044715 x^3), since
// (1 + tanh v) / 2 = sigma(2 v): there is no cancellation where tanh is near -1.
template <class M>
struct Gelu {
  static constexpr bool gated = false;

  template <class A>
  struct Parts {
    Logistic<A> sigma;  // of 2 v
    A slope;            // d (2 v) / dx
  };
  // Beyond |x| = 30 sigma is 0 or 1 in every type, and x^2 is limited there: it would
  // overflow for large x, and infinity times the complement, 0, would be NaN.
  template <class A>
  TRIREME_HOST_DEVICE static Parts<A> parts(A x) {
    constexpr A two_root = static_cast<A>(1.5957691216057308);  // 2 sqrt(2 / pi)
    constexpr A cubic = static_cast<A>(0.044715);
    A square = x * x;
    square = square > A(900) ? A(900) : square;
    return {logistic<M>(two_root * x * (A(1) + cubic * square)),
            two_root * (A(1) + A(3) * cubic * square)};
  }
  template <class A>
  TRIREME_HOST_DEVICE static A value(A x) {
    return x * parts(x).sigma.value;
  }
  template <class A>
  TRIREME_HOST_DEVICE static A gradient(A da, A x) {
    const Parts<A> of = parts(x);
    const A sigma = of.sigma.value;
    return da * (sigma + sigma * (x * of.sigma.complement) * of.slope);
  }
};

// x sigma(x).
template <class M>
struct Silu {
  static constexpr bool gated = false;

  template <class A>
  TRIREME_HOST_DEVICE static A value(A x) {
    return x * logistic<M>(x).value;
  }
  template <class A>
  TRIREME_HOST_DEVICE static A gradient(A da, A x) {
    const Logistic<A> sigma = logistic<M>(x);
    return da * (sigma.value * (A(1) + x * sigma.complement));
  }
};

// max(x, 0), whose derivative at 0 is 0. Not a number stays one.
template <class M>
struct Relu {
  static constexpr bool gated = false;

  template <class A>
  TRIREME_HOST_DEVICE static A value(A x) {
    return x < A(0) ? A(0) : x;
  }
  template <class A>
  TRIREME_HOST_DEVICE static A gradient(A da, A x) {
    return x > A(0) ? da : x <= A(0) ? A(0) : da * x;
  }
};

// max(x, 0)^2. Not a number stays one.
template <class M>
struct Relu2 {
  static constexpr bool gated = false;

  template <class A>
  TRIREME_HOST_DEVICE static A value(A x) {
    return Relu<M>::value(x) * Relu<M>::value(x);
  }
  template <class A>
  TRIREME_HOST_DEVICE static A gradient(A da, A x) {
    return da * (A(2) * Relu<M>::value(x));
  }
};

// x P(x), P(x) = erfc(-x / sqrt(2)) / 2, whose derivative is exp(-x^2 / 2) / sqrt(2 pi).
template <class M>
struct GeluErf {
  static constexpr bool gated = false;

  template <class A>
  TRIREME_HOST_DEVICE static A distribution(A x) {
    return A(0.5) * std::erfc(x * static_cast<A>(-0.7071067811865476));
  }
  template <class A>
  TRIREME_HOST_DEVICE static A value(A x) {
    return x * distribution(x);
  }
  template <class A>
  TRIREME_HOST_DEVICE static A gradient(A da, A x) {
    const A density =
        static_cast<A>(0.3989422804014327) * M::exp_of_nonpositive(A(-0.5) * x * x);
    return da * (distribution(x) + x * density);
  }
};

// f(gate) up, of a formula f without a gate.
template <class F>
struct Gated {
  static constexpr bool gated = true;

  template <class A>
  TRIREME_HOST_DEVICE static A value(A gate, A up) {
    return F::value(gate) * up;
  }
  template <class A>
  TRIREME_HOST_DEVICE static GatedGradient<A> gradient(A da, A gate, A up) {
    return {F::gradient(da * up, gate), da * F::value(gate)};
  }
};

// (up + 1) g sigma(alpha g), with inputs beyond the limit cut off; they have no gradient.
template <class M>
struct ClampedSwiglu {
  static constexpr bool gated = true;

  template <class A>
  struct Parts {
    A gate, up;                 // cut off
    bool gate_moves, up_moves;  // whether they are within the limit
    Logistic<A> sigma;          // of alpha gate
  };
  template <class A>
  TRIREME_HOST_DEVICE static A alpha() {
    return static_cast<A>(1.702);
  }
  // Not a number stays one.
  template <class A>
  TRIREME_HOST_DEVICE static Parts<A> parts(A gate, A up) {
    constexpr A limit = A(7);
    const bool high = gate > limit, above = up > limit, below = up < -limit;
    const A g = high ? limit : gate;
    const A u = above ? limit : (below ? -limit : up);
    return {g, u, !high, !above && !below, logistic<M>(alpha<A>() * g)};
  }
  template <class A>
  TRIREME_HOST_DEVICE static A value(A gate, A up) {
    const Parts<A> of = parts(gate, up);
    return (of.up + A(1)) * (of.gate * of.sigma.value);
  }
  template <class A>
  TRIREME_HOST_DEVICE static GatedGradient<A> gradient(A da, A gate, A up) {
    const Parts<A> of = parts(gate, up);
    const A slope = of.sigma.value * (A(1) + alpha<A>() * of.gate * of.sigma.complement);
    return {of.gate_moves ? da * (of.up + A(1)) * slope : A(0),
            of.up_moves ? da * of.gate * of.sigma.value : A(0)};
  }
};

// sigma(gate) up, sigma' = sigma (1 - sigma).
template <class M>
struct Glu {
  static constexpr bool gated = true;

  template <class A>
  TRIREME_HOST_DEVICE static A value(A gate, A up) {
    return logistic<M>(gate).value * up;
  }
  template <class A>
  TRIREME_HOST_DEVICE static GatedGradient<A> gradient(A da, A gate, A up) {
    const Logistic<A> sigma = logistic<M>(gate);
    return {da * up * sigma.value * sigma.complement, da * sigma.value};
  }
};

// Calls f(formula) with the formula of `kind`.
template <class M, class F>
void visit_activation(Activation kind, const F& f) {
  switch (kind) {
    case Activation::swiglu: return f(Swiglu<M>());
    case Activation::gelu: return f(Gelu<M>());
    case Activation::relu2: return f(Relu2<M>());
    case Activation::geglu: return f(Gated<Gelu<M>>());
    case Activation::gelu_erf: return f(GeluErf<M>());
    case Activation::clamped_swiglu: return f(ClampedSwiglu<M>());
    case Activation::silu: return f(Silu<M>());
    case Activation::relu: return f(Relu<M>());
    case Activation::geglu_erf: return f(Gated<GeluErf<M>>());
    case Activation::reglu: return f(Gated<Relu<M>>());
    case Activation::reglu2: return f(Gated<Relu2<M>>());
    case Activation::glu: return f(Glu<M>());
  }
  fail(Status::internal, "no such activation");
}

}  // namespace trireme::kernels::math
