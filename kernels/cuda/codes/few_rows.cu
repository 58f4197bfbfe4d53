// Products of a few rows with a matrix of codes: a warp for two rows of codes at a time.
// SPDX-License-Identifier: Apache-2.0
// A lane reads 16 bytes of codes of each row, which have one scale; their numbers exist
// in registers alone. The rows of A lie in shared memory, as much of them as fits, in the
// order in which lanes read them. Each lane sums what it reads in order, over all parts
// of A, then what is left over at the end of a row; the sums of lanes are added as a
// tree.
#include <cuda_machine/shared.cuh>

#include "kernels/cuda/codes/codes.cuh"
#include "kernels/cuda/codes/few_rows.hpp"
#include "kernels/cuda/common/reduce.cuh"
#include "kernels/cuda/common/rows.cuh"

namespace trireme::kernels::cuda {
namespace {

constexpr int warps = 8, columns = 2;  // of a block, and rows of codes of a warp
constexpr std::int64_t shared_bytes = 32 << 10;  // for A, at most
constexpr int words = 4;                         // of codes that a lane reads at once

// Legend: M rows of A, N of B. A part of A are so many `chunks`, what lanes read at once.
template <class T>
struct Operands {
  const T* a;
  const T* bias;  // nullptr: none
  void* c;
  std::int64_t a_stride, c_stride;
  int M;
  bool wide;          // C is f32
  bool whole_codes;   // rows of codes begin at 16 bytes
  bool whole_pieces;  // rows of A begin at pieces
  std::int64_t part;  // chunks, a multiple of those of a warp

  __device__ void store(std::int64_t i, std::int64_t j, float sum) const {
    if (bias != nullptr) sum += widen(bias[j]);
    const std::int64_t at = i * c_stride + j;
    if (wide) {
      static_cast<float*>(c)[at] = sum;
    } else {
      static_cast<T*>(c)[at] = narrow<T>(sum);
    }
  }
};

// Elements of A that a word of codes meets.
template <CodeType type, class T>
using Piece = Group<T, codes_of_word<type>>;

// Pieces of `chunks` chunks of each row of A, from chunk `first` on: those that the lanes
// of a warp read together lie side by side.
template <CodeType type, class T, int rows>
__device__ void fill(const Operands<T>& x, std::int64_t first, std::int64_t chunks,
                     Piece<type, T>* shared) {
  constexpr int of_word = codes_of_word<type>;
  const T* const from = x.a + first * words * of_word;
  for (int row = 0; row < rows; ++row) {
    for (std::int64_t i = threadIdx.x; i < chunks * words; i += blockDim.x) {
      Piece<type, T> piece;
      const T* const at = from + row * x.a_stride + i * of_word;
      if (row >= x.M) {
        for (T& element : piece.x) element = narrow<T>(0.0f);
      } else if (x.whole_pieces) {
        piece = load_group<of_word>(at);
      } else {
        for (int j = 0; j < of_word; ++j) piece.x[j] = at[j];
      }
      const std::int64_t chunk = i / words, word = i % words;
      const std::int64_t place =
          (chunk / warp_size * words + word) * warp_size + chunk % warp_size;
      shared[row * x.part * words + place] = piece;
    }
  }
}

struct Codes {
  unsigned words[4];
  float scale, zero;
};

template <CodeType type, bool plain>
__device__ Codes load_codes(const CodeMatrix& m, const CodeRow& row, std::int64_t chunk,
                            bool whole) {
  constexpr int bytes = 16;
  Codes codes;
  const unsigned char* const from = row.codes + chunk * bytes;
  if (plain || whole) {
    const uint4 all = __ldcs(reinterpret_cast<const uint4*>(from));
    codes.words[0] = all.x;
    codes.words[1] = all.y;
    codes.words[2] = all.z;
    codes.words[3] = all.w;
  } else {
#pragma unroll
    for (int i = 0; i < words; ++i)
      codes.words[i] = unsigned{from[4 * i]} | unsigned{from[4 * i + 1]} << 8 |
                       unsigned{from[4 * i + 2]} << 16 | unsigned{from[4 * i + 3]} << 24;
  }
  const std::int64_t block = m.block_columns(row.before + chunk * codes_at_once(type));
  codes.scale = row.scales[block];
  codes.zero = plain ? 0.0f : zero_of(row, block);
  return codes;
}

// Adds the products of a chunk.
template <CodeType type, class T, int rows, bool plain>
__device__ void multiply(const CodeMatrix& m, const float* book,
                         const Codes (&codes)[columns], const Piece<type, T>* pieces,
                         std::int64_t part, float (&sums)[columns][rows]) {
  constexpr int of_word = codes_of_word<type>;
#pragma unroll
  for (int word = 0; word < words; ++word) {
    float b[columns][of_word];
#pragma unroll
    for (int j = 0; j < columns; ++j) {
      look_up<type>(book, codes[j].words[word], b[j]);
      scale_all<plain>(m, codes[j].scale, codes[j].zero, b[j]);
      round_all<T>(b[j]);
    }
#pragma unroll
    for (int row = 0; row < rows; ++row) {
      const Piece<type, T> a = pieces[row * part * words + word * warp_size];
#pragma unroll
      for (int i = 0; i < of_word; ++i) {
        const float left = widen(a.x[i]);
#pragma unroll
        for (int j = 0; j < columns; ++j)
          sums[j][row] = __fmaf_rn(left, b[j][i], sums[j][row]);
      }
    }
  }
}

// What is left over of K: an element for each lane.
template <CodeType type, class T, int rows>
__device__ void multiply_rest(const CodeMatrix& m, const Operands<T>& x,
                              const float* book, const CodeRow (&b)[columns],
                              std::int64_t k, float (&sums)[columns][rows]) {
  if (k >= m.K) return;
#pragma unroll
  for (int j = 0; j < columns; ++j) {
    const float right = widen(narrow<T>(element_of<type>(m, book, b[j], k)));
#pragma unroll
    for (int row = 0; row < rows; ++row)
      if (row < x.M)
        sums[j][row] = __fmaf_rn(widen(x.a[row * x.a_stride + k]), right, sums[j][row]);
  }
}

// rows: M, or more. plain: rows of codes begin at 16 bytes, and numbers are scaled alone.
template <CodeType type, class T, int rows, bool plain>
__global__ void __launch_bounds__(warps* warp_size, 2)
    code_rows_kernel(CodeMatrix m, Operands<T> x) {
  const float* const book = shared_book(m);
  auto* const shared = dynamic_shared<Piece<type, T>>();
  const int lane = static_cast<int>(threadIdx.x) % warp_size;
  const int warp = static_cast<int>(threadIdx.x) / warp_size;
  const std::int64_t chunks = m.K / codes_at_once(type);
  const std::int64_t step = std::int64_t{gridDim.x} * warps * columns;
  for (std::int64_t begin = std::int64_t{blockIdx.x} * warps * columns; begin < m.N;
       begin += step) {
    const std::int64_t first = begin + warp * columns;
    CodeRow b[columns];
#pragma unroll
    for (int j = 0; j < columns; ++j) b[j] = m.row(min(first + j, m.N - 1));
    float sums[columns][rows] = {};
    for (std::int64_t done = 0; done < chunks; done += x.part) {
      const std::int64_t count = min(x.part, chunks - done);
      if (count < chunks || begin < step) {  // else it is there already
        __syncthreads();
        fill<type, T, rows>(x, done, count, shared);
        __syncthreads();
      }
      for (std::int64_t chunk = lane; chunk < count; chunk += warp_size) {
        Codes codes[columns];
#pragma unroll
        for (int j = 0; j < columns; ++j)
          codes[j] = load_codes<type, plain>(m, b[j], done + chunk, x.whole_codes);
        const std::int64_t at = (chunk - lane) * words + lane;
        multiply<type, T, rows, plain>(m, book, codes, shared + at, x.part, sums);
      }
    }
    multiply_rest<type, T, rows>(m, x, book, b, chunks * codes_at_once(type) + lane,
                                 sums);
#pragma unroll
    for (int j = 0; j < columns; ++j) {
#pragma unroll
      for (int row = 0; row < rows; ++row) {
        const float sum = warp_sum(sums[j][row]);
        if (lane == 0 && first + j < m.N && row < x.M) x.store(row, first + j, sum);
      }
    }
  }
}

template <CodeType type, class T, int rows, bool plain>
void start(Stream& stream, const CodeMatrix& m, Operands<T> x) {
  constexpr std::int64_t chunk_bytes =
      rows * codes_at_once(type) * static_cast<std::int64_t>(sizeof(T));
  constexpr std::int64_t most = shared_bytes / chunk_bytes / warp_size * warp_size;
  static_assert(most > 0);
  const std::int64_t chunks = m.K / codes_at_once(type);
  x.part =
      std::min(most, divide_up(std::max<std::int64_t>(chunks, 1), warp_size) * warp_size);
  Grid grid;
  grid.blocks.x = striding_blocks(stream, m.N, warps * columns, 1);
  grid.threads.x = warps * warp_size;
  grid.shared_bytes = static_cast<std::size_t>(x.part * chunk_bytes);
  launch(stream, grid, &code_rows_kernel<type, T, rows, plain>, m, x);
}

template <CodeType type, class T>
void start_for_rows(Stream& stream, const CodeMatrix& m, Operands<T> x) {
  constexpr auto piece = alignof(Piece<type, T>);
  const auto a = reinterpret_cast<std::uintptr_t>(x.a);
  x.whole_pieces =
      a % piece == 0 && static_cast<std::size_t>(x.a_stride) * sizeof(T) % piece == 0;
  if (x.whole_codes && m.scales_alone) {
    if (x.M == 1) return start<type, T, 1, true>(stream, m, x);
    if (x.M == 2) return start<type, T, 2, true>(stream, m, x);
    return start<type, T, 4, true>(stream, m, x);
  }
  if (x.M == 1) return start<type, T, 1, false>(stream, m, x);
  start<type, T, 4, false>(stream, m, x);
}

template <class H>
void multiply_codes(Stream& stream, const TensorView& c, const TensorView& a,
                    const CodedMatrix& b_NK, const TensorView& bias) {
  using T = DeviceType<H>;
  const CodeMatrix m(b_NK, a.dtype());
  const bool whole =
      m.row_bytes % 16 == 0 && reinterpret_cast<std::uintptr_t>(m.codes) % 16 == 0;
  const Operands<T> x{.a = elements_of<H>(a),
                      .bias = elements_of<H>(bias),
                      .c = c.raw(),
                      .a_stride = a.stride(0),
                      .c_stride = c.stride(0),
                      .M = static_cast<int>(a.dim(0)),
                      .wide = c.dtype() == DType::f32,
                      .whole_codes = whole,
                      .whole_pieces = false,
                      .part = 0};
  with_code_type(b_NK.type,
                 [&]<CodeType type>() { start_for_rows<type, T>(stream, m, x); });
}

}  // namespace

void gemm_code_rows(Stream& stream, const TensorView& c, const TensorView& a,
                    const CodedMatrix& b_NK, const TensorView& bias) {
  require(reads_code_rows(b_NK) && a.dim(0) <= most_code_rows,
          "gemm_code_rows: {} rows of codes in blocks of {} columns are to be decoded",
          a.dim(0), b_NK.layout.columns);
  switch (a.dtype()) {
    case DType::f32: return multiply_codes<float>(stream, c, a, b_NK, bias);
    case DType::bf16: return multiply_codes<BFloat16>(stream, c, a, b_NK, bias);
    case DType::f16: return multiply_codes<Float16>(stream, c, a, b_NK, bias);
    default:
      fail(Status::internal, "gemm_code_rows: {} has no product of a few rows",
           name_of(a.dtype()));
  }
}

}  // namespace trireme::kernels::cuda
