// Numbers of Megatron's and llm.c's token files, which writers and readers share.
// SPDX-License-Identifier: Apache-2.0
// Both are little-endian, as is every machine that this program runs on.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace trireme::io {

// PATH.idx: magic, u64 version, u8 code of the type, u64 sequences S, u64 entries D of
// the documents, i32 lengths[S], i64 bytes in PATH.bin at which each begins [S], i64
// documents[D]: the sequence that each begins with, and S. (megatron/core/datasets.)
namespace megatron {
inline constexpr std::string_view magic{"MMIDIDX\0\0", 9};
inline constexpr std::uint64_t version = 1;
inline constexpr std::int64_t header_bytes = 34;
inline constexpr std::uint8_t code_u8 = 1, code_i32 = 4, code_u16 = 8;
inline constexpr std::int64_t u16_vocabulary = 65500;  // from here on it takes i32
}  // namespace megatron

// 256 i32: magic, version, tokens; then the tokens. (llm.c, dev/data/data_common.py.)
namespace llmc {
inline constexpr std::int64_t header_bytes = 1024;
inline constexpr std::int32_t magic_u16 = 20240520, version_u16 = 1;
inline constexpr std::int32_t magic_u32 = 20240801, version_u32 = 7;
}  // namespace llmc

}  // namespace trireme::io
