// Paged attention: checks, then the host's kernel.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/paged_attention.hpp"

#include "kernels/checks.hpp"
#include "kernels/host/paged_attention.hpp"
#include "kernels/runtime/profile.hpp"
#include "kernels/runtime/runtime.hpp"

namespace trireme::kernels {
namespace {

ProfileFamily family("attention, paged");

bool is_codes(DType type) { return type == DType::e4m3 || type == DType::u8; }

void check_blocks(const char* kernel, const TensorView& blocks_NGLK,
                  const TensorView& scales_NGL) {
  require(blocks_NGLK.shape().rank() == 4,
          "{}: blocks of shape {}, but [N, G, L, K] was expected", kernel,
          blocks_NGLK.shape());
  require(is_codes(blocks_NGLK.dtype()) != scales_NGL.empty(),
          "{}: codes have scales, and numbers have none", kernel);
}

void require_host(const Stream& stream) {
  require(!stream.device().is_cuda(), Status::resources,
          "a paged cache is kept on hosts only in this version: choose --device cpu");
}

}  // namespace

void store_in_blocks(Stream& stream, std::span<const PagedText> texts,
                     const TensorView& x_TW, const TensorView& blocks_NGLK,
                     const TensorView& scales_NGL) {
  require_host(stream);
  const Checks checks("store_in_blocks", stream);
  checks.matrix({"x", x_TW});
  check_blocks("store_in_blocks", blocks_NGLK, scales_NGL);
  require(x_TW.dim(1) == blocks_NGLK.dim(1) * blocks_NGLK.dim(3),
          "store_in_blocks: rows of {} elements in blocks of {}", x_TW.dim(1),
          blocks_NGLK.shape());
  if (stream.device().is_meta()) return;
  const ProfileScope scope(family);
  host::store_in_blocks(texts, x_TW, blocks_NGLK, scales_NGL);
}

void attention_paged(Stream& stream, Arena& scratch, const AttentionShape& shape,
                     std::span<const PagedText> texts, const TensorView& q_THK,
                     const PagedCache& cache, const TensorView& o_THK,
                     const TensorView& lse_TH) {
  require_host(stream);
  const Checks checks("attention_paged", stream);
  const std::int64_t T = shape.batch * shape.sequence;
  const Shape query{T, shape.heads * shape.head_width};
  checks.matrix({"q", q_THK});
  checks.tensor({"q", q_THK}, q_THK.dtype(), query);
  checks.tensor({"o", o_THK}, q_THK.dtype(), query);
  checks.tensor({"lse", lse_TH}, accumulator_of(q_THK.dtype()), {T, shape.heads});
  check_blocks("attention_paged", cache.keys, cache.key_scales);
  require(cache.keys.dim(1) == shape.kv_heads && cache.keys.dim(3) == shape.head_width,
          "attention_paged: {} heads of {} elements in a cache of blocks of {}",
          shape.kv_heads, shape.head_width, cache.keys.shape());
  require(shape.dropout.rate == 0, "attention_paged drops nothing");
  const ProfileScope scope(family);
  host::attention_paged(scratch, shape, texts, threads(), q_THK, cache, o_THK, lse_TH);
}

}  // namespace trireme::kernels
