// Activations on a GPU: one pass each.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/activation.hpp"
#include "kernels/cuda/common/math.cuh"
#include "kernels/cuda/common/rows.cuh"
#include "kernels/math/activation.hpp"

namespace trireme::kernels::cuda {
namespace {

template <class Formula, class T>
struct Gated {
  Rows<T> u, a;
  std::int64_t F;
  template <int W>
  __device__ void at(std::int64_t r, std::int64_t c) const {
    const T* const row = u[r] + c;
    const auto gate = load_group<W>(row), up = load_group<W>(row + F);
    Group<T, W> out;
#pragma unroll
    for (int i = 0; i < W; ++i)
      out.x[i] = narrow<T>(Formula::value(widen(gate.x[i]), widen(up.x[i])));
    store_group(a[r] + c, out);
  }
};

template <class Formula, class T>
struct GatedBackward {
  Rows<T> da, u, du;
  std::int64_t F;
  template <int W>
  __device__ void at(std::int64_t r, std::int64_t c) const {
    const T* const row = u[r] + c;
    const auto gate = load_group<W>(row), up = load_group<W>(row + F);
    const auto da_group = load_group<W>(da[r] + c);
    Group<T, W> dgate, dup;
#pragma unroll
    for (int i = 0; i < W; ++i) {
      const auto d =
          Formula::gradient(widen(da_group.x[i]), widen(gate.x[i]), widen(up.x[i]));
      dgate.x[i] = narrow<T>(d.gate);
      dup.x[i] = narrow<T>(d.up);
    }
    store_group(du[r] + c, dgate);
    store_group(du[r] + F + c, dup);
  }
};

template <class Formula, class T>
struct Elements {
  Rows<T> x, a;
  template <int W>
  __device__ void at(std::int64_t r, std::int64_t c) const {
    auto group = load_group<W>(x[r] + c);
#pragma unroll
    for (int i = 0; i < W; ++i) group.x[i] = narrow<T>(Formula::value(widen(group.x[i])));
    store_group(a[r] + c, group);
  }
};

template <class Formula, class T>
struct ElementsBackward {
  Rows<T> da, x, dx;
  template <int W>
  __device__ void at(std::int64_t r, std::int64_t c) const {
    const auto da_group = load_group<W>(da[r] + c);
    auto group = load_group<W>(x[r] + c);
#pragma unroll
    for (int i = 0; i < W; ++i)
      group.x[i] = narrow<T>(Formula::gradient(widen(da_group.x[i]), widen(group.x[i])));
    store_group(dx[r] + c, group);
  }
};

// Whether the second half of the rows, which starts at element F, is aligned too.
template <class T>
bool halves_are_aligned(std::int64_t F) {
  return F % pack_elements<T> == 0;
}

}  // namespace

void activate(Stream& stream, Activation kind, const TensorView& u_NU,
              const TensorView& a_NF) {
  visit_floating(a_NF.dtype(), [&]<class H>(H) {
    using T = DeviceType<H>;
    constexpr int W = pack_elements<T>;
    math::visit_activation<DeviceMath<T>>(kind, [&]<class Formula>(Formula) {
      if constexpr (Formula::gated) {
        const Area area{a_NF.dim(0), a_NF.dim(1)};
        const bool aligned =
            halves_are_aligned<T>(area.width) && starts_are_aligned({&u_NU, &a_NF}, area);
        const Gated<Formula, T> f{rows_of<H>(u_NU), rows_of<H>(a_NF), area.width};
        launch_over_rows<W>(stream, area, aligned, f);
      } else {
        const Area area = area_of({&u_NU, &a_NF});
        const bool aligned = starts_are_aligned({&u_NU, &a_NF}, area);
        const Elements<Formula, T> f{rows_of<H>(u_NU), rows_of<H>(a_NF)};
        launch_over_rows<W>(stream, area, aligned, f);
      }
    });
  });
}

void activate_backward(Stream& stream, Activation kind, const TensorView& da_NF,
                       const TensorView& u_NU, const TensorView& du_NU) {
  visit_floating(da_NF.dtype(), [&]<class H>(H) {
    using T = DeviceType<H>;
    constexpr int W = pack_elements<T>;
    const Rows<T> da = rows_of<H>(da_NF), u = rows_of<H>(u_NU), du = rows_of<H>(du_NU);
    math::visit_activation<DeviceMath<T>>(kind, [&]<class Formula>(Formula) {
      if constexpr (Formula::gated) {
        const Area area{da_NF.dim(0), da_NF.dim(1)};
        const bool aligned = halves_are_aligned<T>(area.width) &&
                             starts_are_aligned({&da_NF, &u_NU, &du_NU}, area);
        const GatedBackward<Formula, T> f{da, u, du, area.width};
        launch_over_rows<W>(stream, area, aligned, f);
      } else {
        const Area area = area_of({&da_NF, &u_NU, &du_NU});
        const bool aligned = starts_are_aligned({&da_NF, &u_NU, &du_NU}, area);
        const ElementsBackward<Formula, T> f{da, u, du};
        launch_over_rows<W>(stream, area, aligned, f);
      }
    });
  });
}

}  // namespace trireme::kernels::cuda
