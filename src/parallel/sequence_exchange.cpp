// SequenceExchange: packing, exchange and order of rows.
// SPDX-License-Identifier: Apache-2.0
#include "parallel/sequence_exchange.hpp"

#include "base/device_memory.hpp"
#include "kernels/elementwise.hpp"

namespace trireme::parallel {
namespace {

enum class Move : std::uint8_t { into_buffer, out_of_buffer };

// Copies `rows` rows of all columns between them and a buffer, where they are side by
// side. view(columns, width): their rows.
template <class View>
void copy_columns(Stream& stream, std::span<const SequenceExchange::Columns> columns,
                  const TensorView& buffer, Move move, const View& view) {
  std::int64_t column = 0;
  for (const SequenceExchange::Columns& each : columns) {
    const std::int64_t width = each.inside.dim(1);
    const TensorView own = view(each, width), packed = buffer.columns(column, width);
    if (move == Move::into_buffer) {
      kernels::copy(stream, own, packed);
    } else {
      kernels::copy(stream, packed, own);
    }
    column += width;
  }
}

}  // namespace

// What is exchanged, [B, n, L, columns]: n counts the ranks that rows go to or come from.
class SequenceExchange::Buffers {
 public:
  Buffers(SequenceExchange& owner, Stream& stream, Arena& scratch, std::int64_t batch,
          std::span<const Columns> columns)
      : owner_(owner),
        stream_(stream),
        columns_(columns),
        batch_(batch),
        rows_(columns.front().outside.dim(0) / batch) {
    std::int64_t width = 0;
    for (const Columns& each : columns) width += each.inside.dim(1);
    const auto take = [&] {
      return scratch.take(columns.front().outside.dtype(),
                          {batch * owner.whole(rows_), width}, "sequence exchange");
    };
    sent_ = take();
    received_ = take();
  }

  const TensorView& sent() const { return sent_; }
  const TensorView& received() const { return received_; }

  void exchange() const {
    owner_.exchange(batch_, owner_.whole(rows_), [&](std::int64_t first, std::int64_t S) {
      return owner_.group_.all_to_all(stream_, sent_.rows(first, S),
                                      received_.rows(first, S));
    });
  }
  // Each rank's heads of this rank's rows.
  void outside(const TensorView& buffer, Move move) const {
    const std::int64_t L = rows_, n = owner_.group_.size();
    for (std::int64_t b = 0; b < batch_; ++b)
      for (std::int64_t p = 0; p < n; ++p)
        copy_columns(stream_, columns_, buffer.rows((b * n + p) * L, L), move,
                     [&](const Columns& each, std::int64_t width) {
                       return each.outside.rows(b * L, L).columns(p * width, width);
                     });
  }
  // Each rank's rows of this rank's heads.
  void inside(const TensorView& buffer, Move move) const {
    owner_.for_chunks(batch_, rows_, [&](const Range& there, const Range& here) {
      copy_columns(stream_, columns_, buffer.rows(there.begin, there.count()), move,
                   [&](const Columns& each, std::int64_t) {
                     return each.inside.rows(here.begin, here.count());
                   });
    });
  }

 private:
  SequenceExchange& owner_;
  Stream& stream_;
  std::span<const Columns> columns_;
  std::int64_t batch_, rows_;
  TensorView sent_, received_;
};

Range SequenceExchange::part(std::int64_t heads) const {
  const std::int64_t n = group_.size(), each = heads / n;
  require(heads % n == 0, "{} heads cannot be shared by the {} ranks of '{}'", heads, n,
          group_.name());
  return {group_.rank() * each, (group_.rank() + 1) * each};
}

template <class Body>
void SequenceExchange::for_chunks(std::int64_t batch, std::int64_t rows,
                                  const Body& body) const {
  const int n = group_.size();
  for (std::int64_t b = 0; b < batch; ++b) {
    const std::int64_t first = b * rows * n;
    std::int64_t next = first;
    for (int p = 0; p < n; ++p)
      for (const Range& chunk : context_chunks(order_, rows * n, n, p)) {
        body(Range{next, next + chunk.count()},
             Range{first + chunk.begin, first + chunk.end});
        next += chunk.count();
      }
  }
}

template <class Start>
void SequenceExchange::exchange(std::int64_t batch, std::int64_t rows,
                                const Start& start) {
  for (std::int64_t b = 0; b < batch; ++b) in_flight_.push_back(start(b * rows, rows));
  for (comm::Handle& handle : in_flight_) handle.wait();
  in_flight_.clear();
}

void SequenceExchange::to_heads(Stream& stream, Arena& scratch, std::int64_t batch,
                                std::span<const Columns> columns) {
  const ArenaScope scope(scratch);
  const Buffers buffers(*this, stream, scratch, batch, columns);
  buffers.outside(buffers.sent(), Move::into_buffer);
  buffers.exchange();
  buffers.inside(buffers.received(), Move::out_of_buffer);
}

void SequenceExchange::to_rows(Stream& stream, Arena& scratch, std::int64_t batch,
                               std::span<const Columns> columns) {
  const ArenaScope scope(scratch);
  const Buffers buffers(*this, stream, scratch, batch, columns);
  buffers.inside(buffers.sent(), Move::into_buffer);
  buffers.exchange();
  buffers.outside(buffers.received(), Move::out_of_buffer);
}

void SequenceExchange::gather(Stream& stream, Arena& scratch, std::int64_t batch,
                              const TensorView& outside_T, const TensorView& inside_T) {
  const ArenaScope scope(scratch);
  const std::int64_t L = outside_T.dim(0) / batch, n = group_.size();
  const TensorView received_T =
      scratch.take(outside_T.dtype(), inside_T.shape(), "sequence exchange");
  exchange(batch, L, [&](std::int64_t first, std::int64_t) {
    return group_.all_gather(stream, outside_T.rows(first, L),
                             received_T.rows(first * n, L * n));
  });
  for_chunks(batch, L, [&](const Range& there, const Range& here) {
    copy_bytes(stream, received_T.rows(there.begin, there.count()),
               inside_T.rows(here.begin, here.count()));
  });
}

}  // namespace trireme::parallel
