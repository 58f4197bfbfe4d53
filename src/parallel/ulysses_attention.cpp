// Ulysses attention: heads are exchanged for positions and back.
// SPDX-License-Identifier: Apache-2.0
// Legend: n ranks, B sequences, L rows of a sequence on a rank, S = n * L, T = B * L, H
// query heads, G key/value heads, K head width; P = H / n query heads and U slots for
// key/value heads of one rank. Rows that are exchanged are [B, n, L, columns]: outside, n
// counts the ranks that the rows go to or come from; inside, [n, L] are the S positions.
#include "parallel/ulysses_attention.hpp"

#include <algorithm>
#include <array>

#include "kernels/elementwise.hpp"

namespace trireme::parallel {
namespace {

using kernels::AttentionShape;

std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

// Which key/value heads each rank gets: those that its query heads use, ascending. Where
// ranks use different numbers of heads, the slots that are left repeat the last head, and
// no query uses them: their gradients are zero.
struct Slots {
  std::vector<std::vector<std::int32_t>> heads_PU;  // of each rank, without repetition
  std::int64_t count = 0;                           // U

  Slots(const AttentionShape& shape, std::int64_t ranks) : heads_PU(index(ranks)) {
    const std::int64_t P = shape.heads / ranks;
    for (std::int64_t p = 0; p < ranks; ++p) {
      auto& heads = heads_PU[index(p)];
      heads.assign(shape.kv_head.begin() + p * P, shape.kv_head.begin() + (p + 1) * P);
      std::sort(heads.begin(), heads.end());
      heads.erase(std::unique(heads.begin(), heads.end()), heads.end());
      count = std::max(count, static_cast<std::int64_t>(heads.size()));
    }
  }
  std::int64_t head(std::int64_t p, std::int64_t slot) const {
    const auto& heads = heads_PU[index(p)];
    return heads[std::min(index(slot), heads.size() - 1)];
  }
};

// The attention of rank p on whole sequences.
AttentionShape inner_shape(const AttentionShape& shape, const Slots& slots,
                           std::int64_t ranks, std::int64_t p) {
  AttentionShape inner = shape;
  inner.sequence = shape.sequence * ranks;
  inner.heads = shape.heads / ranks;
  inner.kv_heads = slots.count;
  inner.kv_head.clear();
  inner.dropout.first_head += p * inner.heads;
  const auto& heads = slots.heads_PU[index(p)];
  for (std::int64_t h = 0; h < inner.heads; ++h) {
    const std::int32_t g = shape.kv_head[index(p * inner.heads + h)];
    inner.kv_head.push_back(static_cast<std::int32_t>(
        std::lower_bound(heads.begin(), heads.end(), g) - heads.begin()));
  }
  return inner;
}

}  // namespace

// One call's plan, and the moves that forward and backward share.
class UlyssesAttention::Exchange {
 public:
  Exchange(UlyssesAttention& core, Stream& stream, Arena& scratch,
           const AttentionShape& shape)
      : core_(core),
        stream_(stream),
        scratch_(scratch),
        shape_(shape),
        n_(core.group_.size()),
        slots_(checked(shape, core.group_), n_),
        inner_(inner_shape(shape, slots_, n_, core.group_.rank())) {
    gather_documents();
  }

  const AttentionShape& inner() const { return inner_; }
  std::int64_t query_columns() const { return inner_.heads * inner_.head_width; }
  std::int64_t key_columns() const { return slots_.count * inner_.head_width; }
  // Columns of [q, k, v] and of their gradients.
  std::int64_t fused_columns() const { return query_columns() + 2 * key_columns(); }

  TensorView take(DType dtype, std::int64_t columns) const {
    return scratch_.take(dtype, {shape_.batch * inner_.sequence, columns}, "ulysses");
  }

  // Rows of sequence b that go to, or come from, rank p.
  TensorView rows(const TensorView& exchanged, std::int64_t b, std::int64_t p) const {
    return exchanged.rows((b * n_ + p) * shape_.sequence, shape_.sequence);
  }

  // Each rank's query heads of x [T, H * width] as columns `column`... of what it gets.
  void pack_queries(const TensorView& x, std::int64_t width, const TensorView& to,
                    std::int64_t column) const {
    for_ranks([&](std::int64_t b, std::int64_t p) {
      const std::int64_t columns = inner_.heads * width;
      kernels::copy(stream_, outside(x, b).columns(p * columns, columns),
                    rows(to, b, p).columns(column, columns));
    });
  }
  void unpack_queries(const TensorView& from, std::int64_t column, std::int64_t width,
                      const TensorView& x) const {
    for_ranks([&](std::int64_t b, std::int64_t p) {
      const std::int64_t columns = inner_.heads * width;
      kernels::copy(stream_, rows(from, b, p).columns(column, columns),
                    outside(x, b).columns(p * columns, columns));
    });
  }

  // The same for the key/value heads in each rank's slots, of x [T, G * K].
  void pack_keys(const TensorView& x, const TensorView& to, std::int64_t column) const {
    const std::int64_t K = shape_.head_width;
    for_ranks([&](std::int64_t b, std::int64_t p) {
      for (std::int64_t slot = 0; slot < slots_.count; ++slot)
        kernels::copy(stream_, outside(x, b).columns(slots_.head(p, slot) * K, K),
                      rows(to, b, p).columns(column + slot * K, K));
    });
  }
  // x [T, G * K] = for each head, the sum over the ranks that had it, in rank order.
  void sum_keys(const TensorView& from, std::int64_t column, const TensorView& x) const {
    const ArenaScope scope(scratch_);
    const std::int64_t L = shape_.sequence, K = shape_.head_width;
    const TensorView parts_PN =
        scratch_.take(accumulator_of(x.dtype()), {n_, L * K}, "ulysses sum");
    const auto part = [&](std::int64_t i) { return parts_PN.rows(i, 1).reshape({L, K}); };
    for (std::int64_t b = 0; b < shape_.batch; ++b)
      for (std::int64_t g = 0; g < shape_.kv_heads; ++g) {
        std::int64_t count = 0;
        for (std::int64_t p = 0; p < n_; ++p) {
          const auto& heads = slots_.heads_PU[index(p)];
          const auto slot = std::lower_bound(heads.begin(), heads.end(), g);
          if (slot == heads.end() || *slot != g) continue;
          kernels::copy(stream_,
                        rows(from, b, p).columns(column + (slot - heads.begin()) * K, K),
                        part(count++));
        }
        if (count == 0) kernels::fill(stream_, part(0), 0);
        if (count > 1)
          kernels::sum_parts(stream_, parts_PN.rows(0, count), part(0).reshape({L * K}));
        kernels::copy(stream_, part(0), outside(x, b).columns(g * K, K));
      }
  }

  // to = from, with the n of each sequence's rows exchanged between the ranks.
  void exchange(const TensorView& from, const TensorView& to) const {
    const std::int64_t S = inner_.sequence;
    for (std::int64_t b = 0; b < shape_.batch; ++b)
      core_.in_flight_.push_back(
          core_.group_.all_to_all(stream_, from.rows(b * S, S), to.rows(b * S, S)));
  }
  void wait() const {
    for (comm::Handle& handle : core_.in_flight_) handle.wait();
    core_.in_flight_.clear();
  }

 private:
  static const AttentionShape& checked(const AttentionShape& shape,
                                       const comm::Group& group) {
    require(shape.heads % group.size() == 0,
            "Ulysses attention cannot share {} query heads among the {} ranks of '{}': "
            "the heads of a rank of the tensor axis must be a multiple; ring attention "
            "takes any number",
            shape.heads, group.size(), group.name());
    return shape;
  }
  // first_T of whole sequences.
  void gather_documents() {
    if (shape_.first_T.empty()) return;
    const std::int64_t L = shape_.sequence, S = inner_.sequence;
    inner_.first_T = scratch_.take(DType::i32, {shape_.batch * S}, "first keys");
    for (std::int64_t b = 0; b < shape_.batch; ++b)
      core_.in_flight_.push_back(core_.group_.all_gather(
          stream_, shape_.first_T.rows(b * L, L), inner_.first_T.rows(b * S, S)));
    wait();
  }
  template <class F>
  void for_ranks(const F& f) const {
    for (std::int64_t b = 0; b < shape_.batch; ++b)
      for (std::int64_t p = 0; p < n_; ++p) f(b, p);
  }
  TensorView outside(const TensorView& x, std::int64_t b) const {
    return x.rows(b * shape_.sequence, shape_.sequence);
  }

  UlyssesAttention& core_;
  Stream& stream_;
  Arena& scratch_;
  const AttentionShape& shape_;
  std::int64_t n_;
  Slots slots_;
  AttentionShape inner_;
};

void UlyssesAttention::forward(Stream& stream, Arena& scratch,
                               const AttentionShape& shape, const TensorView& q_THK,
                               const TensorView& k_TGK, const TensorView& v_TGK,
                               const TensorView& o_THK, const TensorView& lse_TH) {
  if (group_.size() == 1 || shape.heads == 0)
    return kernels::attention(stream, scratch, shape, q_THK, k_TGK, v_TGK, o_THK, lse_TH);
  const ArenaScope scope(scratch);
  const Exchange x(*this, stream, scratch, shape);
  const std::int64_t Q = x.query_columns(), U = x.key_columns(), K = shape.head_width;
  // 1. Positions for heads
  const TensorView packed = x.take(q_THK.dtype(), x.fused_columns());
  x.pack_queries(q_THK, K, packed, 0);
  x.pack_keys(k_TGK, packed, Q);
  x.pack_keys(v_TGK, packed, Q + U);
  const TensorView qkv = x.take(q_THK.dtype(), x.fused_columns());
  x.exchange(packed, qkv);
  x.wait();
  // 2. Attention on whole sequences
  const TensorView o = x.take(o_THK.dtype(), Q);
  const TensorView lse = x.take(lse_TH.dtype(), x.inner().heads);
  kernels::attention(stream, scratch, x.inner(), qkv.columns(0, Q), qkv.columns(Q, U),
                     qkv.columns(Q + U, U), o, lse);
  // 3. Heads for positions
  const TensorView o_back = x.take(o_THK.dtype(), Q);
  const TensorView lse_back = x.take(lse_TH.dtype(), x.inner().heads);
  x.exchange(o, o_back);
  x.exchange(lse, lse_back);
  x.wait();
  x.unpack_queries(o_back, 0, K, o_THK);
  x.unpack_queries(lse_back, 0, 1, lse_TH);
}

void UlyssesAttention::backward(Stream& stream, Arena& scratch,
                                const AttentionShape& shape, const TensorView& do_THK,
                                const TensorView& q_THK, const TensorView& k_TGK,
                                const TensorView& v_TGK, const TensorView& o_THK,
                                const TensorView& lse_TH, const TensorView& dq_THK,
                                const TensorView& dk_TGK, const TensorView& dv_TGK) {
  if (group_.size() == 1 || shape.heads == 0)
    return kernels::attention_backward(stream, scratch, shape, do_THK, q_THK, k_TGK,
                                       v_TGK, o_THK, lse_TH, dq_THK, dk_TGK, dv_TGK);
  const ArenaScope scope(scratch);
  const Exchange x(*this, stream, scratch, shape);
  const std::int64_t Q = x.query_columns(), U = x.key_columns(), K = shape.head_width;
  const std::int64_t fused = x.fused_columns();
  // 3. Positions for heads, and again those of 1.
  const TensorView packed = x.take(q_THK.dtype(), fused + 2 * Q);
  x.pack_queries(q_THK, K, packed, 0);
  x.pack_keys(k_TGK, packed, Q);
  x.pack_keys(v_TGK, packed, Q + U);
  x.pack_queries(o_THK, K, packed, fused);
  x.pack_queries(do_THK, K, packed, fused + Q);
  const TensorView lse_packed = x.take(lse_TH.dtype(), x.inner().heads);
  x.pack_queries(lse_TH, 1, lse_packed, 0);
  const TensorView all = x.take(q_THK.dtype(), fused + 2 * Q);
  const TensorView lse = x.take(lse_TH.dtype(), x.inner().heads);
  x.exchange(packed, all);
  x.exchange(lse_packed, lse);
  x.wait();
  // 2. Attention on whole sequences
  const TensorView d_all = x.take(q_THK.dtype(), fused);
  kernels::attention_backward(stream, scratch, x.inner(), all.columns(fused + Q, Q),
                              all.columns(0, Q), all.columns(Q, U), all.columns(Q + U, U),
                              all.columns(fused, Q), lse, d_all.columns(0, Q),
                              d_all.columns(Q, U), d_all.columns(Q + U, U));
  // 1. Heads for positions
  const TensorView d_back = x.take(q_THK.dtype(), fused);
  x.exchange(d_all, d_back);
  x.wait();
  x.unpack_queries(d_back, 0, K, dq_THK);
  x.sum_keys(d_back, Q, dk_TGK);
  x.sum_keys(d_back, Q + U, dv_TGK);
}

}  // namespace trireme::parallel
