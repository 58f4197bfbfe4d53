// Attention forward of a part, on the host: online softmax over blocks of keys.
// SPDX-License-Identifier: Apache-2.0
// Legend: B sequences, S positions, H query heads, G key/value heads, K head width.
// Source: Dao et al., "FlashAttention", 2022, algorithm 1. Scores are kept in units of
// log 2: with s' = scale log2(e) q k^T, softmax is 2^(s' - max) / sum. A part that is
// merged goes on from o and lse of the parts before it: o^T = o, max = lse, sum = 1.
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
  bool merged;
  Heads<const T> q, k, v;
  Target<T> o;
  Heads<Accumulator<T>> lse;  // data may be null
};

// A worker: one head's group of query blocks at a time.
template <class T, class Products>
class Forward {
  using A = Accumulator<T>;
  static constexpr std::int64_t stripe_keys = Products::stripe_keys;

 public:
  static std::int64_t memory(const AttentionShape& shape, const PartBlocks& part) {
    const std::int64_t width = padded(shape.head_width);
    return group_blocks(part.queries) * (2 * block * width + 2 * block) +
           3 * block * width + block * block + block + FirstKeys<A>::memory(shape, part) +
           DroppedBlocks<A>::memory(shape);
  }

  Forward(const Operands<T>& operands, A* memory)
      : operands_(operands),
        width_(operands.shape.head_width),
        stride_(padded(width_)),
        factor_(static_cast<A>(operands.shape.scale * std::numbers::log2e)),
        cap_(static_cast<A>(operands.shape.cap * std::numbers::log2e)),
        pieces_{memory},
        first_keys_(operands.shape, operands.part, pieces_),
        dropped_(operands.shape, operands.part, pieces_) {
    const std::int64_t blocks = group_blocks(operands.part.queries);
    queries_t_ = pieces_.take(blocks * block * stride_);
    outputs_t_ = pieces_.take(blocks * block * stride_);
    keys_ = Products::take_keys(pieces_, stride_);
    values_ = Products::take_keys(pieces_, stride_);
    rows_ = pieces_.take(block * stride_);
    scores_t_ = pieces_.take(block * block);
    maxima_ = pieces_.take(blocks * block);
    sums_ = pieces_.take(blocks * block);
    shrink_ = pieces_.take(block);
  }

  // Queries [first, first + 4 blocks) of head h of sequence b.
  void run(std::int64_t b, std::int64_t h, std::int64_t first) {
    const PartBlocks& part = operands_.part;
    const std::int64_t column =
        operands_.shape.kv_head[static_cast<std::size_t>(h)] * width_;
    const std::int64_t end = std::min(first + group * block, part.queries);
    for (std::int64_t at = first; at < end; at += block) start(b, h, first, at, end);
    for (std::int64_t key = part.lowest(); key < part.last(end); key += block) {
      const Range rows = part.block_keys(key);
      const std::int64_t keys = rows.count();
      if (first_keys_.hides_all_from(divide_up(end - first, block), rows)) continue;
      Products::pack_by_width(operands_.k.at(b, rows.begin, column), operands_.k.row,
                              keys, width_, keys_);
      Products::pack_by_rows(operands_.v.at(b, rows.begin, column), operands_.v.row, keys,
                             width_, values_);
      for (std::int64_t at = first; at < end; at += block) {
        const std::int64_t i = (at - first) / block;
        if (at >= key && !first_keys_.hides_all(i, rows))
          update(i, end - at, rows, at == key);
      }
    }
    for (std::int64_t at = first; at < end; at += block) finish(b, h, first, at, end);
  }

 private:
  static std::int64_t columns(std::int64_t left) {
    return round_up(std::min(left, block), stripe_keys);
  }

  void start(std::int64_t b, std::int64_t h, std::int64_t first, std::int64_t at,
             std::int64_t end) {
    const std::int64_t i = (at - first) / block;
    Products::pack_columns(operands_.q.at(b, at, h * width_), operands_.q.row,
                           std::min(block, end - at), columns(end - at), width_, factor_,
                           rows_, queries_t_ + i * block * stride_);
    std::fill_n(maxima_ + i * block, block, -std::numeric_limits<A>::infinity());
    std::fill_n(sums_ + i * block, block, A(0));
    first_keys_.load(i, b, at, std::min(block, end - at));
    dropped_.load(i, b, h, at, std::min(block, end - at));
    fresh_[static_cast<std::size_t>(i)] = !operands_.merged;
    if (operands_.merged) resume(b, h, at, std::min(block, end - at), i);
  }

  // Goes on from what earlier parts left of queries [at, at + rows), block i.
  void resume(std::int64_t b, std::int64_t h, std::int64_t at, std::int64_t rows,
              std::int64_t i) {
    const Heads<A>& o = operands_.o.sums();
    pack_rows(o.at(b, at, h * width_), o.row, rows, columns(rows), width_, rows_);
    simd::transpose(columns(rows), stride_, A(1), rows_, stride_,
                    outputs_t_ + i * block * stride_, block);
    for (std::int64_t r = 0; r < rows; ++r)
      maxima_[i * block + r] = *operands_.lse.at(b, at + r, h) * std::numbers::log2e_v<A>;
    std::fill_n(sums_ + i * block, rows, A(1));
  }

  // Takes one block of keys into account for query block i.
  void update(std::int64_t i, std::int64_t left, const Range& rows, bool diagonal) {
    const std::int64_t end = columns(left), keys = rows.count();
    const bool masked = first_keys_.hides_some(i, rows);
    const bool fresh = std::exchange(fresh_[static_cast<std::size_t>(i)], false);
    const A* queries_t = queries_t_ + i * block * stride_;
    A* outputs_t = outputs_t_ + i * block * stride_;
    // 1. s'^T = k q'^T
    for_stripes<stripe_keys>(diagonal, keys, [&](const Stripe& s) {
      Products::score(s, end, width_, factor_, keys_, queries_t, scores_t_);
      if (cap_ > 0) cap_scores(s, end, cap_, scores_t_);
      if (diagonal) hide(s);
      if (masked) hide_earlier(s, i, rows.begin, end);
    });
    // 2. p^T = 2^(s'^T - max), and by how much the new maximum shrinks earlier sums
    raise_maxima(maxima_ + i * block, keys, end, diagonal, masked);
    for_stripes<stripe_keys>(diagonal, keys, [&](const Stripe& s) {
      exponentials(s, end, maxima_ + i * block, sums_ + i * block);
      if (dropped_.any()) {
        dropped_.draw(s, end, i, rows.begin);
        dropped_.apply(s, end, scores_t_);
      }
      Products::round_keys(s, end, scores_t_);
    });
    // 3. o^T = shrink o^T + v^T p^T
    for_stripes<stripe_keys>(diagonal, keys, [&](const Stripe& s) {
      const bool kept = !(fresh && s.key == 0);
      Products::sum_keys(s, end, width_, values_, scores_t_, outputs_t,
                         {kept, kept && s.key == 0 ? shrink_ : nullptr});
    });
  }

  void hide(const Stripe& s) {
    constexpr A never = -std::numeric_limits<A>::infinity();
    for (std::int64_t j = s.key; j < s.key + s.keys; ++j)
      for (std::int64_t c = s.column; c < s.column + stripe_keys; c += simd::lanes<A>) {
        A* at = scores_t_ + j * block + c;
        const Vector<A> x = simd::load_vector(at);
        simd::store_vector<A>(at, hidden<A>(c, j) ? simd::broadcast(never) : x);
      }
  }

  // Hides the keys of a block, from key `begin` on, that lie before the first of a query.
  void hide_earlier(const Stripe& s, std::int64_t i, std::int64_t begin,
                    std::int64_t end) {
    constexpr A never = -std::numeric_limits<A>::infinity();
    for (std::int64_t j = s.key; j < s.key + s.keys; ++j)
      for (std::int64_t c = s.column; c < end; c += simd::lanes<A>) {
        A* at = scores_t_ + j * block + c;
        const Vector<A> x = simd::load_vector(at);
        simd::store_vector<A>(
            at, first_keys_.hidden(i, c, begin + j) ? simd::broadcast(never) : x);
      }
  }

  // maxima = max over keys so far; sums and shrink_ follow. Where queries may have seen
  // nothing yet (`masked`), the maximum is kept finite, so that differences are numbers.
  void raise_maxima(A* maxima, std::int64_t keys, std::int64_t end, bool diagonal,
                    bool masked) {
    constexpr A least = std::numeric_limits<A>::lowest() / 4;
    A* sums = sums_ + (maxima - maxima_);
    for (std::int64_t c = 0; c < end; c += simd::lanes<A>) {
      const std::int64_t visible =
          diagonal ? std::min(keys, round_up(c + 1, stripe_keys)) : keys;
      const Vector<A> before = simd::load_vector(maxima + c);
      Vector<A> even = before, odd = before;
      const A* scores = scores_t_ + c;
      std::int64_t j = 0;
      for (; j + 1 < visible; j += 2) {
        even = simd::greater<A>(even, simd::load_vector(scores + j * block));
        odd = simd::greater<A>(odd, simd::load_vector(scores + (j + 1) * block));
      }
      if (j < visible)
        even = simd::greater<A>(even, simd::load_vector(scores + j * block));
      Vector<A> after = simd::greater<A>(even, odd);
      if (masked) after = simd::greater<A>(simd::broadcast(least), after);
      const Vector<A> shrink = simd::exp2<A>(before - after);
      simd::store_vector<A>(maxima + c, after);
      simd::store_vector<A>(shrink_ + c, shrink);
      simd::store_vector<A>(sums + c, shrink * simd::load_vector(sums + c));
    }
  }

  void exponentials(const Stripe& s, std::int64_t end, const A* maxima, A* sums) {
    for (std::int64_t c = s.column; c < end; c += simd::lanes<A>) {
      const Vector<A> maximum = simd::load_vector(maxima + c);
      Vector<A> sum = simd::load_vector(sums + c);
      for (std::int64_t j = s.key; j < s.key + s.keys; ++j) {
        A* at = scores_t_ + j * block + c;
        const Vector<A> p = simd::exp2<A>(simd::load_vector(at) - maximum);
        simd::store_vector<A>(at, p);
        sum += p;
      }
      simd::store_vector<A>(sums + c, sum);
    }
  }

  // o = o^T / sum, lse = ln 2 max + ln sum; 0 and minus infinity where no key was seen
  void finish(std::int64_t b, std::int64_t h, std::int64_t first, std::int64_t at,
              std::int64_t end) {
    const std::int64_t offset = at - first, rows = std::min(block, end - at);
    A* outputs_t = outputs_t_ + offset * stride_;
    A* maxima = maxima_ + offset;  // becomes lse
    const A* sums = sums_ + offset;
    if (fresh_[static_cast<std::size_t>(offset / block)])
      std::fill_n(outputs_t, width_ * block, A(0));
    for (std::int64_t c = 0; c < columns(rows); c += simd::lanes<A>) {
      const Vector<A> sum = simd::load_vector(sums + c);
      const auto none = sum == Vector<A>{};
      const Vector<A> inverse = none ? Vector<A>{} : A(1) / sum;
      for (std::int64_t k = 0; k < width_; ++k) {
        A* x = outputs_t + k * block + c;
        simd::store_vector<A>(x, inverse * simd::load_vector(x));
      }
      const Vector<A> maximum = simd::load_vector(maxima + c);
      const Vector<A> lse = maximum * std::numbers::ln2_v<A> + simd::log<A>(sum);
      simd::store_vector<A>(
          maxima + c, none ? simd::broadcast(-std::numeric_limits<A>::infinity()) : lse);
    }
    std::fill(outputs_t + width_ * block, outputs_t + stride_ * block, A(0));
    simd::transpose(stride_, columns(rows), A(1), outputs_t, block, rows_, stride_);
    operands_.o.put(rows_, rows, width_, A(1), b, at, h * width_);
    if (operands_.lse.data == nullptr) return;
    for (std::int64_t r = 0; r < rows; ++r) *operands_.lse.at(b, at + r, h) = maxima[r];
  }

  [[no_unique_address]] typename Products::Session session_;
  const Operands<T>& operands_;
  std::int64_t width_, stride_;
  A factor_, cap_;  // in units of log 2
  Pieces<A> pieces_;
  FirstKeys<A> first_keys_;
  DroppedBlocks<A> dropped_;
  std::array<bool, group> fresh_{};  // query blocks that have no o^T yet
  // Of each query block: q'^T and o^T [K][block], max and sum [block].
  A *queries_t_, *outputs_t_, *maxima_, *sums_;
  PackedKeys<A> keys_, values_;  // of one key block
  A* scores_t_;                  // and its s'^T [block][block]
  A *rows_, *shrink_;
};

}  // namespace

void attention(Arena& scratch, const AttentionShape& shape, const AttentionPart& part,
               std::int64_t workers, const TensorView& q_THK, const TensorView& k_TGK,
               const TensorView& v_TGK, const TensorView& o_THK,
               const TensorView& lse_TH) {
  const std::int64_t S = shape.sequence;
  const PartBlocks blocks(part);
  const std::int64_t groups = divide_up(blocks.queries, group * block);
  const std::int64_t tasks = shape.batch * shape.heads * groups;
  if (tasks == 0) return;
  require(part.new_queries || o_THK.dtype() == accumulator_of(o_THK.dtype()),
          "attention is merged into {}", name_of(o_THK.dtype()));
  workers = workers_for(tasks, workers);
  const ArenaScope scope(scratch);
  visit_floating(q_THK.dtype(), [&]<class T>(T) {
    using A = Accumulator<T>;
    const std::int64_t elements =
        round_up(Forward<T, PlainProducts<T>>::memory(shape, blocks), 16);
    const TensorView memory = scratch.take(dtype_of<A>, {workers, elements}, "attention");
    if (scratch.device().is_meta()) return;
    const std::int64_t query = part.queries.begin, key = part.keys.begin;
    const Operands<T> operands{
        shape,
        blocks,
        !part.new_queries,
        heads_of<const T>(q_THK, S, query),
        heads_of<const T>(k_TGK, S, key),
        heads_of<const T>(v_TGK, S, key),
        Target<T>(o_THK, S, query, false),  // merging writes the whole sum
        heads_of<A>(lse_TH, S, query),
    };
    // The longest tasks first: those of the last queries.
    with_products<T>(shape.head_width, [&]<class Products>(Products) {
      const auto run = [&](std::int64_t task, std::int64_t worker) {
        const std::int64_t pair = task % (shape.batch * shape.heads);
        const std::int64_t from_last = task / (shape.batch * shape.heads);
        Forward<T, Products>(operands, memory.data<A>() + worker * elements)
            .run(pair / shape.heads, pair % shape.heads,
                 (groups - 1 - from_last) * group * block);
      };
      share_tasks("attention", tasks, workers, run);
    });
  });
}

void count_positions_below(Stream& /*stream*/, const TensorView& positions_T,
                           std::span<const Range> chunks, const TensorView& counts_T) {
  const auto positions = positions_T.span<std::int32_t>();
  const auto counts = counts_T.span<std::int32_t>();
  for (std::size_t t = 0; t < positions.size(); ++t) {
    std::int64_t count = 0;
    for (const Range& chunk : chunks)
      count += std::clamp<std::int64_t>(positions[t] - chunk.begin, 0, chunk.count());
    counts[t] = static_cast<std::int32_t>(count);
  }
}

void window_starts(Stream& /*stream*/, const TensorView& positions_T, std::int64_t window,
                   const TensorView& first_T) {
  const auto positions = positions_T.span<std::int32_t>();
  const auto first = first_T.span<std::int32_t>();
  for (std::size_t t = 0; t < positions.size(); ++t)
    first[t] =
        static_cast<std::int32_t>(std::max<std::int64_t>(positions[t] - window + 1, 0));
}

}  // namespace trireme::kernels::host
