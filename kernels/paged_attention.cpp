// Paged attention: checks, then the device's kernel.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/paged_attention.hpp"

#include "base/split.hpp"
#include "kernels/checks.hpp"
#include "kernels/cuda/attention/paged.hpp"
#include "kernels/dispatch.hpp"
#include "kernels/host/paged_attention.hpp"
#include "kernels/runtime/profile.hpp"
#include "kernels/runtime/runtime.hpp"
#include "kernels/runtime/working_memory.hpp"

namespace trireme::kernels {
namespace {

ProfileFamily family("attention, paged");

constexpr std::int64_t row_words = 4;

bool is_codes(DType type) { return type == DType::e4m3 || type == DType::u8; }

void check_blocks(const char* kernel, const TensorView& blocks_NGLK,
                  const TensorView& scales_NGL) {
  require(blocks_NGLK.shape().rank() == 4,
          "{}: blocks of shape {}, but [N, G, L, K] was expected", kernel,
          blocks_NGLK.shape());
  require(is_codes(blocks_NGLK.dtype()) != scales_NGL.empty(),
          "{}: codes have scales, and numbers have none", kernel);
}

void check_packed(const Checks& checks, const Stream& stream, const TensorView& packed,
                  std::int64_t rows) {
  if (!stream.device().is_cuda()) return;
  checks.tensor({"packed", packed}, DType::i32, packed.shape());
  require(packed.elements() >= row_words * rows,
          "{} numbers of packed texts do not tell of {} rows", packed.elements(), rows);
}

}  // namespace

std::vector<std::int32_t> pack_texts(std::span<const PagedText> texts, std::int64_t L) {
  const std::int64_t rows = texts.empty() ? 0 : texts.back().rows.end;
  std::vector<std::int32_t> packed(static_cast<std::size_t>(row_words * rows));
  auto row = packed.begin();
  for (const PagedText& text : texts) {
    require((row - packed.begin()) == row_words * text.rows.begin,
            "rows [{}, {}) of a text do not follow those before", text.rows.begin,
            text.rows.end);
    const auto table = static_cast<std::int32_t>(packed.size());
    for (std::int64_t i = 0; i < text.rows.count(); ++i)
      for (const std::int64_t word :
           {text.rows.begin, text.rows.end, text.past, std::int64_t{table}})
        *row++ = static_cast<std::int32_t>(word);
    const std::int64_t at = row - packed.begin();
    packed.insert(packed.end(), text.blocks,
                  text.blocks + divide_up(text.past + text.rows.count(), L));
    row = packed.begin() + at;
  }
  return packed;
}

void store_in_blocks(Stream& stream, std::span<const PagedText> texts,
                     const TensorView& x_TW, const TensorView& blocks_NGLK,
                     const TensorView& scales_NGL, const TensorView& packed) {
  const Checks checks("store_in_blocks", stream);
  checks.matrix({"x", x_TW});
  check_blocks("store_in_blocks", blocks_NGLK, scales_NGL);
  require(x_TW.dim(1) == blocks_NGLK.dim(1) * blocks_NGLK.dim(3),
          "store_in_blocks: rows of {} elements in blocks of {}", x_TW.dim(1),
          blocks_NGLK.shape());
  if (stream.device().is_meta()) return;
  check_packed(checks, stream, packed, x_TW.dim(0));
  const ProfileScope scope(family);
  if (try_on_cuda<cuda::store_in_blocks>(stream, texts, x_TW, blocks_NGLK, scales_NGL,
                                         packed))
    return;
  host::store_in_blocks(texts, x_TW, blocks_NGLK, scales_NGL);
}

void attention_paged(Stream& stream, Arena& scratch, const AttentionShape& shape,
                     std::span<const PagedText> texts, const TensorView& q_THK,
                     const PagedCache& cache, const TensorView& o_THK,
                     const TensorView& lse_TH, const TensorView& packed) {
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
  check_packed(checks, stream, packed, T);
  if (stream.device().is_meta())
    note_working_memory(cuda::paged_workspace_bytes(
        shape, q_THK.dtype(), T, cache.keys.dim(0) * cache.keys.dim(2)));
  const ProfileScope scope(family);
  if (try_on_cuda<cuda::attention_paged>(stream, shape, texts, q_THK, cache, o_THK,
                                         lse_TH, packed))
    return;
  host::attention_paged(scratch, shape, texts, threads(), q_THK, cache, o_THK, lse_TH);
}

}  // namespace trireme::kernels
