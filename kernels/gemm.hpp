// Matrix products: oneDNN (f32, bf16, fp16) and BLAS (f64) on hosts, cuBLASLt on GPUs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/device.hpp"
#include "base/tensor_view.hpp"
#include "kernels/accumulate.hpp"
#include "kernels/fp8.hpp"

namespace trireme::kernels {

enum class Transpose : bool { no, yes };
// How a tensor core sums products of FP8: as exactly as it can, or with fewer promotions
// to f32, which is faster.
enum class Fp8Sums : bool { exact, fast };

// C [M, N] = op(A) [M, K] op(B) [K, N] (+ bias [N] on every row) (+ C).
//
// a, b     matrices of one type (f64, f32, bf16, f16), rows may be strided
// c        f64 for f64 inputs; f32 or the inputs' type otherwise; rows may be strided.
//          Written, or added to under Accumulate::yes. Must not overlap a or b
// bias     none, or [N] in the inputs' type; not together with Accumulate::yes
//
// Sums are kept in the accumulator type (f64, else f32) and rounded once at the end. Any
// extent may be 0 (K = 0 writes zeros, or the bias). Cost 2 M N K FLOPs; after the first
// call with given shapes nothing is allocated.
// Async: returns when done on a host; queued on a GPU. There the streams of one device
// share a working memory of cuBLASLt: one of them multiplies at a time.
// Throws Error(internal) when shapes or types do not match, Error(transport) when a
// library fails.
void gemm(Stream& stream, const TensorView& c, const TensorView& a, Transpose transpose_a,
          const TensorView& b, Transpose transpose_b,
          Accumulate accumulate = Accumulate::no, const TensorView& bias = {});

// C [M, N] = A [M, K] B^T [K, N] (+ C) of FP8 matrices, the one layout that every tensor
// core has. Each product of elements is scaled by both scales.
//
// c  f32, bf16 or f16, on a host also f64 (with sums in f64, for proofs); rows may be
//    strided; written, or added to under Accumulate::yes
// a  codes [M, K]; b  codes [N, K]; not both E5M2. Scaling either tensor for both, or by
//    blocks for both, but not block_128 for both, or row_32 for both
//
// K and N are multiples of 16 (of 4 is M, with scales by blocks), rows of a, b and c and
// all starts, of scales too with scales by blocks, are aligned to 16 bytes: what cuBLASLt
// asks for, asked for on every device so that a program that runs on one runs on all. On
// a GPU: compute capability 8.9 or higher; scales by blocks need 9.0 (Hopper) and cuBLAS
// 12.9. Sums: f32 on a host; tensor cores keep fewer bits between promotions to f32, of
// which Fp8Sums::fast leaves out some; with scales by blocks it asks for nothing.
// Throws Error(internal) naming what does not fit, Error(resources) where the GPU or the
// library has no such product.
// Source: Micikevicius et al., 2022; blocks: DeepSeek-AI, "DeepSeek-V3", 2024,
// sec. 3.3.2.
void gemm_fp8(Stream& stream, const TensorView& c, const Fp8Matrix& a_MK,
              const Fp8Matrix& b_NK, Accumulate accumulate = Accumulate::no,
              Fp8Sums sums = Fp8Sums::exact);

// Whether GPUs multiply f32 in TF32 (10 bits of mantissa) from now on, on this process.
// At first they do not. No effect on hosts, nor on other types.
void set_tf32(bool enabled);
bool tf32();

// Whether the first product of a kind on a GPU times the library's first 8 proposals and
// keeps the fastest, instead of the first one. Which is fastest may change from run to
// run and from rank to rank, and with it the order of sums: bits are then the same within
// a run only. At first it is off. No effect on hosts.
void set_gemm_search(bool enabled);
bool gemm_search();

// Whether products whose left operand is not transposed give each row of C bits that
// depend on that row of A and on B alone, from now on, in this process: what a batch of
// texts needs so that none depends on its neighbours. TF32 does not count then. At first
// they do not: a product's path, and with it the order of sums, depends on its rows.
void set_independent_rows(bool enabled);
bool independent_rows();

}  // namespace trireme::kernels
