// A tile of a bf16 product by AMX: matrices of 16 x 16 sums in registers of their own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/gemm/bf16_panels.hpp"
#include "kernels/gemm/bf16_tile.hpp"

namespace trireme::kernels {

constexpr std::int64_t amx_rows = 32;     // two groups of lines of op(A)
constexpr std::int64_t amx_columns = 32;  // two groups of lines of op(B)

// True if the processor has AMX with bf16 and the system lets this process use it. Asks
// for it once, for all threads.
bool has_amx();

// Each thread that multiplies: once before, and once after it is done, so that the system
// no longer keeps the tiles when it switches threads.
void configure_amx_tiles();
void release_amx_tiles();

// Packs up to panel_group lines of op(A) as tiles: for 16 pairs of K at a time, 16 lines
// of 16 pairs, each line's together. `to.step` is panel_group; `to.high` is not used. All
// of the last tile is written: what does not exist is 0.
void pack_tiles(const PanelSource& from, PanelPlace to);

// A thread's sums: those of the tile before wait for the next one, beside whose products
// they go to their place.
struct AmxSums {
  alignas(64) float memory[2][amx_rows * amx_columns];
  float *done = memory[0], *next = memory[1];
  TileResult result;                   // of `done`
  std::int64_t rows = 0, columns = 0;  // of it
};

// As multiply_tile(), of up to amx_rows x amx_columns: a is packed by pack_tiles(), b by
// pack_group(), both in groups of 16 lines, one after another; pairs is a multiple of 16.
// Subnormal numbers count as 0. Only between configure_amx_tiles() and
// release_amx_tiles(). The result is written by the next call or by finish_amx_tiles().
void multiply_amx_tile(const std::uint32_t* a, const std::uint32_t* b, std::int64_t pairs,
                       std::int64_t rows, std::int64_t columns, const TileResult& result,
                       AmxSums& sums);
void finish_amx_tiles(AmxSums& sums);

}  // namespace trireme::kernels
