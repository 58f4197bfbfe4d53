// Attention backward in one pass over tiles of keys, on tensor cores, in bf16 and fp16.
// SPDX-License-Identifier: Apache-2.0
//
// A block owns a tile of keys, with dk and dv, and goes over the queries that see it:
// five products. dq is a sum over tiles of keys in fp32 in memory, to which blocks add by
// turns, the last tile of keys first: one order, the same bits each time. A block takes
// its tile by a ticket, so that those it waits for have started before it
// (docs/decisions/attention.md). Legend: B sequences, S positions, H query heads, G
// key/value heads, K head width. Source: Dao, "FlashAttention-2", 2023, algorithm 2.
#include "kernels/cuda/attention/one_pass.cuh"
#include "kernels/cuda/attention/one_pass_tiles.cuh"
#include "kernels/cuda/attention/query_tiles.cuh"
#include "kernels/cuda/common/launch.cuh"

namespace trireme::kernels::cuda {
namespace {

using namespace fragments;
using namespace one_pass;

struct KeyTile {
  int b, kv_head, first;
};

// The tile of keys of the block that has taken `ticket`.
__device__ inline KeyTile key_tile_of(const Geometry& part, unsigned ticket) {
  const int tiles = (part.keys + tile_keys - 1) / tile_keys;
  const int pair = static_cast<int>(ticket) / tiles;
  return {pair / part.kv_heads, pair % part.kv_heads,
          (tiles - 1 - static_cast<int>(ticket) % tiles) * tile_keys};
}

// What a block knows, in shared memory: registers are scarce while tiles are summed.
template <int Q>
struct BlockNumbers : QueryNumbers<Q, stages> {
  KeyTile own;
  int next_head, next_at;  // the tile of queries to start next, or -1 where there is none
  int head[stages];
  std::int64_t tile[stages];  // of dq
  int turn[stages];           // the block's own
  // Of the tile that was added to last, for the thread that gives turns, which alone
  // reads and writes them; turn -1: there is none to give.
  std::int64_t last_tile;
  int last_turn;
};

template <class T, int K>
constexpr std::size_t shared_bytes() {
  constexpr int Q = tile_queries(K);
  return sizeof(T) * (2 * tile_keys * K + stages * 2 * Q * K + tile_keys * Q);
}

// What a block of the kernel goes along with: its keys, and the tiles of queries.
template <class T, int K>
struct OnePass {
  static constexpr int Q = tile_queries(K);
  using Part = QueryPart<K>;
  using Tiles = QueryTiles<T, tile_keys, Q>;

  const BackwardOperands<T>& x;
  const PartialSums& partial;
  BlockNumbers<Q>& numbers;

  __device__ T* of_k() const { return dynamic_shared<T>(); }
  __device__ T* of_v() const { return of_k() + tile_keys * K; }
  __device__ T* of_q(int stage) const {  // [stages][q, do][Q][K]
    return of_v() + tile_keys * K + stage * 2 * Q * K;
  }
  __device__ T* of_ds() const { return of_q(stages); }

  __device__ void load_keys() const {
    const KeyTile own = numbers.own;
    const std::int64_t column = std::int64_t{own.kv_head} * K;
    const int keys = x.part.keys - own.first;
    load_rows<K, tile_keys, block_threads>(x.k.at(own.b, own.first, column), x.k.row,
                                           keys, of_k());
    load_rows<K, tile_keys, block_threads>(x.v.at(own.b, own.first, column), x.v.row,
                                           keys, of_v());
  }
  // Finds the tile after the next one. Of warp 0, between barriers.
  __device__ void find_next() const {
    if (numbers.next_at < 0) return;
    Tiles tile(x, numbers.own.b, numbers.own.kv_head, numbers.own.first,
               numbers.next_head, numbers.next_at);
    tile.next();
    __syncwarp();
    put_next(tile);
  }
  __device__ void put_next(const Tiles& tile) const {
    if (lane_index() != 0) return;
    numbers.next_head = tile.h;
    numbers.next_at = tile.valid() ? tile.at : -1;
  }
  // Starts copies of the next tile.
  __device__ void start_next(int stage) const {
    const int at = numbers.next_at;
    if (threadIdx.x == 0) numbers.at[stage] = at;
    if (at >= 0) {
      const Tiles tile(x, numbers.own.b, numbers.own.kv_head, numbers.own.first,
                       numbers.next_head, at);
      if (threadIdx.x == 0) {
        numbers.head[stage] = tile.h;
        numbers.turn[stage] = turn_of(at);
        numbers.tile[stage] = partial.tile_of(x.part, tile.b, tile.h, at, Q);
      }
      load_queries<K, block_threads>(tile, of_q(stage));
    }
    cp_async_commit();
  }
  // What is known of the queries of a stage's tile, if there is one, to registers.
  __device__ QueryNumber load_numbers(int stage) const {
    QueryNumber coming;
    if (thread_index() < Q && numbers.at[stage] >= 0)
      coming.load(Tiles(x, numbers.own.b, numbers.own.kv_head, numbers.own.first,
                        numbers.head[stage], numbers.at[stage]));
    return coming;
  }
  __device__ void store_numbers(const QueryNumber& coming, int stage) const {
    if (thread_index() < Q) coming.store(numbers, stage);
  }
  // The block's turn to add to queries from `at` on: the number of later tiles of keys
  // that a query of the tile may see.
  __device__ int turn_of(int at) const {
    const int tiles = (x.part.keys + tile_keys - 1) / tile_keys;
    const int newest = min(tiles - 1, (at + Q - 1 + x.part.past) / tile_keys);
    return newest - numbers.own.first / tile_keys;
  }
  // Turns are given by the last warp, whose keys the fewest queries see, while the first
  // one waits for the block's own.
  __device__ static bool gives_turns() {
    return thread_index() == block_threads - warp_size;
  }
  // After a barrier behind the tile's sums: it orders the stores of all threads before
  // the fence of the one that gives.
  __device__ void give_last_turn() const {
    if (gives_turns() && numbers.last_turn >= 0)
      give_turn(partial.counter + numbers.last_tile,
                static_cast<unsigned>(numbers.last_turn) + 1);
  }
  // Then the tile of a stage is the last one.
  __device__ void give_last_turn_before(int stage) const {
    if (!gives_turns()) return;
    give_last_turn();
    numbers.last_tile = numbers.tile[stage];
    numbers.last_turn = numbers.turn[stage];
  }
  // How many of the block's keys the last query of a tile sees.
  __device__ int seen_keys(int at) const {
    return x.part.end(min(at + Q, x.part.queries) - 1) - numbers.own.first;
  }
  // s and dp of the warp's keys; p's share of dv. ds is left in shared memory.
  __device__ Operand<Q> differentiate_tile(int stage, int at,
                                           float (&dv)[1][K / 8][4]) const {
    const int row = warp_index() * rows;
    float s[1][Q / 8][4], ds[1][Q / 8][4];
    multiply_rows<K>(of_k(), row, of_q(stage), s);
    multiply_rows<K>(of_v(), row, of_q(stage) + Q * K, ds);
    differentiate(x.part, numbers, stage, numbers.own.first + row, at, s, ds);
    const auto p = Operand<Q>::template of<T>(s);
    const auto result = Operand<Q>::template of<T>(ds);
    result.put(of_ds());
    p.template multiply<K>(of_q(stage) + Q * K, dv);
    return result;
  }
  // Adds the products of the tile of queries of a stage, from `at` on. The turn of the
  // tile before is given only behind the first products: its sums have long left then,
  // while a fence right behind their stores would hold up a warp, and with it the block.
  // Until then the block waits for no other one, and the warp that gives is not the one
  // that waits, so that a block gives the turns that it has had whatever it waits for
  // next. Blocks wait for earlier tickets alone: none waits for ever.
  __device__ void add(int stage, int at, float (&dk)[1][K / 8][4],
                      float (&dv)[1][K / 8][4]) const {
    start_next(1 - stage);
    const bool sees = warp_index() * rows < seen_keys(at);
    Operand<Q> ds;
    if (sees) ds = differentiate_tile(stage, at, dv);
    give_last_turn_before(stage);
    if (threadIdx.x == 0)
      wait_for_turn(partial.counter + numbers.tile[stage],
                    static_cast<unsigned>(numbers.turn[stage]));
    __syncthreads();  // ds is there, and the sums are this block's
    float* const sums = partial.sums + numbers.tile[stage] * (Q * K);
    float dq[Part::M][Part::C][4] = {};
    if (numbers.turn[stage] > 0) load_sums(sums, dq);
    const QueryNumber coming = load_numbers(1 - stage);
    if (sees) ds.template multiply<K>(of_q(stage), dk);  // while these arrive
    store_numbers(coming, 1 - stage);
    const int steps = min((seen_keys(numbers.at[stage]) + rows - 1) / rows, block_warps);
    add_queries<K>(of_ds(), of_k(), steps, dq);
    store_sums(sums, dq);
    if (warp_index() == 0) find_next();
  }
};

template <class T, int K>
__global__ void __launch_bounds__(block_threads, 1)
    one_pass_backward(BackwardOperands<T> x, PartialSums partial) {
  constexpr int Q = tile_queries(K);
  __shared__ BlockNumbers<Q> numbers;
  const OnePass<T, K> pass{x, partial, numbers};
  if (warp_index() == 0) {
    unsigned ticket = lane_index() == 0 ? atomicAdd(partial.ticket, 1u) : 0;
    ticket = __shfl_sync(all_lanes, ticket, 0);
    const KeyTile own = key_tile_of(x.part, ticket);
    if (lane_index() == 0) numbers.own = own;
    pass.put_next(QueryTiles<T, tile_keys, Q>(x, own.b, own.kv_head, own.first));
  }
  if (pass.gives_turns()) numbers.last_turn = -1;
  __syncthreads();
  pass.load_keys();
  pass.start_next(0);
  __syncthreads();  // all have read which tile is next
  pass.store_numbers(pass.load_numbers(0), 0);
  if (warp_index() == 0) pass.find_next();
  float dk[1][K / 8][4] = {}, dv[1][K / 8][4] = {};
  // Of a stage that is known to be 0 or 1, addresses of both would take registers.
  for (int stage = 0;; stage = 1 - stage) {
    cp_async_wait<0>();
    __syncthreads();  // the tile is there, and all are done with the one before
    const int at = numbers.at[recomputed(stage)];
    if (at < 0) break;
    pass.add(recomputed(stage), at, dk, dv);
  }
  pass.give_last_turn();
  const KeyTile own = numbers.own;
  const int first = own.first + warp_index() * rows;
  const std::int64_t column = std::int64_t{own.kv_head} * K;
  put<K, 1>(dk, static_cast<float>(x.part.scale), x.dk, own.b, first, x.part.keys,
            column);
  put<K, 1>(dv, 1.0f, x.dv, own.b, first, x.part.keys, column);
}

__global__ void clear(unsigned* counters, std::int64_t n) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < n) counters[i] = 0;
}

// Sums of dq, scaled, to where they go; 0 where no key is seen.
template <class T, int K>
__global__ void __launch_bounds__(block_threads)
    finish_queries(BackwardOperands<T> x, PartialSums partial) {
  using Part = QueryPart<K>;
  constexpr int M = Part::M, C = Part::C, Q = Part::Q, packs = K / 8;
  constexpr int row_step = K + 4;
  __shared__ float sums[Q * row_step];
  const int head = static_cast<int>(blockIdx.x) / partial.tiles;
  const int first = static_cast<int>(blockIdx.x) % partial.tiles * Q;
  const int b = head / x.part.heads, h = head % x.part.heads;
  float dq[M][C][4] = {};
  if (partial.counter[blockIdx.x] > 0)
    load_sums(partial.sums + std::int64_t{blockIdx.x} * (Q * K), dq);
  for_rows<M>(Part::row(), [&](int m, int i, int row) {
#pragma unroll
    for (int c = 0; c < C; ++c)
#pragma unroll
      for (int j = 0; j < 2; ++j)
        sums[row * row_step + Part::column() + 8 * c + lane_index() % 4 * 2 + j] =
            dq[m][c][2 * i + j] * static_cast<float>(x.part.scale);
  });
  __syncthreads();
  for (int i = thread_index(); i < Q * packs; i += block_threads) {
    const int row = i / packs, column = i % packs * 8;
    if (first + row >= x.part.queries) continue;
    x.dq.put_pack(b, first + row, std::int64_t{h} * K + column,
                  sums + row * row_step + column);
  }
}

constexpr std::int64_t aligned(std::int64_t bytes) { return divide_up(bytes, 256) * 256; }

template <class T, int K>
void start(Stream& stream, std::int64_t B, const BackwardOperands<T>& x, void* memory) {
  constexpr int Q = tile_queries(K);
  PartialSums partial{};
  partial.tiles = static_cast<int>(divide_up(x.part.queries, Q));
  const std::int64_t tiles = B * x.part.heads * partial.tiles;
  partial.counter = static_cast<unsigned*>(memory);
  partial.ticket = partial.counter + tiles;
  partial.sums = reinterpret_cast<float*>(static_cast<std::byte*>(memory) +
                                          aligned(4 * (tiles + 1)));
  launch(stream, Grid{{extent(divide_up(tiles + 1, block_threads))}, {block_threads}},
         clear, partial.counter, tiles + 1);
  const std::int64_t blocks = B * x.part.kv_heads * divide_up(x.part.keys, tile_keys);
  if (blocks > 0)
    launch(stream, Grid{{extent(blocks)}, {block_threads}, shared_bytes<T, K>()},
           one_pass_backward<T, K>, x, partial);
  if (tiles > 0)
    launch(stream, Grid{{extent(tiles)}, {block_threads}}, finish_queries<T, K>, x,
           partial);
}

}  // namespace

bool one_pass_fits(std::int64_t width, std::int64_t shared_limit) {
  bool fits = false;
  with_width(static_cast<int>(width), [&]<int K>() {
    constexpr std::size_t bytes =
        shared_bytes<std::uint16_t, K>() + sizeof(BlockNumbers<tile_queries(K)>);
    fits = static_cast<std::int64_t>(bytes) <= shared_limit;
  });
  return fits;
}

std::int64_t one_pass_bytes(std::int64_t B, std::int64_t heads, std::int64_t queries,
                            std::int64_t width) {
  const std::int64_t Q = tile_queries(width), tiles = B * heads * divide_up(queries, Q);
  return aligned(4 * (tiles + 1)) + aligned(4 * tiles * Q * width);
}

template <class T>
void backward_one_pass(Stream& stream, std::int64_t B,
                       const BackwardOperands<DeviceType<T>>& x, void* memory) {
  with_width(x.part.width,
             [&]<int K>() { start<DeviceType<T>, K>(stream, B, x, memory); });
}

template void backward_one_pass<BFloat16>(Stream&, std::int64_t,
                                          const BackwardOperands<__nv_bfloat16>&, void*);
template void backward_one_pass<Float16>(Stream&, std::int64_t,
                                         const BackwardOperands<__half>&, void*);

}  // namespace trireme::kernels::cuda
