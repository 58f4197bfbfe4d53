// gemm(): checks, trivial extents, and the choice of a path.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm.hpp"

#include <algorithm>

#include "kernels/cuda/gemm/gemm.hpp"
#include "kernels/dispatch.hpp"
#include "kernels/gemm/extents.hpp"
#include "kernels/gemm/product_log.hpp"
#include "kernels/runtime/product_counts.hpp"
#include "kernels/runtime/profile.hpp"

namespace trireme::kernels {
namespace {

// K = 0: the empty sum.
void write_empty_sums(const TensorView& c, const TensorView& bias) {
  const auto element = size_of(c.dtype());
  visit_floating(c.dtype(), [&](auto to) {
    using To = decltype(to);
    auto* out = c.data<To>();
    for (std::int64_t i = 0; i < c.dim(0); ++i) {
      if (bias.empty()) {
        std::fill_n(out + i * c.stride(0), c.dim(1), To{});
      } else if (bias.dtype() == c.dtype()) {
        std::copy_n(static_cast<const char*>(bias.raw()),
                    static_cast<std::size_t>(c.dim(1)) * element,
                    reinterpret_cast<char*>(out + i * c.stride(0)));
      } else {
        visit_floating(bias.dtype(), [&](auto from) {
          using From = decltype(from);
          for (std::int64_t j = 0; j < c.dim(1); ++j)
            out[i * c.stride(0) + j] =
                static_cast<To>(static_cast<float>(bias.data<From>()[j]));
        });
      }
    }
  });
}

// The three products of a linear layer are told apart by what they transpose.
ProfileFamily& profile_family(Transpose a, Transpose b) {
  static ProfileFamily forward("gemm, forward"), input("gemm, input gradient"),
      weight("gemm, weight gradient");
  return a == Transpose::yes ? weight : b == Transpose::yes ? forward : input;
}

void gemm_on_gpu(Stream& stream, const TensorView& c, const TensorView& a,
                 Transpose transpose_a, const TensorView& b, Transpose transpose_b,
                 Accumulate accumulate, const TensorView& bias) {
  const auto here = [&](const TensorView& view) {
    return view.empty() || view.device() == stream.device();
  };
  require(here(c) && here(a) && here(b) && here(bias),
          "gemm: {} = {} x {} and the bias must lie on the stream's device", c.shape(),
          a.shape(), b.shape());
  if (a.elements() == 0) {  // K = 0
    if (accumulate == Accumulate::no) try_on_cuda<cuda::fill_rows>(stream, bias, c);
    return;
  }
  if (independent_rows() && transpose_a == Transpose::no) {
    try_on_cuda<cuda::gemm_by_rows>(stream, c, a, b, transpose_b, accumulate, bias);
    return;
  }
  try_on_cuda<cuda::gemm>(stream, c, a, transpose_a, b, transpose_b, accumulate, bias);
}

void gemm_on_host(Stream& /*stream*/, const TensorView& c, const TensorView& a,
                  Transpose transpose_a, const TensorView& b, Transpose transpose_b,
                  Accumulate accumulate, const TensorView& bias) {
  multiply_logged(c, a, transpose_a, b, transpose_b, accumulate, bias);
}

bool tf32_enabled = false, search_enabled = false, rows_enabled = false;

}  // namespace

void set_tf32(bool enabled) { tf32_enabled = enabled; }
bool tf32() { return tf32_enabled; }
void set_gemm_search(bool enabled) { search_enabled = enabled; }
bool gemm_search() { return search_enabled; }
void set_independent_rows(bool enabled) { rows_enabled = enabled; }
bool independent_rows() { return rows_enabled; }

void gemm(Stream& stream, const TensorView& c, const TensorView& a, Transpose transpose_a,
          const TensorView& b, Transpose transpose_b, Accumulate accumulate,
          const TensorView& bias) {
  const GemmExtents extents =
      check_gemm(c, a, transpose_a, b, transpose_b, accumulate, bias);
  if (extents.m == 0 || extents.n == 0) return;
  if (stream.device().is_meta()) {
    meter_product(stream, a.dtype(), extents.m, extents.n, extents.k,
                  static_cast<double>(a.bytes() + b.bytes() + c.bytes()));
    return;
  }
  const CountedProduct counted(a.dtype(), b.dtype(), extents.k > 0);
  if (extents.k == 0 && stream.device().is_host()) {  // takes no time worth a line
    if (accumulate == Accumulate::no) write_empty_sums(c, bias);
    return;
  }
  run_kernel<gemm_on_host, gemm_on_gpu>(profile_family(transpose_a, transpose_b), stream,
                                        c, a, transpose_a, b, transpose_b, accumulate,
                                        bias);
}

}  // namespace trireme::kernels
