// BestFitPacking: whole documents, put into rows of samples where they fit best.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace trireme::io {

// A document, or a part of one that is longer than a row.
struct DocumentPiece {
  std::int64_t begin = 0;  // its first token in the stream
  std::int64_t tokens = 0;
};

// Best fit, longest first (Johnson, 1973): the pieces in the order of their lengths, each
// into the row in which it leaves the least room, or into a new one. A document longer
// than a row is cut before, as a stream is cut into samples: neighbouring parts share a
// token, so that every token but the first is a target once. A document of one token
// teaches nothing and is left out. The seed draws which of several pieces of one length
// comes first, so that neighbours in the data need not share a row, and numbers the rows,
// so that the first ones do not hold the longest documents. All is a function of
// (lengths, row, seed): every rank and every run that resumes has the same rows.
// Memory: 16 bytes a piece and 8 a row; up to 64 more a piece while it is made.
// Cost: sorting, and a walk up and down a tree of 2 * row_tokens for each piece.
class BestFitPacking {
 public:
  // ends:       of each document in the stream, ascending; the first begins at 0
  // row_tokens: S + 1
  // Throws Error(internal) for ends that descend.
  BestFitPacking(std::span<const std::int64_t> ends, std::int64_t row_tokens,
                 std::uint64_t seed);

  std::int64_t rows() const { return static_cast<std::int64_t>(begins_.size()) - 1; }
  // Of a row, in their order in it, the longest first.
  std::span<const DocumentPiece> row(std::int64_t index) const;
  std::int64_t documents() const { return documents_; }  // that are in rows
  std::int64_t cut() const { return cut_; }              // of these: longer than a row
  std::int64_t left_out() const { return left_out_; }
  std::int64_t bytes() const;  // of memory
  // Of the places in the rows: how many have no token of a document.
  double padding() const;

 private:
  std::vector<DocumentPiece> take_pieces(std::span<const std::int64_t> ends);
  void fit(const std::vector<DocumentPiece>& pieces, std::uint64_t seed);

  std::int64_t row_tokens_;
  std::vector<DocumentPiece> pieces_;  // row after row
  std::vector<std::int64_t> begins_;   // of each row in pieces_, and the end of the last
  std::int64_t documents_ = 0, cut_ = 0, left_out_ = 0;
};

}  // namespace trireme::io
