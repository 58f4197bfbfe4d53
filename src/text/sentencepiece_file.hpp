// What a SentencePiece model file holds.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::text {

// The numbers are those of SentencePiece's file.
enum class PieceKind : std::uint8_t {
  normal = 1,
  unknown = 2,
  control = 3,       // stands for no text
  user_defined = 4,  // found before all else
  unused = 5,
  byte = 6,  // <0x41>
};

struct SentencePiece {
  std::string text;
  float score = 0;
  PieceKind kind = PieceKind::normal;
};

struct SentencePieceFile {
  std::vector<SentencePiece> pieces;  // by their ids
  bool is_bpe = false;                // else unigram
  bool byte_fallback = false;
  bool space_behind = false;              // a word's space stands behind it
  std::int32_t unknown = 0;               // the id of the one unknown piece
  std::string unknown_text = " \u2047 ";  // which it is decoded to
  std::string characters;                 // the table of texts that become others
  bool add_space = true, remove_spaces = true, escape_spaces = true;
};

// Throws Error(bad_content) for bytes that are no such file, and for models that are
// neither BPE nor Unigram. `source` names the file.
SentencePieceFile read_sentencepiece(std::string_view bytes, const std::string& source);

// The byte that "<0x41>" stands for, or -1.
int byte_of_piece(std::string_view piece);

}  // namespace trireme::text
