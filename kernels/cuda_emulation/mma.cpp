// Emulated tensor cores and ldmatrix: the fragments of 32 lanes put together.
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstddef>
#include <cstring>
#include <cuda_machine/mma.cuh>

#include "cuda_emulation/round.hpp"
#include "kernels/cuda_emulation/block.hpp"
#include "kernels/cuda_emulation/device_memory.hpp"

namespace trireme::cuda_emulation {
namespace {

struct Mma {
  float* d;
  const std::uint32_t *a, *b;
};

// A register holds two numbers of 16 bits, the lower index in the lower bits.
float bf16_of(std::uint32_t pair, unsigned i) {
  return bf16_to_float(static_cast<std::uint16_t>(pair >> (16 * i)));
}
float fp16_of(std::uint32_t pair, unsigned i) {
  return decode(fp16_format, pair >> (16 * i) & 0xffffu);
}

// Registers r of lane 4 g + t, for g and t as in the PTX ISA's tables.
struct Operands {
  std::array<std::array<float, 16>, 16> a;
  std::array<std::array<float, 8>, 16> b;
};

// D += A B, one product at a time in the order of k. Columns are independent, so that the
// compiler can treat all eight at once.
void multiply(const Operands& operands, Arguments arguments) {
  std::array<std::array<float, 8>, 16> d;
  const auto each = [&](auto visit) {
    for (std::size_t lane = 0; lane < 32; ++lane) {
      const std::size_t g = lane / 4, t = lane % 4;
      float* registers = static_cast<const Mma*>(arguments[lane])->d;
      for (std::size_t i = 0; i < 4; ++i)
        visit(registers[i], d[g + i / 2 * 8][2 * t + i % 2]);
    }
  };
  each([](float& mine, float& whole) { whole = mine; });
  for (std::size_t row = 0; row < 16; ++row) {
    std::array<float, 8> sums = d[row];  // a copy that stays in a register
    for (std::size_t i = 0; i < operands.b.size(); ++i) {
      const float factor = operands.a[row][i];
#pragma omp simd
      for (std::size_t column = 0; column < 8; ++column) {
        sums[column] += factor * operands.b[i][column];
      }
    }
    d[row] = sums;
  }
  each([](float& mine, float& whole) { mine = whole; });
}

template <float (*element)(std::uint32_t, unsigned)>
void complete_k16(Arguments arguments) {
  Operands operands;
  for (std::size_t lane = 0; lane < 32; ++lane) {
    const auto& mine = *static_cast<const Mma*>(arguments[lane]);
    const std::size_t g = lane / 4, t = lane % 4;
    for (std::size_t i = 0; i < 8; ++i) {
      const auto half = static_cast<unsigned>(i % 2);
      const std::size_t r = i / 2;  // rows alternate first, then columns
      operands.a[g + r % 2 * 8][2 * t + r / 2 * 8 + half] = element(mine.a[r], half);
    }
    for (std::size_t i = 0; i < 4; ++i) {
      const auto half = static_cast<unsigned>(i % 2);
      operands.b[2 * t + i / 2 * 8 + half][g] = element(mine.b[i / 2], half);
    }
  }
  multiply(operands, arguments);
}

struct Load {
  std::uint32_t* r;
  const unsigned char* row;
  bool transposed;
};

std::uint16_t element_of(Arguments arguments, int matrix, int row, int column) {
  const auto* lane = static_cast<const Load*>(arguments[8 * matrix + row]);
  std::uint16_t value;
  std::memcpy(&value, lane->row + 2 * column, sizeof value);
  return value;
}

void complete_load(Arguments arguments) {
  for (int lane = 0; lane < 32; ++lane) {
    const auto& mine = *static_cast<const Load*>(arguments[lane]);
    const int i = lane / 4, j = lane % 4 * 2;
    for (int m = 0; m < 4; ++m) {
      const auto low = mine.transposed ? element_of(arguments, m, j, i)
                                       : element_of(arguments, m, i, j);
      const auto high = mine.transposed ? element_of(arguments, m, j + 1, i)
                                        : element_of(arguments, m, i, j + 1);
      mine.r[m] = static_cast<std::uint32_t>(high) << 16 | low;
    }
  }
}

}  // namespace

void mma_m16n8k16_bf16(float* d, const std::uint32_t* a, const std::uint32_t* b,
                       const Source& where) {
  Mma mine{d, a, b};
  meet_whole_warp(WarpOperation::mma, &mine, complete_k16<bf16_of>, where);
}
void mma_m16n8k16_fp16(float* d, const std::uint32_t* a, const std::uint32_t* b,
                       const Source& where) {
  Mma mine{d, a, b};
  meet_whole_warp(WarpOperation::mma, &mine, complete_k16<fp16_of>, where);
}

void ldmatrix(std::uint32_t* r, const void* row, bool transposed, const Source& where) {
  if (reinterpret_cast<std::uintptr_t>(row) % 16 != 0) {
    fail_in_kernel("ldmatrix: the row's address is not a multiple of 16", where);
  }
  if (DeviceMemory::get().is_device(row)) {
    fail_in_kernel("ldmatrix: the row is in global, not in shared memory", where);
  }
  Load mine{r, static_cast<const unsigned char*>(row), transposed};
  meet_whole_warp(WarpOperation::ldmatrix, &mine, complete_load, where);
}

}  // namespace trireme::cuda_emulation
