// Best fit of documents into rows, by the room that rows have left.
// SPDX-License-Identifier: Apache-2.0
#include "io/best_fit_packing.hpp"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

#include "base/error.hpp"
#include "base/philox.hpp"

namespace trireme::io {
namespace {

// How many rows have each room left, in a tree of sums over [0, most].
class FreeSpaceTree {
 public:
  explicit FreeSpaceTree(std::int64_t most)
      : leaves_(std::bit_ceil(static_cast<std::size_t>(most) + 1)), sums_(2 * leaves_) {}
  void add(std::int64_t room, std::int64_t rows) {
    for (std::size_t at = leaves_ + static_cast<std::size_t>(room); at > 0; at /= 2)
      sums_[at] += rows;
  }
  // The smallest room of at least `tokens` that a row has; -1: none.
  std::int64_t best(std::int64_t tokens) const {
    std::size_t at = leaves_ + static_cast<std::size_t>(tokens);
    while (sums_[at] == 0) {
      while (at % 2 == 1) at /= 2;  // a right child: what follows lies beyond its parent
      if (at == 0) return -1;
      ++at;
    }
    while (at < leaves_) at = sums_[2 * at] > 0 ? 2 * at : 2 * at + 1;
    return static_cast<std::int64_t>(at - leaves_);
  }

 private:
  std::size_t leaves_;
  std::vector<std::int64_t> sums_;  // [1]: of all; of node n: those of 2 n and 2 n + 1
};

}  // namespace

BestFitPacking::BestFitPacking(std::span<const std::int64_t> ends,
                               std::int64_t row_tokens, std::uint64_t seed)
    : row_tokens_(row_tokens) {
  require(row_tokens >= 2, "a row of {} tokens", row_tokens);
  std::vector<DocumentPiece> pieces = take_pieces(ends);
  const Random draw(seed, hash_name("documents of one length"));
  const auto drawn = [&](const DocumentPiece& piece) {
    return std::pair(draw.bits(static_cast<std::uint64_t>(piece.begin)), piece.begin);
  };
  std::sort(pieces.begin(), pieces.end(),
            [&](const DocumentPiece& a, const DocumentPiece& b) {
              return a.tokens != b.tokens ? a.tokens > b.tokens : drawn(a) < drawn(b);
            });
  fit(pieces, seed);
}

std::int64_t BestFitPacking::bytes() const {
  return static_cast<std::int64_t>(pieces_.size() * sizeof(DocumentPiece) +
                                   begins_.size() * sizeof(std::int64_t));
}

// The documents as they are to be fitted: none longer than a row.
std::vector<DocumentPiece> BestFitPacking::take_pieces(
    std::span<const std::int64_t> ends) {
  std::vector<DocumentPiece> pieces;
  std::int64_t begin = 0;
  for (const std::int64_t end : ends) {
    require(end >= begin, "a document from token {} to {}", begin, end);
    const std::int64_t tokens = end - begin;
    (tokens >= 2 ? documents_ : left_out_) += 1;
    cut_ += tokens > row_tokens_;
    for (std::int64_t at = begin; end - at >= 2; at += row_tokens_ - 1)
      pieces.push_back({at, std::min(row_tokens_, end - at)});
    begin = end;
  }
  return pieces;
}

void BestFitPacking::fit(const std::vector<DocumentPiece>& pieces, std::uint64_t seed) {
  // 1. which row each piece goes to: of rows with the same room, the one that got it last
  FreeSpaceTree rooms(row_tokens_);
  std::vector<std::int64_t> row_of, below;  // below: rows with a room are a linked list
  std::vector<std::int64_t> top(static_cast<std::size_t>(row_tokens_) + 1, -1);
  row_of.reserve(pieces.size());
  for (const DocumentPiece& piece : pieces) {
    std::int64_t room = rooms.best(piece.tokens), row = std::ssize(below);
    if (room < 0) {
      room = row_tokens_;
      below.push_back(-1);
    } else {
      row = top[static_cast<std::size_t>(room)];
      top[static_cast<std::size_t>(room)] = below[static_cast<std::size_t>(row)];
      rooms.add(room, -1);
    }
    row_of.push_back(row);
    room -= piece.tokens;
    below[static_cast<std::size_t>(row)] = top[static_cast<std::size_t>(room)];
    top[static_cast<std::size_t>(room)] = row;
    rooms.add(room, 1);
  }
  // 2. rows in an order of the seed: some of them are not the longest documents
  const Random draw(seed, hash_name("rows of documents"));
  std::vector<std::int64_t> order(below.size()), number(below.size());
  std::iota(order.begin(), order.end(), 0);
  const auto drawn = [&](std::int64_t row) {
    return std::pair(draw.bits(static_cast<std::uint64_t>(row)), row);
  };
  std::sort(order.begin(), order.end(),
            [&](std::int64_t a, std::int64_t b) { return drawn(a) < drawn(b); });
  for (std::size_t r = 0; r < order.size(); ++r)
    number[static_cast<std::size_t>(order[r])] = static_cast<std::int64_t>(r);
  for (std::int64_t& row : row_of) row = number[static_cast<std::size_t>(row)];
  // 3. the pieces by rows, in each as they came
  begins_.assign(below.size() + 1, 0);
  for (const std::int64_t row : row_of) ++begins_[static_cast<std::size_t>(row) + 1];
  for (std::size_t r = 1; r < begins_.size(); ++r) begins_[r] += begins_[r - 1];
  std::vector<std::int64_t>& next = below;
  std::copy(begins_.begin(), begins_.end() - 1, next.begin());
  pieces_.resize(pieces.size());
  for (std::size_t i = 0; i < pieces.size(); ++i)
    pieces_[static_cast<std::size_t>(next[static_cast<std::size_t>(row_of[i])]++)] =
        pieces[i];
}

std::span<const DocumentPiece> BestFitPacking::row(std::int64_t index) const {
  require(index >= 0 && index < rows(), "row {} of {}", index, rows());
  const auto at = static_cast<std::size_t>(index);
  return std::span(pieces_).subspan(
      static_cast<std::size_t>(begins_[at]),
      static_cast<std::size_t>(begins_[at + 1] - begins_[at]));
}

double BestFitPacking::padding() const {
  std::int64_t held = 0;
  for (const DocumentPiece& piece : pieces_) held += piece.tokens;
  const double places = static_cast<double>(rows()) * static_cast<double>(row_tokens_);
  return places > 0 ? 1.0 - static_cast<double>(held) / places : 0.0;
}

}  // namespace trireme::io
