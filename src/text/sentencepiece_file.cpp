// Reads a SentencePiece model file and checks what later code relies on.
// SPDX-License-Identifier: Apache-2.0
#include "text/sentencepiece_file.hpp"

#include <cmath>
#include <unordered_set>

#include "base/error.hpp"
#include "base/number.hpp"
#include "base/text.hpp"
#include "text/protobuf.hpp"
#include "text/utf8.hpp"

namespace trireme::text {
namespace {

// Numbers of fields (sentencepiece_model.proto).
namespace field {
constexpr std::uint32_t pieces = 1, trainer = 2, normalizer = 3, denormalizer = 5;
constexpr std::uint32_t piece_text = 1, piece_score = 2, piece_kind = 3;
constexpr std::uint32_t model = 3, space_behind = 24, byte_fallback = 35,
                        unknown_text = 44;
constexpr std::uint32_t characters = 2, add_space = 3, remove_spaces = 4,
                        escape_spaces = 5;
}  // namespace field

SentencePiece read_piece(std::string_view bytes, const std::string& source) {
  SentencePiece piece;
  ProtoReader reader(bytes, source);
  for (ProtoField f; reader.next(f);) {
    if (f.number == field::piece_text) piece.text = f.text("a piece");
    if (f.number == field::piece_score) piece.score = f.number32("a score");
    if (f.number != field::piece_kind) continue;
    const std::int64_t kind = f.integer("the kind of a piece");
    require(kind >= 1 && kind <= 6, Status::bad_content,
            "{}: holds a piece of the unknown kind {}", source, kind);
    piece.kind = static_cast<PieceKind>(kind);
  }
  return piece;
}

void read_trainer(std::string_view bytes, const std::string& source,
                  SentencePieceFile& file) {
  ProtoReader reader(bytes, source);
  for (ProtoField f; reader.next(f);) {
    if (f.number == field::model) {
      const std::int64_t model = f.integer("the type of the model");
      require(model == 1 || model == 2, Status::bad_content,
              "{}: is a SentencePiece model of type {}; BPE (2) and Unigram (1) are "
              "supported",
              source, model);
      file.is_bpe = model == 2;
    }
    if (f.number == field::space_behind)
      file.space_behind = f.boolean("treat_whitespace_as_suffix");
    if (f.number == field::byte_fallback) file.byte_fallback = f.boolean("byte_fallback");
    if (f.number == field::unknown_text) file.unknown_text = f.text("unk_surface");
  }
}

void read_normalizer(std::string_view bytes, const std::string& source,
                     SentencePieceFile& file) {
  ProtoReader reader(bytes, source);
  for (ProtoField f; reader.next(f);) {
    if (f.number == field::characters) file.characters = f.text("precompiled_charsmap");
    if (f.number == field::add_space) file.add_space = f.boolean("add_dummy_prefix");
    if (f.number == field::remove_spaces)
      file.remove_spaces = f.boolean("remove_extra_whitespaces");
    if (f.number == field::escape_spaces)
      file.escape_spaces = f.boolean("escape_whitespaces");
  }
}

// What turns decoded text into other text again; hardly any file has it.
void refuse_denormalizer(std::string_view bytes, const std::string& source) {
  ProtoReader reader(bytes, source);
  for (ProtoField f; reader.next(f);)
    require(f.number != field::characters || f.text("precompiled_charsmap").empty(),
            Status::bad_content, "{}: has a denormalizer, which is not supported",
            source);
}

void check_pieces(SentencePieceFile& file, const std::string& source) {
  require(!file.pieces.empty(), Status::bad_content,
          "{}: is no SentencePiece model: it has no pieces", source);
  std::unordered_set<std::string_view> seen;
  std::int64_t unknowns = 0;
  std::vector<bool> bytes(256);
  for (std::size_t i = 0; i < file.pieces.size(); ++i) {
    const SentencePiece& piece = file.pieces[i];
    const auto refuse = [&](const char* why) {
      fail(Status::bad_content, "{}: piece {} (\"{}\") {}", source, i,
           one_line(valid_utf8(piece.text)), why);
    };
    if (piece.text.empty()) refuse("is empty");
    if (valid_bytes(piece.text) != piece.text.size()) refuse("is no UTF-8");
    if (!seen.insert(piece.text).second) refuse("is there twice");
    if (!std::isfinite(piece.score)) refuse("has a score that is no number");
    if (piece.kind == PieceKind::unknown) {
      ++unknowns;
      file.unknown = static_cast<std::int32_t>(i);
    }
    if (piece.kind == PieceKind::unused && file.is_bpe)
      refuse("is unused, which is not supported in a BPE model");
    if (piece.kind != PieceKind::byte) continue;
    const int byte = byte_of_piece(piece.text);
    if (byte < 0) refuse("is a byte but not named <0x00> to <0xFF>");
    bytes[static_cast<std::size_t>(byte)] = true;
  }
  require(unknowns == 1, Status::bad_content, "{}: has {} unknown pieces instead of one",
          source, unknowns);
  if (file.byte_fallback)
    for (std::size_t byte = 0; byte < 256; ++byte)
      require(bytes[byte], Status::bad_content,
              "{}: falls back to bytes, but has no piece for byte {}", source, byte);
}

}  // namespace

int byte_of_piece(std::string_view piece) {
  if (piece.size() != 6 || !piece.starts_with("<0x") || piece.back() != '>') return -1;
  for (const char c : piece.substr(3, 2))
    if (c >= 'a') return -1;  // written in capitals
  const auto byte = parse_hexadecimal(piece.substr(3, 2));
  return byte ? static_cast<int>(*byte) : -1;
}

SentencePieceFile read_sentencepiece(std::string_view bytes, const std::string& source) {
  SentencePieceFile file;
  try {
    ProtoReader reader(bytes, source);
    for (ProtoField f; reader.next(f);) {
      if (f.number == field::pieces)
        file.pieces.push_back(read_piece(f.text("the pieces"), source));
      if (f.number == field::trainer) read_trainer(f.text("trainer_spec"), source, file);
      if (f.number == field::normalizer)
        read_normalizer(f.text("normalizer_spec"), source, file);
      if (f.number == field::denormalizer)
        refuse_denormalizer(f.text("denormalizer_spec"), source);
    }
  } catch (const Error& error) {
    throw Error(error.status(),
                std::string(error.what()) + " (read as a SentencePiece model)",
                error.where());
  }
  check_pieces(file, source);
  return file;
}

}  // namespace trireme::text
