// Checks of attention's arguments, and the choice of where it runs.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "kernels/checks.hpp"
#include "kernels/cuda/attention/attention.hpp"
#include "kernels/cuda/attention/library.hpp"
#include "kernels/dispatch.hpp"
#include "kernels/host/attention.hpp"
#include "kernels/host/paged_attention.hpp"
#include "kernels/runtime/plan_working_memory.hpp"
#include "kernels/runtime/runtime.hpp"

namespace trireme::kernels {

TRIREME_BACK_ENDS(count_positions_below);
TRIREME_BACK_ENDS(window_starts);

namespace {

ProfileFamily family("attention");

AttentionLibrary library = AttentionLibrary::automatic;
bool deterministic = true;
AttentionBackward backward_form = AttentionBackward::automatic;

void check_shape(const char* kernel, const Stream& stream, const AttentionShape& shape) {
  require(shape.batch >= 0 && shape.sequence >= 0 && shape.heads >= 0 &&
              shape.kv_heads >= 0 && shape.head_width > 0,
          "{}: batch {}, sequence {}, heads {}, kv_heads {}, head_width {}", kernel,
          shape.batch, shape.sequence, shape.heads, shape.kv_heads, shape.head_width);
  require(static_cast<std::int64_t>(shape.kv_head.size()) == shape.heads,
          "{}: kv_head maps {} heads, but there are {}", kernel, shape.kv_head.size(),
          shape.heads);
  for (const std::int32_t head : shape.kv_head)
    require(head >= 0 && head < shape.kv_heads,
            "{}: kv_head names head {} of {} key/value heads", kernel, head,
            shape.kv_heads);
  if (shape.first_T.empty()) return;
  const Checks checks(kernel, stream);
  checks.tensor({"first", shape.first_T}, DType::i32, {shape.batch * shape.sequence});
  checks.dense({"first", shape.first_T});
}

void check_scratch(const char* kernel, const Stream& stream, const Arena& scratch) {
  require(scratch.device() == stream.device(),
          "{}: the scratch arena is not on the stream's device", kernel);
}

Shape query_shape(const AttentionShape& shape) {
  return {shape.batch * shape.sequence, shape.heads * shape.head_width};
}

Shape key_shape(const AttentionShape& shape) {
  return {shape.batch * shape.sequence, shape.kv_heads * shape.head_width};
}

Shape lse_shape(const AttentionShape& shape) {
  return {shape.batch * shape.sequence, shape.heads};
}

void check_part(const char* kernel, const AttentionShape& shape,
                const AttentionPart& part) {
  const auto inside = [&](const Range& rows) {
    return 0 <= rows.begin && rows.begin <= rows.end && rows.end <= shape.sequence;
  };
  require(inside(part.queries) && inside(part.keys),
          "{}: queries [{}, {}) on keys [{}, {}) of sequences of {} rows", kernel,
          part.queries.begin, part.queries.end, part.keys.begin, part.keys.end,
          shape.sequence);
  require(!part.causal || part.keys.count() >= part.queries.count(),
          "{}: a causal part of {} queries has {} keys", kernel, part.queries.count(),
          part.keys.count());
  require(part.queries.count() > 0 && part.keys.count() > 0, "{}: an empty part", kernel);
}

// 4 K FLOPs for each pair of positions of a head forward, 10 K backward. What documents
// and windows hide is not known on meta, and is counted.
void meter(const Stream& stream, const AttentionShape& shape, const AttentionPart& part,
           const TensorView& q, const TensorView& k, bool backward) {
  const auto pairs = static_cast<double>(part.pairs() * shape.batch * shape.heads);
  meter_work(stream, {.kind = WorkKind::attention,
                      .type = q.dtype(),
                      .flops = (backward ? 10 : 4) *
                               static_cast<double>(shape.head_width) * pairs,
                      .bytes = 2.0 * static_cast<double>(q.bytes() + k.bytes()),
                      .inner = shape.head_width,
                      .backward = backward});
}

// Where attention of a part runs. A GPU takes nothing from `scratch`: what meta measures
// is the host's need, which is why the host's function is called there too.
void forward(Stream& stream, Arena& scratch, const AttentionShape& shape,
             const AttentionPart& part, const TensorView& q, const TensorView& k,
             const TensorView& v, const TensorView& o, const TensorView& lse) {
  meter(stream, shape, part, q, k, false);
  if (try_on_cuda<cuda::attention>(stream, shape, part, q, k, v, o, lse)) return;
  host::attention(scratch, shape, part, threads(), q, k, v, o, lse);
}

void backward(Stream& stream, Arena& scratch, const AttentionShape& shape,
              const AttentionPart& part, const TensorView& d_o, const TensorView& q,
              const TensorView& k, const TensorView& v, const TensorView& o,
              const TensorView& lse, const TensorView& dq, const TensorView& dk,
              const TensorView& dv) {
  meter(stream, shape, part, q, k, true);
  if (try_on_cuda<cuda::attention_backward>(stream, shape, part, d_o, q, k, v, o, lse, dq,
                                            dk, dv))
    return;
  plan_working_memory(stream, [&] {
    const cuda::AttentionTensors tensors{q, k, v, o, lse, d_o, dq, dk, dv};
    return std::max(cuda::attention_backward_workspace(shape, part, tensors),
                    cuda::attention_library_workspace(shape, part, tensors));
  });
  host::attention_backward(scratch, shape, part, threads(), d_o, q, k, v, o, lse, dq, dk,
                           dv);
}

}  // namespace

void set_attention_library(AttentionLibrary wanted) { library = wanted; }
AttentionLibrary attention_library() { return library; }
void set_attention_deterministic(bool wanted) { deterministic = wanted; }
bool attention_deterministic() { return deterministic; }
void set_attention_backward(AttentionBackward wanted) { backward_form = wanted; }
AttentionBackward attention_backward_form() { return backward_form; }

void attention(Stream& stream, Arena& scratch, const AttentionShape& shape,
               const TensorView& q_THK, const TensorView& k_TGK, const TensorView& v_TGK,
               const TensorView& o_THK, const TensorView& lse_TH) {
  check_shape("attention", stream, shape);
  check_scratch("attention", stream, scratch);
  const Checks checks("attention", stream);
  checks.matrix({"q", q_THK});
  const DType type = q_THK.dtype();
  checks.tensor({"q", q_THK}, type, query_shape(shape));
  checks.tensor({"k", k_TGK}, type, key_shape(shape));
  checks.tensor({"v", v_TGK}, type, key_shape(shape));
  checks.tensor({"o", o_THK}, type, query_shape(shape));
  checks.tensor({"lse", lse_TH}, accumulator_of(type), lse_shape(shape));
  const ProfileScope scope(family);
  forward(stream, scratch, shape, AttentionPart::whole(shape.sequence), q_THK, k_TGK,
          v_TGK, o_THK, lse_TH);
}

void attention_backward(Stream& stream, Arena& scratch, const AttentionShape& shape,
                        const TensorView& do_THK, const TensorView& q_THK,
                        const TensorView& k_TGK, const TensorView& v_TGK,
                        const TensorView& o_THK, const TensorView& lse_TH,
                        const TensorView& dq_THK, const TensorView& dk_TGK,
                        const TensorView& dv_TGK) {
  check_shape("attention_backward", stream, shape);
  check_scratch("attention_backward", stream, scratch);
  const Checks checks("attention_backward", stream);
  checks.matrix({"q", q_THK});
  const DType type = q_THK.dtype();
  for (const Argument& x : {Argument{"do", do_THK}, Argument{"q", q_THK},
                            Argument{"o", o_THK}, Argument{"dq", dq_THK}})
    checks.tensor(x, type, query_shape(shape));
  for (const Argument& x : {Argument{"k", k_TGK}, Argument{"v", v_TGK},
                            Argument{"dk", dk_TGK}, Argument{"dv", dv_TGK}})
    checks.tensor(x, type, key_shape(shape));
  checks.tensor({"lse", lse_TH}, accumulator_of(type), lse_shape(shape));
  const ProfileScope scope(family);
  backward(stream, scratch, shape, AttentionPart::whole(shape.sequence), do_THK, q_THK,
           k_TGK, v_TGK, o_THK, lse_TH, dq_THK, dk_TGK, dv_TGK);
}

void attention_part(Stream& stream, Arena& scratch, const AttentionShape& shape,
                    const AttentionPart& part, const TensorView& q_THK,
                    const TensorView& k_TGK, const TensorView& v_TGK,
                    const TensorView& o_THK, const TensorView& lse_TH) {
  check_shape("attention_part", stream, shape);
  check_part("attention_part", shape, part);
  check_scratch("attention_part", stream, scratch);
  const Checks checks("attention_part", stream);
  checks.matrix({"q", q_THK});
  const DType type = q_THK.dtype();
  checks.tensor({"q", q_THK}, type, query_shape(shape));
  checks.tensor({"k", k_TGK}, type, key_shape(shape));
  checks.tensor({"v", v_TGK}, type, key_shape(shape));
  checks.tensor({"o", o_THK}, accumulator_of(type), query_shape(shape));
  checks.tensor({"lse", lse_TH}, accumulator_of(type), lse_shape(shape));
  const ProfileScope scope(family);
  forward(stream, scratch, shape, part, q_THK, k_TGK, v_TGK, o_THK, lse_TH);
}

void attention_part_backward(Stream& stream, Arena& scratch, const AttentionShape& shape,
                             const AttentionPart& part, const TensorView& do_THK,
                             const TensorView& q_THK, const TensorView& k_TGK,
                             const TensorView& v_TGK, const TensorView& o_THK,
                             const TensorView& lse_TH, const TensorView& dq_THK,
                             const TensorView& dk_TGK, const TensorView& dv_TGK) {
  check_shape("attention_part_backward", stream, shape);
  check_part("attention_part_backward", shape, part);
  check_scratch("attention_part_backward", stream, scratch);
  const Checks checks("attention_part_backward", stream);
  checks.matrix({"q", q_THK});
  const DType type = q_THK.dtype(), sums = accumulator_of(type);
  for (const Argument& x :
       {Argument{"do", do_THK}, Argument{"q", q_THK}, Argument{"o", o_THK}})
    checks.tensor(x, type, query_shape(shape));
  for (const Argument& x : {Argument{"k", k_TGK}, Argument{"v", v_TGK}})
    checks.tensor(x, type, key_shape(shape));
  checks.tensor({"lse", lse_TH}, sums, lse_shape(shape));
  checks.tensor({"dq", dq_THK}, sums, query_shape(shape));
  for (const Argument& x : {Argument{"dk", dk_TGK}, Argument{"dv", dv_TGK}})
    checks.tensor(x, sums, key_shape(shape));
  const ProfileScope scope(family);
  backward(stream, scratch, shape, part, do_THK, q_THK, k_TGK, v_TGK, o_THK, lse_TH,
           dq_THK, dk_TGK, dv_TGK);
}

void count_positions_below(Stream& stream, const TensorView& positions_T,
                           std::span<const Range> chunks, const TensorView& counts_T) {
  const Checks checks("count_positions_below", stream);
  const Shape shape{positions_T.elements()};
  for (const Argument& x :
       {Argument{"positions", positions_T}, Argument{"counts", counts_T}}) {
    checks.tensor(x, DType::i32, shape);
    checks.dense(x);
  }
  run_kernel<host::count_positions_below, cuda::count_positions_below>(
      stream, positions_T, chunks, counts_T);
}

void window_starts(Stream& stream, const TensorView& positions_T, std::int64_t window,
                   const TensorView& first_T) {
  const Checks checks("window_starts", stream);
  require(window >= 1, "window_starts: a window of {} positions", window);
  const Shape shape{positions_T.elements()};
  for (const Argument& x :
       {Argument{"positions", positions_T}, Argument{"first", first_T}}) {
    checks.tensor(x, DType::i32, shape);
    checks.dense(x);
  }
  run_kernel<host::window_starts, cuda::window_starts>(stream, positions_T, window,
                                                       first_T);
}

void attention_cached(Stream& stream, Arena& scratch, const AttentionShape& shape,
                      std::int64_t past, const TensorView& q, const TensorView& k_cache,
                      const TensorView& v_cache, const TensorView& o,
                      const TensorView& lse_TH) {
  check_shape("attention_cached", stream, shape);
  check_scratch("attention_cached", stream, scratch);
  const Checks checks("attention_cached", stream);
  checks.matrix({"q", q});
  const DType type = q.dtype();
  checks.tensor({"q", q}, type, query_shape(shape));
  checks.tensor({"o", o}, type, query_shape(shape));
  require(k_cache.shape().rank() == 3,
          "attention_cached: k_cache has shape {}, but [B, C, G * K] was expected",
          k_cache.shape());
  const std::int64_t capacity = k_cache.dim(1);
  require(past >= 0 && past + shape.sequence <= capacity,
          "attention_cached: positions {} to {} do not fit a cache of {}", past,
          past + shape.sequence, capacity);
  const Shape cache{shape.batch, capacity, shape.kv_heads * shape.head_width};
  checks.tensor({"k_cache", k_cache}, type, cache);
  checks.tensor({"v_cache", v_cache}, type, cache);
  if (!lse_TH.empty())
    checks.tensor({"lse", lse_TH}, accumulator_of(type), lse_shape(shape));
  const ProfileScope scope(family);
  const AttentionPart part = AttentionPart::whole(shape.sequence, past);
  constexpr std::int64_t few_queries = 4;
  if (stream.device().is_cuda() || shape.sequence > few_queries || shape.dropout.rate > 0)
    return forward(stream, scratch, shape, part, q, k_cache, v_cache, o, lse_TH);
  meter(stream, shape, part, q, k_cache, false);
  host::attention_of_few(scratch, shape, past, threads(), q, k_cache, v_cache, o, lse_TH);
}

}  // namespace trireme::kernels
