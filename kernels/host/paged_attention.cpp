// Paged attention on the host: each row by itself, over tiles of 64 positions.
// SPDX-License-Identifier: Apache-2.0
// Tiles begin at multiples of 64 of a text's positions and keys are summed in their
// order, so that a row's result does not depend on what runs beside it. Scores are kept
// in units of log 2, as in attention_forward.cpp.
#include "kernels/host/paged_attention.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>
#include <vector>

#include "kernels/host/attention_blocks.hpp"
#include "kernels/host/paged_cache.hpp"

namespace trireme::kernels::host {
namespace {

using blocks::Pieces;
using simd::Vector;

constexpr std::int64_t tile = 64;          // positions
constexpr std::int64_t most_queries = 32;  // (row, head) pairs of a task, if it has rows

// Rows [first, end) of a text with one key/value head.
struct Task {
  const PagedText* text;
  std::int64_t head, first, end;
};

template <class T>
class Worker {
  using A = Accumulator<T>;
  static constexpr int lanes = simd::lanes<A>;

 public:
  static std::int64_t memory(std::int64_t queries, std::int64_t width) {
    return (2 * queries + 2 * tile) * blocks::padded(width) + tile + 2 * queries;
  }

  Worker(const AttentionShape& shape, std::int64_t queries, A* memory)
      : shape_(shape), width_(shape.head_width), stride_(blocks::padded(width_)) {
    Pieces<A> pieces{memory};
    queries_ = pieces.take(queries * stride_);
    outputs_ = pieces.take(queries * stride_);
    keys_ = pieces.take(tile * stride_);
    values_ = pieces.take(tile * stride_);
    scores_ = pieces.take(tile);
    maxima_ = pieces.take(queries);
    sums_ = pieces.take(queries);
    // What rows have beyond their width is multiplied by 0. Rows that hold no position
    // may be anything: nothing of what comes of them is used.
    if (stride_ > width_) std::fill_n(keys_, 2 * tile * stride_, A(0));
  }

  void run(const Task& task, std::span<const std::int64_t> heads, const TensorView& q_THK,
           const PagedCache& cache, const TensorView& o_THK, const TensorView& lse_TH) {
    const auto H = static_cast<std::int64_t>(heads.size());
    const BlockRows<A> keys(cache.keys, cache.key_scales, shape_.kv_heads, task.head);
    const bool same = cache.values_are_keys();
    const BlockRows<A> values(same ? cache.keys : cache.values,
                              same ? cache.key_scales : cache.value_scales,
                              shape_.kv_heads, task.head);
    std::int64_t lowest = std::numeric_limits<std::int64_t>::max();
    for (std::int64_t row = task.first; row < task.end; ++row) {
      lowest = std::min(lowest, first_of(row));
      for (std::int64_t h = 0; h < H; ++h)
        start((row - task.first) * H + h,
              q_THK.data<T>() + row * q_THK.stride(0) +
                  heads[static_cast<std::size_t>(h)] * width_);
    }
    const std::int64_t past = task.text->past - task.text->rows.begin;
    const Range seen{lowest, past + task.end};
    for (std::int64_t at = lowest / tile * tile; at < seen.end; at += tile) {
      const std::int64_t begin = std::max(at, lowest),
                         end = std::min(at + tile, seen.end);
      const std::int64_t place = (begin - at) * stride_;
      const typename BlockRows<A>::Next tile_behind{keys, tile, tile, seen};
      keys.read(task.text->blocks, begin, end,
                same ? tile_behind : typename BlockRows<A>::Next{values, 0, tile, seen},
                keys_ + place, stride_);
      if (!same)
        values.read(task.text->blocks, begin, end, tile_behind, values_ + place, stride_);
      for (std::int64_t row = task.first; row < task.end; ++row) {
        const Range of_row{std::max(first_of(row), at) - at,
                           std::min(past + row + 1, at + tile) - at};
        if (of_row.begin >= of_row.end) continue;
        for (std::int64_t h = 0; h < H; ++h)
          update((row - task.first) * H + h, of_row, same ? keys_ : values_);
      }
    }
    for (std::int64_t row = task.first; row < task.end; ++row)
      for (std::int64_t h = 0; h < H; ++h) {
        const std::int64_t head = heads[static_cast<std::size_t>(h)];
        A* const lse =
            lse_TH.empty() ? nullptr : lse_TH.data<A>() + row * lse_TH.stride(0) + head;
        finish((row - task.first) * H + h,
               o_THK.data<T>() + row * o_THK.stride(0) + head * width_, lse);
      }
  }

 private:
  // The first position that a row sees.
  std::int64_t first_of(std::int64_t row) const {
    return shape_.first_T.empty() ? 0 : shape_.first_T.data<std::int32_t>()[row];
  }

  void start(std::int64_t i, const T* q) {
    const A factor = static_cast<A>(shape_.scale * std::numbers::log2e);
    A* to = queries_ + i * stride_;
    for (std::int64_t c = 0; c < width_; ++c) to[c] = load(q[c]) * factor;
    std::fill(to + width_, to + stride_, A(0));
    std::fill_n(outputs_ + i * stride_, stride_, A(0));
    maxima_[i] = -std::numeric_limits<A>::infinity();
    sums_[i] = 0;
  }

  // scores_[j] of all keys of as many as fill a register, from j on.
  void score(const A* query, std::int64_t j) {
    Vector<A> partial[lanes];
#pragma GCC unroll 16
    for (int i = 0; i < lanes; ++i) partial[i] = Vector<A>{};
    const A* keys = keys_ + j * stride_;
    for (std::int64_t c = 0; c < stride_; c += lanes) {
      const Vector<A> x = simd::load_vector(query + c);
#pragma GCC unroll 16
      for (int i = 0; i < lanes; ++i)
        partial[i] += x * simd::load_vector(keys + i * stride_ + c);
    }
    simd::exchange_all<A>(partial);
    Vector<A> sum = partial[0];
#pragma GCC unroll 16
    for (int i = 1; i < lanes; ++i) sum += partial[i];
    simd::store_vector(scores_ + j, sum);
  }

  // The highest of scores_ and of `most`.
  A highest(A most) const {
    Vector<A> highest = simd::load_vector(scores_);
    for (std::int64_t j = lanes; j < tile; j += lanes)
      highest = simd::greater<A>(highest, simd::load_vector(scores_ + j));
    for (int lane = 0; lane < lanes; ++lane) most = std::max(most, highest[lane]);
    return most;
  }

  // Takes the keys [seen.begin, seen.end) of the tile into account for query i.
  void update(std::int64_t i, const Range& seen, const A* values) {
    constexpr A never = -std::numeric_limits<A>::infinity();
    // 1. s = q k, in which keys that the query does not see are minus infinity
    std::fill_n(scores_, tile, never);
    for (std::int64_t j = seen.begin / lanes * lanes; j < seen.end; j += lanes)
      score(queries_ + i * stride_, j);
    const A cap = static_cast<A>(shape_.cap * std::numbers::log2e);
    if (cap > 0)
      for (std::int64_t j = seen.begin; j < seen.end; ++j)
        scores_[j] = cap * hyperbolic_tangent(scores_[j] / cap);
    std::fill(scores_, scores_ + seen.begin, never);
    std::fill(scores_ + seen.end, scores_ + tile, never);
    const A most = highest(maxima_[i]);
    // 2. p = 2^(s - max), and by how much the new maximum shrinks earlier sums
    Vector<A> total{};
    for (std::int64_t j = 0; j < tile; j += lanes) {
      const Vector<A> p = simd::exp2<A>(simd::load_vector(scores_ + j) - most);
      simd::store_vector<A>(scores_ + j, p);
      total += p;
    }
    const A shrink = simd::exp2<A>(simd::broadcast<A>(maxima_[i] - most))[0];
    maxima_[i] = most;
    sums_[i] = sums_[i] * shrink + simd::sum_lanes<A>(total);
    // 3. o = shrink o + p v
    A* const output = outputs_ + i * stride_;
    std::int64_t c = 0;
    for (; c + 4 * lanes <= stride_; c += 4 * lanes)
      add_values<4>(seen, values + c, shrink, output + c);
    for (; c < stride_; c += lanes) add_values<1>(seen, values + c, shrink, output + c);
  }

  // Some registers at a time: each sum alone would wait for its last addition.
  template <int registers>
  void add_values(const Range& seen, const A* values, A shrink, A* output) const {
    Vector<A> sum[registers];
#pragma GCC unroll 4
    for (int v = 0; v < registers; ++v)
      sum[v] = simd::load_vector(output + v * lanes) * shrink;
    for (std::int64_t j = seen.begin; j < seen.end; ++j) {
      const A* row = values + j * stride_;
#pragma GCC unroll 4
      for (int v = 0; v < registers; ++v)
        sum[v] += scores_[j] * simd::load_vector(row + v * lanes);
    }
#pragma GCC unroll 4
    for (int v = 0; v < registers; ++v) simd::store_vector(output + v * lanes, sum[v]);
  }

  void finish(std::int64_t i, T* o, A* lse) const {
    const A* from = outputs_ + i * stride_;
    for (std::int64_t c = 0; c < width_; ++c) o[c] = store<T>(from[c] / sums_[i]);
    if (lse != nullptr) *lse = maxima_[i] * std::numbers::ln2_v<A> + std::log(sums_[i]);
  }

  const AttentionShape& shape_;
  std::int64_t width_, stride_;
  A *queries_, *outputs_, *keys_, *values_, *scores_, *maxima_, *sums_;
};

// Query heads of each key/value head.
std::vector<std::vector<std::int64_t>> heads_of(const AttentionShape& shape) {
  std::vector<std::vector<std::int64_t>> all(static_cast<std::size_t>(shape.kv_heads));
  for (std::size_t h = 0; h < shape.kv_head.size(); ++h)
    all[static_cast<std::size_t>(shape.kv_head[h])].push_back(
        static_cast<std::int64_t>(h));
  return all;
}

// The codes of one head's part of a row, and their scale.
template <class T>
float encode_part(const T* from, std::int64_t count, DType type, std::byte* to) {
  float most = 0;
  for (std::int64_t c = 0; c < count; ++c)
    most = std::max(most, std::abs(static_cast<float>(load(from[c]))));
  const float range = type == DType::e4m3 ? 448.0F : 127.0F;
  const float scale = most > 0 ? most / range : 1.0F;
  for (std::int64_t c = 0; c < count; ++c) {
    const float x = static_cast<float>(load(from[c])) / scale;
    const auto code =
        type == DType::e4m3
            ? fp8_encode(x, Fp8Format::e4m3)
            : static_cast<std::uint8_t>(static_cast<std::int8_t>(std::rint(x)));
    to[c] = static_cast<std::byte>(code);
  }
  return scale;
}

template <class T>
void store_rows(std::span<const PagedText> texts, const TensorView& x_TW,
                const TensorView& blocks, const TensorView& scales) {
  const std::int64_t G = blocks.dim(1), L = blocks.dim(2), K = blocks.dim(3);
  const DType type = blocks.dtype();
  auto* const data = static_cast<std::byte*>(blocks.raw());
  const auto store_row = [&](const T* from, std::int64_t block, std::int64_t position) {
    for (std::int64_t g = 0; g < G; ++g, from += K) {
      const std::int64_t place = (block * G + g) * L + position;
      std::byte* const to = data + static_cast<std::size_t>(place * K) * size_of(type);
      if (!scales.empty()) {
        scales.data<float>()[place] = encode_part(from, K, type, to);
        continue;
      }
      visit_floating(type, [&](auto element) {
        using C = decltype(element);
        for (std::int64_t c = 0; c < K; ++c)
          reinterpret_cast<C*>(to)[c] =
              store<C>(static_cast<Accumulator<C>>(load(from[c])));
      });
    }
  };
  for (const PagedText& text : texts)
    for (std::int64_t row = text.rows.begin; row < text.rows.end; ++row) {
      const std::int64_t position = text.past + row - text.rows.begin;
      store_row(x_TW.data<T>() + row * x_TW.stride(0), text.blocks[position / L],
                position % L);
    }
}

}  // namespace

void store_in_blocks(std::span<const PagedText> texts, const TensorView& x_TW,
                     const TensorView& blocks_NGLK, const TensorView& scales_NGL) {
  visit_floating(x_TW.dtype(), [&]<class T>(T) {
    store_rows<T>(texts, x_TW, blocks_NGLK, scales_NGL);
  });
}

void attention_paged(Arena& scratch, const AttentionShape& shape,
                     std::span<const PagedText> texts, int workers,
                     const TensorView& q_THK, const PagedCache& cache,
                     const TensorView& o_THK, const TensorView& lse_TH) {
  const auto heads = heads_of(shape);
  std::size_t most = 1;
  for (const auto& all : heads) most = std::max(most, all.size());
  const auto most_heads = static_cast<std::int64_t>(most);
  const std::int64_t rows = std::max<std::int64_t>(1, most_queries / most_heads);
  std::vector<Task> tasks;
  for (const PagedText& text : texts)
    for (std::int64_t first = text.rows.begin; first < text.rows.end; first += rows)
      for (std::int64_t g = 0; g < shape.kv_heads; ++g)
        tasks.push_back({&text, g, first, std::min(first + rows, text.rows.end)});
  const ArenaScope scope(scratch);
  visit_floating(q_THK.dtype(), [&]<class T>(T) {
    using A = Accumulator<T>;
    const std::int64_t elements =
        blocks::round_up(Worker<T>::memory(rows * most_heads, shape.head_width), 16);
    const TensorView memory =
        scratch.take(dtype_of<A>, {workers, elements}, "paged attention");
    if (scratch.device().is_meta()) return;
    // The longest tasks, of the last rows, come first.
    std::stable_sort(tasks.begin(), tasks.end(), [](const Task& a, const Task& b) {
      return a.text->past + a.end - a.text->rows.begin >
             b.text->past + b.end - b.text->rows.begin;
    });
    const auto count = static_cast<std::int64_t>(tasks.size());
    blocks::share_tasks("attention.paged", count, blocks::workers_for(count, workers),
                        [&](std::int64_t i, std::int64_t worker) {
                          const Task& task = tasks[static_cast<std::size_t>(i)];
                          Worker<T>(shape, rows * most_heads,
                                    memory.data<A>() + worker * elements)
                              .run(task, heads[static_cast<std::size_t>(task.head)],
                                   q_THK, cache, o_THK, lse_TH);
                        });
  });
}

void attention_of_few(Arena& scratch, const AttentionShape& shape, std::int64_t past,
                      int workers, const TensorView& q_BQHK, const TensorView& k_cache,
                      const TensorView& v_cache, const TensorView& o_BQHK,
                      const TensorView& lse_TH) {
  // Each sequence is a text whose cache is one block.
  std::vector<std::int32_t> blocks(static_cast<std::size_t>(shape.batch));
  std::iota(blocks.begin(), blocks.end(), 0);
  std::vector<PagedText> texts;
  for (std::int64_t b = 0; b < shape.batch; ++b)
    texts.push_back({{b * shape.sequence, (b + 1) * shape.sequence},
                     past,
                     &blocks[static_cast<std::size_t>(b)]});
  PagedCache cache{.keys = k_cache};
  if (v_cache.raw() != k_cache.raw()) cache.values = v_cache;
  attention_paged(scratch, shape, texts, workers, q_BQHK, cache, o_BQHK, lse_TH);
}

}  // namespace trireme::kernels::host
