// Causal attention with grouped queries, in blocks: S x S is never held.
// SPDX-License-Identifier: Apache-2.0
// Legend: B sequences, S positions, T = B * S rows, H query heads, G key/value heads,
// K head width. H need not be a multiple of G: `kv_head_H` maps each query head.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/device.hpp"
#include "base/memory.hpp"
#include "base/split.hpp"
#include "base/tensor_view.hpp"

namespace trireme::kernels {

// Which probabilities are dropped, and by how much the others grow: p becomes
// p / (1 - rate) where it is kept, else 0. It is kept where 32 random bits of (seed,
// stream, sequence of the run, head of the model, position of the query, of the key) are
// not below rate 2^32: the same decision on every device and every mesh.
// Source: Srivastava et al., "Dropout", 2014; Vaswani et al., 2017, section 5.4.
struct AttentionDropout {
  double rate = 0;  // in [0, 1); 0: none is
  std::uint64_t seed = 0;
  std::uint64_t stream = 0;                // a layer
  std::int64_t first_sequence = 0;         // of the rows, counted through all steps
  std::int64_t heads = 0, first_head = 0;  // of the model; which of them is head 0 here
  std::int64_t sequence = 0;               // positions of a whole sequence
  // At most two ranges of positions, one behind the other, that the rows of queries and
  // of keys are; empty: row t is position t.
  std::vector<Range> query_chunks = {}, key_chunks = {};
  TensorView first_sequence_1 = {};  // as of DropoutKey (kernels/dropout.hpp)
};

struct AttentionShape {
  std::int64_t batch = 0;             // B
  std::int64_t sequence = 0;          // S
  std::int64_t heads = 0;             // H
  std::int64_t kv_heads = 0;          // G
  std::int64_t head_width = 0;        // K, any
  double scale = 0;                   // of the scores, usually 1 / sqrt(K)
  std::vector<std::int32_t> kv_head;  // [H]: the key/value head of each query head
  // [T] i32, dense, on the stream's device; or empty. Documents and sliding windows: the
  // first row of the sequence's keys that each query may see. Queries see at least
  // themselves.
  TensorView first_T = {};
  // Scores s become cap tanh(s / cap) before what a query does not see is hidden; 0: they
  // stay as they are. Source: Gemma Team, "Gemma 2", 2024, section 2.
  double cap = 0;
  AttentionDropout dropout = {};
};

// o = softmax(scale q k^T, causal) v for each sequence and head.
// q_THK  [T, H * K], k_TGK, v_TGK [T, G * K]; rows may be strided (columns of one buffer)
// o_THK  written, rows may be strided
// lse_TH f32 (f64 for f64), written: log of the sum of exponentials, for backward
// Scores and sums in the accumulator dtype. Blocks of keys that first_T hides from all of
// a block of queries cost nothing. scratch: working space, released on return; the amount
// depends on the shape and threads() alone, so that meta runs measure it. A GPU takes
// nothing from scratch; backward has a workspace of an accumulator per query and head.
// Source: Dao et al., "FlashAttention", 2022, algorithm 1; Dao, 2023.
void attention(Stream& stream, Arena& scratch, const AttentionShape& shape,
               const TensorView& q_THK, const TensorView& k_TGK, const TensorView& v_TGK,
               const TensorView& o_THK, const TensorView& lse_TH);

// Writes dq_THK, dk_TGK, dv_TGK (rows may be strided) from do_THK and what forward left.
// Deterministic for a given shape, whatever the number of threads.
void attention_backward(Stream& stream, Arena& scratch, const AttentionShape& shape,
                        const TensorView& do_THK, const TensorView& q_THK,
                        const TensorView& k_TGK, const TensorView& v_TGK,
                        const TensorView& o_THK, const TensorView& lse_TH,
                        const TensorView& dq_THK, const TensorView& dk_TGK,
                        const TensorView& dv_TGK);

// A part of an attention: the queries of some rows of each sequence on the keys of
// others.
struct AttentionPart {
  Range queries, keys;  // rows of each of the B sequences
  // The last query sees all keys of the part, the one before it all but the last, and so
  // on; there are at least as many keys as queries. Otherwise each query sees all keys.
  bool causal = false;
  // These rows of o, lse and dq, or of dk and dv, hold nothing yet: they are written.
  // Otherwise results are merged into them or added.
  bool new_queries = false, new_keys = false;

  // Causal attention of `sequence` rows to `past` earlier keys and themselves, as the
  // only part.
  static AttentionPart whole(std::int64_t sequence, std::int64_t past = 0) {
    return {{0, sequence}, {0, past + sequence}, true, true, true};
  }

  // (query, key) pairs of one head of one sequence of which the query sees the key.
  std::int64_t pairs() const {
    const std::int64_t Q = queries.count(), P = keys.count() - Q;
    return causal ? Q * P + Q * (Q + 1) / 2 : Q * keys.count();
  }
};

// Who does causal attention of whole sequences to themselves on a GPU, forward and
// backward, from now on, in this process: attention() and attention_backward() without
// documents, in bf16 and f16.
// automatic: forward by cuDNN where the build and the library have it, else, and
// backward, our own kernels
// own:       our own kernels
// cudnn:     cuDNN; any attention on a GPU that it does not do throws Error(resources)
//            naming the shape and the reason
// At first automatic. Each gives the same bits every time, unless it may add in any order
// (below); the two differ by rounding, so that bits are the same only under the same
// choice and the same cuDNN. No effect on hosts.
enum class AttentionLibrary { automatic, own, cudnn };
void set_attention_library(AttentionLibrary library);
AttentionLibrary attention_library();

// false: backward on a GPU may add up in any order where that is faster, so that bits of
// dq change from call to call. Of what there is only cuDNN's backward has such a form. At
// first true. Holds for the process.
void set_attention_deterministic(bool wanted);
bool attention_deterministic();

// Which form backward of our own tensor-core kernels on a GPU has: one pass over keys
// with five products, or two passes with seven. automatic: one pass where a block of the
// GPU has the shared memory for it; one_pass where it has not throws Error(resources).
// For tests and benchmarks; bits of dq differ. Holds for the process.
enum class AttentionBackward : std::uint8_t { automatic, one_pass, two_passes };
void set_attention_backward(AttentionBackward wanted);
AttentionBackward attention_backward_form();

// Merges one part into (o, lse), which hold the attention to the keys of earlier parts:
// with o', lse' of this part and lse_sum = log(e^lse + e^lse'),
//   o = e^(lse - lse_sum) o + e^(lse' - lse_sum) o', lse = lse_sum.
// Operands as for attention(), but o_THK has the accumulator dtype, so that it is rounded
// once, by the caller, after the last part. A query that sees no key of any part so far
// has o = 0 and lse of minus infinity. Rows outside the part are left alone. Bits do not
// depend on how the queries of a part are cut at multiples of 256. Throws Error(internal)
// where the part is empty or does not fit the shape.
// Source: Liu et al., "Ring Attention with Blockwise Transformers", 2023, section 3.
void attention_part(Stream& stream, Arena& scratch, const AttentionShape& shape,
                    const AttentionPart& part, const TensorView& q_THK,
                    const TensorView& k_TGK, const TensorView& v_TGK,
                    const TensorView& o_THK, const TensorView& lse_TH);

// Adds the gradients of one part to dq_THK, dk_TGK, dv_TGK, all in the accumulator dtype;
// o (in q's dtype) and lse are those of the whole attention. Deterministic.
void attention_part_backward(Stream& stream, Arena& scratch, const AttentionShape& shape,
                             const AttentionPart& part, const TensorView& do_THK,
                             const TensorView& q_THK, const TensorView& k_TGK,
                             const TensorView& v_TGK, const TensorView& o_THK,
                             const TensorView& lse_TH, const TensorView& dq_THK,
                             const TensorView& dk_TGK, const TensorView& dv_TGK);

// counts_T[t] = the number of positions in `chunks` below positions_T[t], both [T] i32
// and dense. With the positions that some keys have, ascending, this makes first_T of
// them from the first position that each query may see. On a GPU at most 64 chunks.
void count_positions_below(Stream& stream, const TensorView& positions_T,
                           std::span<const Range> chunks, const TensorView& counts_T);

// first_T[t] = the first position that the query at positions_T[t] sees of the last
// `window` (1 or more), itself among them; both [T] i32 and dense. Source: Beltagy et
// al., "Longformer", 2020, section 3.1; Jiang et al., "Mistral 7B", 2023.
void window_starts(Stream& stream, const TensorView& positions_T, std::int64_t window,
                   const TensorView& first_T);

// Attention of Q new positions per sequence on a cache of P earlier ones and themselves:
// q_BQHK [B * Q, H * K] at positions [P, P + Q); k_cache, v_cache [B, C, G * K] hold
// positions [0, P + Q), C >= P + Q. o as q. shape.sequence = Q;
// shape.first_T are positions. lse_TH as for attention(), or empty.
void attention_cached(Stream& stream, Arena& scratch, const AttentionShape& shape,
                      std::int64_t past, const TensorView& q, const TensorView& k_cache,
                      const TensorView& v_cache, const TensorView& o,
                      const TensorView& lse_TH = {});

}  // namespace trireme::kernels
