// SequenceExchange: parts of every sequence are exchanged for parts of the heads.
// SPDX-License-Identifier: Apache-2.0
// For layers that go through a sequence row by row, whatever attention does beside them.
// Source: Jacobs et al., "DeepSpeed Ulysses", 2023, section 3.
// Legend: n ranks of the context axis, B sequences, S positions of each, L = S / n rows
// of a sequence on a rank. Outside, rows are [B, L], in the order of context_positions(),
// with the columns of all heads; inside they are [B, S], in the order of positions, with
// the columns of heads [r H / n, (r + 1) H / n) of rank r.
#pragma once

#include <span>
#include <vector>

#include "comm/group.hpp"
#include "parallel/context_order.hpp"

namespace trireme::parallel {

class SequenceExchange {
 public:
  // Columns that heads have side by side: outside those of H heads, inside of H / n.
  // Rows may be strided.
  struct Columns {
    TensorView outside, inside;
  };

  SequenceExchange(comm::Group& context, ContextOrder order)
      : group_(context), order_(order) {}

  // S of which every rank holds `rows`.
  std::int64_t whole(std::int64_t rows) const { return rows * group_.size(); }
  // This rank's of `heads`. Throws Error(internal) unless they are a multiple of the
  // ranks.
  Range part(std::int64_t heads) const;

  // Inside from outside, and back, of all columns at once; they have one dtype. Written
  // when they return. Scratch: twice the inside. Cost: a rank sends (n - 1) / n of it.
  void to_heads(Stream& stream, Arena& scratch, std::int64_t batch,
                std::span<const Columns> columns);
  void to_rows(Stream& stream, Arena& scratch, std::int64_t batch,
               std::span<const Columns> columns);
  // A number for each row, dense: [B S] from [B L].
  void gather(Stream& stream, Arena& scratch, std::int64_t batch,
              const TensorView& outside_T, const TensorView& inside_T);

 private:
  class Buffers;

  // body(rows of `exchanged`, the same rows inside), range by range.
  template <class Body>
  void for_chunks(std::int64_t batch, std::int64_t rows, const Body& body) const;
  // start(first row, rows) of each sequence, all at once.
  template <class Start>
  void exchange(std::int64_t batch, std::int64_t rows, const Start& start);

  comm::Group& group_;
  ContextOrder order_;
  std::vector<comm::Handle> in_flight_;
};

}  // namespace trireme::parallel
