// BaseCodes: how the frozen weights of a model with adapters lie in memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/coded_matrix.hpp"

namespace trireme::model {

// As numbers; as the codes that the model's folder stores; or as codes that are made of
// its numbers when they are loaded: NF4 in blocks of 64 and int8 by rows, as bitsandbytes
// makes them, or E4M3 with a scale for each output.
enum class BaseCodes : std::uint8_t { none, stored, nf4, int8, fp8 };

inline constexpr std::int64_t nf4_block = 64;

constexpr bool makes_codes(BaseCodes kind) { return kind >= BaseCodes::nf4; }
std::string_view name_of(BaseCodes kind);

// Whether codes are made of a tensor: of the matrices of linear layers in blocks, but for
// routers. Wherever a mesh cuts them, the answer is the same.
bool becomes_codes(std::string_view tensor, const Shape& whole);

// How the codes that are made of a box of a matrix lie in memory.
struct MadeLayout {
  CodeType type = CodeType::four_bits;
  ScaleLayout scales{};
};
MadeLayout made_layout(BaseCodes kind, const Shape& whole, const Shape& begin,
                       const Shape& extent);
// Bytes of these.
std::size_t made_bytes(BaseCodes kind, const Shape& whole, const Shape& begin,
                       const Shape& extent);

}  // namespace trireme::model
