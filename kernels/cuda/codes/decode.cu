// Numbers of matrices of codes on a GPU: eight neighbours of a row for each thread.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/coded_matrix.hpp"
#include "kernels/cuda/codes/codes.cuh"
#include "kernels/cuda/codes/few_rows.hpp"
#include "kernels/cuda/common/rows.cuh"

namespace trireme::kernels::cuda {
namespace {

constexpr int elements = 8;

// Elements [c, c + 8) of a row, which have one scale, in whole words of codes.
template <CodeType type, class T>
__device__ Group<T, elements> decode_group(const CodeMatrix& m, const float* book,
                                           const CodeRow& row, std::int64_t c) {
  constexpr int of_word = codes_of_word<type>;
  const std::int64_t block = m.block_columns(row.before + c);
  const float scale = row.scales[block], zero = zero_of(row, block);
  const auto words = load_group<elements / of_word>(
      reinterpret_cast<const unsigned*>(row.codes) + c / of_word);
  Group<T, elements> out;
#pragma unroll
  for (int i = 0; i < elements / of_word; ++i) {
    float x[of_word];
    look_up<type>(book, words.x[i], x);
    scale_all<false>(m, scale, zero, x);
#pragma unroll
    for (int j = 0; j < of_word; ++j)
      out.x[i * of_word + j] = narrow<T>(static_cast<Wide<T>>(x[j]));
  }
  return out;
}

// whole: groups are read, scaled and written as such.
template <CodeType type, class T>
__global__ void __launch_bounds__(256)
    decode_kernel(CodeMatrix m, Rows<T> y, bool whole) {
  const float* const book = shared_book(m);
  const std::int64_t first =
      (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * elements;
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x * elements;
  std::int64_t i = std::int64_t{blockIdx.y} * blockDim.y + threadIdx.y;
  for (; i < m.N; i += std::int64_t{gridDim.y} * blockDim.y) {
    const CodeRow row = m.row(i);
    for (std::int64_t c = first; c < m.K; c += step) {
      if (whole && c + elements <= m.K) {
        store_group(y[i] + c, decode_group<type, T>(m, book, row, c));
      } else {
        for (std::int64_t j = c; j < c + elements && j < m.K; ++j)
          y[i][j] = narrow<T>(static_cast<Wide<T>>(element_of<type>(m, book, row, j)));
      }
    }
  }
}

// Whether rows of codes begin at whole groups of words.
bool rows_of_words(const CodedMatrix& m) {
  const std::int64_t bytes = m.type == CodeType::four_bits ? 4 : 8;
  return CodedMatrix::row_bytes(m.type, m.shape[1]) % bytes == 0 &&
         reinterpret_cast<std::uintptr_t>(m.codes.raw()) % 8 == 0;
}

}  // namespace

void decode_matrix(Stream& stream, const CodedMatrix& matrix, const TensorView& y_NK) {
  const std::int64_t N = matrix.shape[0], K = matrix.shape[1];
  if (N == 0 || K == 0) return;
  const bool whole = rows_of_words(matrix) && starts_are_aligned(y_NK) &&
                     has_scales_of(matrix, elements);
  const Grid grid = grid_over_rows(stream, {N, K}, elements);
  visit_floating(y_NK.dtype(), [&]<class H>(H) {
    using T = DeviceType<H>;
    const CodeMatrix m(matrix, y_NK.dtype());
    with_code_type(matrix.type, [&]<CodeType type>() {
      launch(stream, grid, &decode_kernel<type, T>, m, rows_of<H>(y_NK), whole);
    });
  });
}

}  // namespace trireme::kernels::cuda
