// Attention backward of a part, on the host: scores are computed again, block by block.
// SPDX-License-Identifier: Apache-2.0
// Legend: B sequences, S positions, H query heads, G key/value heads, K head width.
// Source: Dao, "FlashAttention-2", 2023, algorithm 2, with s' = scale log2(e) q k^T.
// A task is one sequence and one key/value head: it alone adds to that dk and dv, in a
// fixed order of query heads and blocks, so that no sum depends on the threads.
#include "base/memory.hpp"
#include "kernels/host/attention.hpp"
#include "kernels/host/attention_blocks.hpp"
#include "kernels/host/attention_dropout.hpp"
#include "kernels/host/attention_products.hpp"

namespace trireme::kernels::host {
namespace {

using namespace blocks;
using simd::Vector;

template <class T>
struct Operands {
  const AttentionShape& shape;
  PartBlocks part;
  Heads<const T> d_o, q, k, v, o;
  Heads<const Accumulator<T>> lse;
  Target<T> dq, dk, dv;
};

// What is kept of each of the query blocks of a group; rows are [block][K], columns
// (`_t`) [K][block].
template <class A>
struct QueryBlocks {
  A *q, *q_t, *d_o, *do_t, *dq_t;
  A *lse, *delta;  // [block], in units of log 2; row sums of do * o

  QueryBlocks(Pieces<A>& pieces, std::int64_t blocks, std::int64_t stride) {
    for (A** matrix : {&q, &q_t, &d_o, &do_t, &dq_t})
      *matrix = pieces.take(blocks * block * stride);
    for (A** column : {&lse, &delta}) *column = pieces.take(blocks * block);
  }
};

template <class T, class Products>
class Backward {
  using A = Accumulator<T>;
  static constexpr std::int64_t stripe_keys = Products::stripe_keys;

 public:
  static std::int64_t memory(const AttentionShape& shape, const PartBlocks& part) {
    const std::int64_t stride = padded(shape.head_width);
    return group_blocks(part.queries) * (5 * block * stride + 2 * block) +
           3 * block * stride + 2 * block * block + 2 * part.keys * stride +
           FirstKeys<A>::memory(shape, part) + DroppedBlocks<A>::memory(shape);
  }

  Backward(const Operands<T>& operands, A* memory)
      : operands_(operands),
        width_(operands.shape.head_width),
        stride_(padded(width_)),
        factor_(static_cast<A>(operands.shape.scale * std::numbers::log2e)),
        cap_(static_cast<A>(operands.shape.cap * std::numbers::log2e)),
        pieces_{memory},
        queries_(pieces_, group_blocks(operands.part.queries), stride_),
        first_keys_(operands.shape, operands.part, pieces_),
        dropped_(operands.shape, operands.part, pieces_) {
    keys_ = Products::take_keys(pieces_, stride_);
    values_ = Products::take_keys(pieces_, stride_);
    rows_ = pieces_.take(block * stride_);
    p_t_ = pieces_.take(block * block);
    ds_t_ = pieces_.take(block * block);
    dk_ = pieces_.take(operands.part.keys * stride_);
    dv_ = pieces_.take(operands.part.keys * stride_);
  }

  // Key/value head g of sequence b, with all its query heads.
  void run(std::int64_t b, std::int64_t g) {
    const AttentionShape& shape = operands_.shape;
    const std::int64_t queries = operands_.part.queries, keys = operands_.part.keys;
    std::fill_n(dk_, keys * stride_, A(0));
    std::fill_n(dv_, keys * stride_, A(0));
    for (std::int64_t h = 0; h < shape.heads; ++h)
      if (shape.kv_head[static_cast<std::size_t>(h)] == g)
        for (std::int64_t first = 0; first < queries; first += group * block)
          run_group(b, g, h, first, std::min(first + group * block, queries));
    operands_.dk.put(dk_, keys, width_, static_cast<A>(shape.scale), b, 0, g * width_);
    operands_.dv.put(dv_, keys, width_, A(1), b, 0, g * width_);
  }

 private:
  static std::int64_t columns(std::int64_t rows) { return round_up(rows, stripe_keys); }

  // Queries [first, end) of head h.
  void run_group(std::int64_t b, std::int64_t g, std::int64_t h, std::int64_t first,
                 std::int64_t end) {
    const PartBlocks& part = operands_.part;
    const auto rows = [&](std::int64_t at) { return std::min(block, end - at); };
    for (std::int64_t at = first; at < end; at += block)
      start(b, h, at, rows(at), at - first);
    for (std::int64_t key = part.lowest(); key < part.last(end); key += block) {
      const Range in = part.block_keys(key);
      if (first_keys_.hides_all_from(divide_up(end - first, block), in)) continue;
      Products::pack_both(operands_.k.at(b, in.begin, g * width_), operands_.k.row,
                          in.count(), width_, keys_);
      Products::pack_by_width(operands_.v.at(b, in.begin, g * width_), operands_.v.row,
                              in.count(), width_, values_);
      for (std::int64_t at = first; at < end; at += block)
        if (at >= key && !first_keys_.hides_all((at - first) / block, in))
          update(at - first, rows(at), in, at == key);
    }
    for (std::int64_t at = first; at < end; at += block) {
      A* dq_t = queries_.dq_t + (at - first) * stride_;
      const bool fresh = fresh_[static_cast<std::size_t>((at - first) / block)];
      std::fill(dq_t + (fresh ? 0 : width_) * block, dq_t + stride_ * block, A(0));
      simd::transpose(stride_, columns(rows(at)), A(1), dq_t, block, rows_, stride_);
      operands_.dq.put(rows_, rows(at), width_, static_cast<A>(operands_.shape.scale), b,
                       at, h * width_);
    }
  }

  // Packs queries [at, at + rows) as the block that begins at `offset` of the group.
  // Columns beyond `rows` are zero, which makes their p finite and their ds zero.
  void start(std::int64_t b, std::int64_t h, std::int64_t at, std::int64_t rows,
             std::int64_t offset) {
    const Operands<T>& x = operands_;
    const std::int64_t padded_rows = columns(rows), matrix = offset * stride_;
    first_keys_.load(offset / block, b, at, rows);
    dropped_.load(offset / block, b, h, at, rows);
    fresh_[static_cast<std::size_t>(offset / block)] = true;
    Products::pack_queries(x.q.at(b, at, h * width_), x.q.row, rows, padded_rows, width_,
                           factor_, queries_.q + matrix, queries_.q_t + matrix);
    Products::pack_queries(x.d_o.at(b, at, h * width_), x.d_o.row, rows, padded_rows,
                           width_, 1, queries_.d_o + matrix, queries_.do_t + matrix);
    std::fill_n(queries_.lse + offset, block, A(0));
    std::fill_n(queries_.delta + offset, block, A(0));
    for (std::int64_t r = 0; r < rows; ++r)
      queries_.lse[offset + r] = *x.lse.at(b, at + r, h) * std::numbers::log2e_v<A>;
    constexpr std::int64_t half = block / 2;  // rows_ holds those of two matrices
    for (std::int64_t first = 0; first < rows; first += half) {
      const std::int64_t count = std::min(half, rows - first);
      const A* d_o = Products::unpacked(queries_.d_o + matrix, first,
                                        x.d_o.at(b, at + first, h * width_), x.d_o.row,
                                        count, width_, rows_ + half * stride_);
      pack_rows(x.o.at(b, at + first, h * width_), x.o.row, count, count, width_, rows_);
      for (std::int64_t r = 0; r < count; ++r)
        queries_.delta[offset + first + r] = dot(d_o + r * stride_, rows_ + r * stride_);
    }
  }

  A dot(const A* x, const A* y) const {
    Vector<A> sum{};
    for (std::int64_t c = 0; c < stride_; c += simd::lanes<A>)
      sum += simd::load_vector(x + c) * simd::load_vector(y + c);
    return simd::sum_lanes<A>(sum);
  }

  // One block of queries and one of keys.
  void update(std::int64_t offset, std::int64_t rows, const Range& keys, bool diagonal) {
    const std::int64_t end = columns(rows), matrix = offset * stride_;
    const bool fresh =
        std::exchange(fresh_[static_cast<std::size_t>(offset / block)], false);
    for_stripes<stripe_keys>(diagonal, keys.count(), [&](const Stripe& s) {
      // 1. s'^T = k q'^T, dp^T = v do^T
      Products::score(s, end, width_, factor_, keys_, queries_.q_t + matrix, p_t_);
      Products::score(s, end, width_, 1, values_, queries_.do_t + matrix, ds_t_);
      if (dropped_.any()) {
        dropped_.draw(s, end, offset / block, keys.begin);
        dropped_.apply(s, end, ds_t_);
      }
      // 2. p = 2^(s' - lse), ds = p (dp - delta), of capped scores times their slope
      if (cap_ > 0) {
        cap_scores(s, end, cap_, p_t_);
        differentiate<true>(s, end, offset, keys, diagonal);
      } else {
        differentiate<false>(s, end, offset, keys, diagonal);
      }
      if (dropped_.any()) dropped_.apply(s, end, p_t_);
      Products::round_gradients(s, end, p_t_, ds_t_);
      // 3. dq^T += k^T ds^T
      Products::sum_keys(s, end, width_, keys_, ds_t_, queries_.dq_t + matrix,
                         {!(fresh && s.key == 0)});
      // 4. dv += p^T do, dk += ds^T q
      const std::int64_t sum_row = (keys.begin + s.key) * stride_;
      Products::add_values(s, rows, stride_, p_t_, queries_.d_o + matrix, dv_ + sum_row);
      Products::add_keys(s, rows, stride_, p_t_, ds_t_, queries_.q + matrix,
                         dk_ + sum_row);
    });
  }

  template <bool capped>
  void differentiate(const Stripe& s, std::int64_t end, std::int64_t offset,
                     const Range& keys, bool diagonal) {
    const std::int64_t i = offset / block;
    const bool hides = first_keys_.hides_some(i, keys);
    const Vector<A> inverse_cap = simd::broadcast(capped ? 1 / cap_ : A(0));
    for (std::int64_t c = s.column; c < end; c += simd::lanes<A>) {
      const Vector<A> lse = simd::load_vector(queries_.lse + offset + c);
      const Vector<A> delta = simd::load_vector(queries_.delta + offset + c);
      const bool masked = diagonal && c < s.column + stripe_keys;
      for (std::int64_t j = s.key; j < s.key + s.keys; ++j) {
        A* p_at = p_t_ + j * block + c;
        A* ds_at = ds_t_ + j * block + c;
        const Vector<A> score = simd::load_vector(p_at);
        Vector<A> p = simd::exp2<A>(score - lse);
        if (masked) p = hidden<A>(c, j) ? Vector<A>{} : p;
        if (hides) p = first_keys_.hidden(i, c, keys.begin + j) ? Vector<A>{} : p;
        simd::store_vector<A>(p_at, p);
        Vector<A> ds = p * (simd::load_vector(ds_at) - delta);
        if constexpr (capped) {
          const Vector<A> t = score * inverse_cap;
          ds *= simd::broadcast(A(1)) - t * t;
        }
        simd::store_vector<A>(ds_at, ds);
      }
    }
  }

  [[no_unique_address]] typename Products::Session session_;
  const Operands<T>& operands_;
  std::int64_t width_, stride_;
  A factor_, cap_;  // in units of log 2
  Pieces<A> pieces_;
  QueryBlocks<A> queries_;
  FirstKeys<A> first_keys_;
  DroppedBlocks<A> dropped_;
  std::array<bool, group> fresh_{};  // query blocks that have no dq^T yet
  PackedKeys<A> keys_, values_;      // of one key block
  A *p_t_, *ds_t_;  // of one pair of blocks: s'^T, then p^T; dp^T, then ds^T
  A* rows_;
  A *dk_, *dv_;  // [keys of the part][K]
};

}  // namespace

void attention_backward(Arena& scratch, const AttentionShape& shape,
                        const AttentionPart& part, std::int64_t workers,
                        const TensorView& do_THK, const TensorView& q_THK,
                        const TensorView& k_TGK, const TensorView& v_TGK,
                        const TensorView& o_THK, const TensorView& lse_TH,
                        const TensorView& dq_THK, const TensorView& dk_TGK,
                        const TensorView& dv_TGK) {
  const std::int64_t S = shape.sequence, tasks = shape.batch * shape.kv_heads;
  const PartBlocks blocks(part);
  if (tasks * blocks.queries == 0) return;
  workers = workers_for(tasks, workers);
  const ArenaScope scope(scratch);
  visit_floating(q_THK.dtype(), [&]<class T>(T) {
    using A = Accumulator<T>;
    const std::int64_t elements =
        round_up(Backward<T, PlainProducts<T>>::memory(shape, blocks), 16);
    const TensorView memory =
        scratch.take(dtype_of<A>, {workers, elements}, "attention backward");
    if (scratch.device().is_meta()) return;
    const std::int64_t query = part.queries.begin, key = part.keys.begin;
    const Operands<T> operands{
        shape,
        blocks,
        heads_of<const T>(do_THK, S, query),
        heads_of<const T>(q_THK, S, query),
        heads_of<const T>(k_TGK, S, key),
        heads_of<const T>(v_TGK, S, key),
        heads_of<const T>(o_THK, S, query),
        heads_of<const A>(lse_TH, S, query),
        Target<T>(dq_THK, S, query, !part.new_queries),
        Target<T>(dk_TGK, S, key, !part.new_keys),
        Target<T>(dv_TGK, S, key, !part.new_keys),
    };
    with_products<T>(shape.head_width, [&]<class Products>(Products) {
      share_tasks("attention backward", tasks, workers,
                  [&](std::int64_t task, std::int64_t worker) {
                    Backward<T, Products>(operands, memory.data<A>() + worker * elements)
                        .run(task / shape.kv_heads, task % shape.kv_heads);
                  });
    });
  });
}

}  // namespace trireme::kernels::host
