// Matrices transposed on a GPU, and FP8 codes in both orders, in one read of a matrix.
// SPDX-License-Identifier: Apache-2.0
//
// A block turns a tile whose rows are 128 bytes in shared memory. Packs of 16 bytes go in
// row by row; then a thread takes one word of as many rows as make 16 bytes of a column,
// and writes a whole pack of each of the word's columns.
#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/common/reduce.cuh"
#include "kernels/cuda/common/rows.cuh"
#include "kernels/cuda/low_precision/fp8_codes.cuh"
#include "kernels/quantize.hpp"

namespace trireme::kernels::cuda {
namespace {

constexpr int turn_threads = 256;
constexpr int packs = 8;  // of a tile's row
constexpr int rows_at_once = turn_threads / packs;

// Elements of a tile's rows and columns: a column of a tile is 128 bytes as well.
template <class Bits>
constexpr int tile_side = packs* pack_elements<Bits>;

// The elements of a matrix as they are.
template <class Element>
struct Copied {
  using Bits = Element;
  const Bits* x;
  std::int64_t stride;

  struct Reader {
    const Copied& of;
    template <bool aligned>
    __device__ Pack<Bits> at(std::int64_t row, std::int64_t column, int count) {
      const Bits* const from = of.x + row * of.stride + column;
      if constexpr (aligned) return load_pack(from);
      Pack<Bits> pack{};
#pragma unroll
      for (int i = 0; i < pack_elements<Bits>; ++i)
        if (i < count) pack.x[i] = from[i];
      return pack;
    }
    __device__ void finish() {}
  };
  __device__ Reader reader() const { return {*this}; }
};

// FP8 codes of the elements. Raises *amax, if there is one, to their largest magnitude.
template <class T>
struct Encoded {
  using Bits = unsigned char;
  const T* x;
  std::int64_t stride;
  const float* scale;
  Fp8Format format;
  unsigned* amax;

  struct Reader {
    const Encoded& of;
    Wide<T> inverse;
    unsigned most = 0;

    template <bool aligned>
    __device__ Pack<Bits> at(std::int64_t row, std::int64_t column, int count) {
      constexpr int n = pack_elements<Bits>;
      const T* const from = of.x + row * of.stride + column;
      Group<T, n> values{};
      if constexpr (aligned) {
        values = load_group<n>(from);
      } else {
#pragma unroll
        for (int i = 0; i < n; ++i)
          if (i < count) values.x[i] = from[i];
      }
      most = max(most, magnitude(values.x));
      Pack<Bits> codes;
      encode(values.x, inverse, of.format, codes.x);
      return codes;
    }
    __device__ void finish() {
      if (of.amax == nullptr) return;
      most = block_max(most);
      if (threadIdx.x == 0) atomicMax(of.amax, most);
    }
  };
  __device__ Reader reader() const {
    return {*this, Wide<T>(1) / static_cast<Wide<T>>(*scale)};
  }
};

// Where results go: rows as they come, and columns, dense. Either may be absent.
template <class Bits>
struct TransposeTarget {
  Bits* rows;
  std::int64_t row_stride;
  Bits* columns;
};

template <bool aligned, class Bits>
__device__ inline void put(Bits* to, const Pack<Bits>& pack, int count) {
  if constexpr (aligned) {
    store_pack(to, pack);
  } else {
#pragma unroll
    for (int i = 0; i < pack_elements<Bits>; ++i)
      if (i < count) to[i] = pack.x[i];
  }
}

// The tile in shared memory. A pack lies at another place in each group of rows that a
// thread takes together, so that the words of 8 such groups lie in different banks.
template <class Bits>
struct Tile {
  static constexpr int height = pack_elements<Bits>;  // rows that a thread takes
  using Word = std::conditional_t<sizeof(Bits) == 8, std::uint64_t, std::uint32_t>;
  static constexpr int words = 128 / static_cast<int>(sizeof(Word));
  static constexpr int in_word = static_cast<int>(sizeof(Word) / sizeof(Bits));
  static constexpr int words_of_pack = words / packs;

  Pack<Bits> rows[tile_side<Bits>][packs];

  __device__ static int place(int row, int pack) { return pack ^ row / height % packs; }

  // Rows [height group, + height) of word `word`, as packs of its columns.
  __device__ void take(int group, int word, Pack<Bits> (&columns)[in_word]) const {
#pragma unroll
    for (int i = 0; i < height; ++i) {
      const int row = group * height + i;
      const Bits* const from =
          rows[row][place(row, word / words_of_pack)].x + word % words_of_pack * in_word;
      struct alignas(sizeof(Word)) Elements {
        Bits x[in_word];
      };
      const auto elements = *reinterpret_cast<const Elements*>(from);
#pragma unroll
      for (int j = 0; j < in_word; ++j) columns[j].x[i] = elements.x[j];
    }
  }
};

// aligned: all extents are whole packs, and all rows begin at multiples of 16 bytes.
template <bool aligned, class Source>
__global__ void __launch_bounds__(turn_threads, 2)
    transpose_kernel(Source source, std::int64_t M, std::int64_t K,
                     TransposeTarget<typename Source::Bits> to) {
  using Bits = typename Source::Bits;
  using Block = Tile<Bits>;
  constexpr int side = tile_side<Bits>, n = pack_elements<Bits>;
  __shared__ Block tile;
  const int thread = static_cast<int>(threadIdx.x);
  const std::int64_t first_column = std::int64_t{blockIdx.x} * side;
  auto reader = source.reader();
  for (std::int64_t first_row = std::int64_t{blockIdx.y} * side; first_row < M;
       first_row += std::int64_t{gridDim.y} * side) {
    const int pack = thread % packs;
    const std::int64_t column = first_column + pack * n;
    const int count = static_cast<int>(min(std::int64_t{n}, K - column));
    for (int row = thread / packs; row < side; row += rows_at_once) {
      if (first_row + row >= M || count <= 0) continue;
      const auto elements = reader.template at<aligned>(first_row + row, column, count);
      tile.rows[row][Block::place(row, pack)] = elements;
      if (to.rows != nullptr)
        put<aligned>(to.rows + (first_row + row) * to.row_stride + column, elements,
                     count);
    }
    if (to.columns == nullptr) continue;
    __syncthreads();
    const int group = thread % packs, word = thread / packs;
    const std::int64_t row = first_row + group * Block::height;
    const int rows = static_cast<int>(min(std::int64_t{n}, M - row));
    if (word < Block::words && rows > 0) {
      Pack<Bits> columns[Block::in_word];
      tile.take(group, word, columns);
#pragma unroll
      for (int j = 0; j < Block::in_word; ++j) {
        const std::int64_t k = first_column + word * Block::in_word + j;
        if (k < K) put<aligned>(to.columns + k * M + row, columns[j], rows);
      }
    }
    __syncthreads();
  }
  reader.finish();
}

bool whole_packs(std::int64_t elements, std::size_t size) {
  return elements * static_cast<std::int64_t>(size) % 16 == 0;
}
bool at_pack(const void* start) {
  return reinterpret_cast<std::uintptr_t>(start) % 16 == 0;
}

// aligned_source: that the source's rows begin at packs.
template <class Source>
void launch_transpose(Stream& stream, const Source& source, bool aligned_source,
                      std::int64_t M, std::int64_t K,
                      const TransposeTarget<typename Source::Bits>& to) {
  using Bits = typename Source::Bits;
  constexpr std::int64_t side = tile_side<Bits>, most_in_y = 65535;
  const bool aligned =
      aligned_source && whole_packs(K, sizeof(Bits)) && at_pack(to.rows) &&
      whole_packs(to.row_stride, sizeof(Bits)) &&
      (to.columns == nullptr || (whole_packs(M, sizeof(Bits)) && at_pack(to.columns)));
  Grid grid;
  grid.threads = dim3(turn_threads);
  grid.blocks =
      dim3(extent(divide_up(K, side)), extent(std::min(divide_up(M, side), most_in_y)));
  launch(stream, grid,
         aligned ? transpose_kernel<true, Source> : transpose_kernel<false, Source>,
         source, M, K, to);
}

}  // namespace

void transpose(Stream& stream, const TensorView& x_MK, const TensorView& y_KM) {
  const std::int64_t M = x_MK.dim(0), K = x_MK.dim(1);
  if (M == 0 || K == 0) return;
  const auto move = [&]<class Bits>(Bits) {
    const Copied<Bits> source{static_cast<const Bits*>(x_MK.raw()), x_MK.stride(0)};
    launch_transpose(stream, source,
                     at_pack(source.x) && whole_packs(source.stride, sizeof(Bits)), M, K,
                     {nullptr, 0, static_cast<Bits*>(y_KM.raw())});
  };
  switch (size_of(x_MK.dtype())) {
    case 1: return move(std::uint8_t{});
    case 2: return move(std::uint16_t{});
    case 4: return move(std::uint32_t{});
    default: return move(std::uint64_t{});
  }
}

void quantize_and_transpose(Stream& stream, const TensorView& x_MK, const Fp8Matrix& y,
                            const TensorView& codes_KM, const TensorView& amax_1) {
  const std::int64_t M = x_MK.dim(0), K = x_MK.dim(1);
  if (M == 0 || K == 0) return;
  const auto codes = [](const TensorView& view) {
    return view.empty() ? nullptr : static_cast<unsigned char*>(view.raw());
  };
  visit_floating(x_MK.dtype(), [&]<class T>(T) {
    using D = DeviceType<T>;
    const Encoded<D> source{
        elements_of<T>(x_MK), x_MK.stride(0), y.scales.data<float>(), y.format,
        amax_1.empty() ? nullptr : reinterpret_cast<unsigned*>(amax_1.data<float>())};
    launch_transpose(
        stream, source, at_pack(source.x) && whole_packs(source.stride, sizeof(D)), M, K,
        {codes(y.codes), y.codes.empty() ? 0 : y.codes.stride(0), codes(codes_KM)});
  });
}

}  // namespace trireme::kernels::cuda
