// Ring attention, forward and backward.
// SPDX-License-Identifier: Apache-2.0
// Legend: n ranks, L rows of a sequence on a rank, T = B * L, H query heads, G key/value
// heads, K head width. A block is a rank's keys and values (or their gradients), dense:
// [2, T, G * K].
#include "parallel/ring_attention.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "kernels/elementwise.hpp"

namespace trireme::parallel {
namespace {

using kernels::AttentionPart;
using kernels::AttentionShape;

struct Block {
  TensorView whole_TGK;              // [2 T, G * K]: what is sent
  TensorView first_TGK, second_TGK;  // of keys and of values
};

Block take_block(Arena& scratch, DType dtype, const TensorView& like_TGK) {
  const std::int64_t T = like_TGK.dim(0);
  const TensorView whole =
      scratch.take(dtype, {2 * T, like_TGK.dim(1)}, "ring attention");
  return {whole, whole.rows(0, T), whole.rows(T, T)};
}

// A block on its way to the next rank, and the previous rank's on its way here.
struct Hop {
  comm::Handle send, receive;

  Hop() = default;
  Hop(comm::Group& group, Stream& stream, const Block& from, const Block& to)
      : send(group.send(stream, from.whole_TGK, (group.rank() + 1) % group.size())),
        receive(group.receive(stream, to.whole_TGK,
                              (group.rank() + group.size() - 1) % group.size())) {}
  void wait() {
    send.wait();
    receive.wait();
  }
};

// The keys and values of all ranks, one rank's at a time.
class KeyRing {
 public:
  KeyRing(comm::Group& group, Stream& stream, Arena& scratch, const TensorView& k_TGK,
          const TensorView& v_TGK)
      : group_(group),
        stream_(stream),
        blocks_{take_block(scratch, k_TGK.dtype(), k_TGK),
                take_block(scratch, k_TGK.dtype(), k_TGK)} {
    kernels::copy(stream, k_TGK, blocks_[0].first_TGK);
    kernels::copy(stream, v_TGK, blocks_[0].second_TGK);
  }

  // Calls f(block, rank whose block it is) for every rank, this one first, while the
  // block travels on.
  template <class F>
  void go_round(const F& f) {
    const int n = group_.size();
    for (int step = 0; step < n; ++step) {
      const Block& here = blocks_[static_cast<std::size_t>(step % 2)];
      const Block& there = blocks_[static_cast<std::size_t>((step + 1) % 2)];
      Hop hop = step + 1 < n ? Hop(group_, stream_, here, there) : Hop();
      f(here, (group_.rank() + n - step) % n);
      hop.wait();
    }
  }

 private:
  comm::Group& group_;
  Stream& stream_;
  std::array<Block, 2> blocks_;
};

// The gradients of a block of keys and values, which follow it: each rank adds its share
// to what the ranks before it left.
class GradientRing {
 public:
  GradientRing(comm::Group& group, Stream& stream, Arena& scratch, DType sums,
               const TensorView& like_TGK)
      : group_(group),
        stream_(stream),
        share_(take_block(scratch, sums, like_TGK)),
        blocks_{take_block(scratch, sums, like_TGK),
                take_block(scratch, sums, like_TGK)} {}

  // Where the gradients of the first block, this rank's own, and of later ones are
  // written.
  const Block& share() const { return first_ ? blocks_[0] : share_; }

  // Adds the share, made of rows `keys` of each of `batch` sequences, to the sums of the
  // ranks before and sends them on. The first share, of all rows, begins the sums.
  void pass_on(const Range& keys, std::int64_t batch) {
    if (!first_) {
      hop_.wait();
      std::swap(blocks_[0], blocks_[1]);
      add_share(share_.first_TGK, blocks_[0].first_TGK, keys, batch);
      add_share(share_.second_TGK, blocks_[0].second_TGK, keys, batch);
    }
    first_ = false;
    hop_ = Hop(group_, stream_, blocks_[0], blocks_[1]);
  }

  // The sums over all ranks for this rank's keys and values, after n calls of pass_on().
  const Block& returned() {
    hop_.wait();
    return blocks_[1];
  }

 private:
  void add_share(const TensorView& from_TGK, const TensorView& to_TGK, const Range& keys,
                 std::int64_t batch) {
    if (keys.count() == 0) return;
    const std::int64_t rows = from_TGK.dim(0) / batch;
    for (std::int64_t b = 0; b < batch; ++b) {
      const std::int64_t begin = b * rows + keys.begin;
      kernels::accumulate(stream_, from_TGK.rows(begin, keys.count()),
                          to_TGK.rows(begin, keys.count()));
    }
  }

  comm::Group& group_;
  Stream& stream_;
  Block share_;
  std::array<Block, 2> blocks_;  // the sums here; those that come
  Hop hop_;
  bool first_ = true;
};

// Cuts a part into at most 4 pieces of queries at multiples of 256, where cuts change no
// bits of forward and cost nothing, and calls f(piece) for each; in between, messages
// move on. The last queries come first: of a causal part only they see all keys, so that
// only their piece may find new ones.
template <class F>
void for_pieces(comm::Group& group, const AttentionPart& part, const F& f) {
  constexpr std::int64_t unit = 256, most = 4;
  const std::int64_t queries = part.queries.count();
  const std::int64_t step = divide_up(divide_up(queries, most), unit) * unit;
  AttentionPart piece = part;
  for (std::int64_t i = divide_up(queries, step); i-- > 0;) {
    piece.queries.begin = part.queries.begin + i * step;
    f(piece);
    if (part.causal) piece.keys.end -= piece.queries.count();
    piece.queries.end = piece.queries.begin;
    piece.new_keys = false;
    group.progress();
  }
}

// A tensor for sums over parts: `result` itself if it has the accumulator dtype.
TensorView take_sums(Arena& scratch, const TensorView& result) {
  const DType sums = accumulator_of(result.dtype());
  if (result.dtype() == sums) return result;
  return scratch.take(sums, result.shape(), "ring attention");
}

void round_sums(Stream& stream, const TensorView& sums, const TensorView& result) {
  if (sums.dtype() != result.dtype()) kernels::copy(stream, sums, result);
}

// What this rank's queries see of one rank's keys after another.
class View {
 public:
  View(comm::Group& group, Stream& stream, Arena& scratch, ContextOrder order,
       const AttentionShape& shape)
      : group_(group),
        stream_(stream),
        order_(order),
        positions_T_(shape.first_T),
        shape_(shape) {
    require(order != ContextOrder::zigzag || shape.sequence % 2 == 0,
            "ring attention in zigzag order on {} rows of a sequence: a rank holds two "
            "chunks of equal length",
            shape.sequence);
    if (!positions_T_.empty())
      shape_.first_T = scratch.take(DType::i32, positions_T_.shape(), "first keys");
    shape_.dropout.query_chunks = chunks_of(group.rank());
  }

  // The part on the keys of `source`, if its queries see any.
  std::optional<AttentionPart> turn_to(int source) {
    const auto part = visible_part(order_, shape_.sequence, group_.rank(), source);
    if (!part) return part;
    shape_.dropout.key_chunks = chunks_of(source);
    if (!positions_T_.empty())
      kernels::count_positions_below(stream_, positions_T_, shape_.dropout.key_chunks,
                                     shape_.first_T);
    return part;
  }
  // With first_T as rows of the keys of the last `source`, and dropout of their
  // positions.
  const AttentionShape& shape() const { return shape_; }

 private:
  std::vector<Range> chunks_of(int rank) const {
    const int n = group_.size();
    return context_chunks(order_, shape_.sequence * n, n, rank);
  }

  comm::Group& group_;
  Stream& stream_;
  ContextOrder order_;
  TensorView positions_T_;
  AttentionShape shape_;
};

}  // namespace

void RingAttention::forward(Stream& stream, Arena& scratch, const AttentionShape& shape,
                            const TensorView& q_THK, const TensorView& k_TGK,
                            const TensorView& v_TGK, const TensorView& o_THK,
                            const TensorView& lse_TH) {
  if (group_.size() == 1 || shape.batch * shape.sequence == 0)
    return kernels::attention(stream, scratch, shape, q_THK, k_TGK, v_TGK, o_THK, lse_TH);
  const ArenaScope scope(scratch);
  View view(group_, stream, scratch, order_, shape);
  const TensorView sum_THK = take_sums(scratch, o_THK);
  // 1. This rank's keys and values first, which every query has some of; then the others'
  KeyRing ring(group_, stream, scratch, k_TGK, v_TGK);
  ring.go_round([&](const Block& block, int source) {
    const auto part = view.turn_to(source);
    if (!part) return;
    for_pieces(group_, *part, [&](const AttentionPart& piece) {
      kernels::attention_part(stream, scratch, view.shape(), piece, q_THK,
                              block.first_TGK, block.second_TGK, sum_THK, lse_TH);
    });
  });
  // 2. o is rounded once
  round_sums(stream, sum_THK, o_THK);
}

void RingAttention::backward(Stream& stream, Arena& scratch, const AttentionShape& shape,
                             const TensorView& do_THK, const TensorView& q_THK,
                             const TensorView& k_TGK, const TensorView& v_TGK,
                             const TensorView& o_THK, const TensorView& lse_TH,
                             const TensorView& dq_THK, const TensorView& dk_TGK,
                             const TensorView& dv_TGK) {
  if (group_.size() == 1 || shape.batch * shape.sequence == 0)
    return kernels::attention_backward(stream, scratch, shape, do_THK, q_THK, k_TGK,
                                       v_TGK, o_THK, lse_TH, dq_THK, dk_TGK, dv_TGK);
  const ArenaScope scope(scratch);
  View view(group_, stream, scratch, order_, shape);
  const TensorView sum_THK = take_sums(scratch, dq_THK);
  // 1. Keys and values go round again, their gradients one step behind
  KeyRing ring(group_, stream, scratch, k_TGK, v_TGK);
  GradientRing gradients(group_, stream, scratch, sum_THK.dtype(), dk_TGK);
  ring.go_round([&](const Block& block, int source) {
    auto part = view.turn_to(source);
    if (part) {
      part->new_keys = true;  // the share of this rank is written
      for_pieces(group_, *part, [&](const AttentionPart& piece) {
        kernels::attention_part_backward(stream, scratch, view.shape(), piece, do_THK,
                                         q_THK, block.first_TGK, block.second_TGK, o_THK,
                                         lse_TH, sum_THK, gradients.share().first_TGK,
                                         gradients.share().second_TGK);
      });
    }
    gradients.pass_on(part ? part->keys : Range{}, shape.batch);
  });
  // 2. The last step brings the gradients back to their source ranks; sums are rounded
  // once
  const Block& returned = gradients.returned();
  kernels::copy(stream, returned.first_TGK, dk_TGK);
  kernels::copy(stream, returned.second_TGK, dv_TGK);
  round_sums(stream, sum_THK, dq_THK);
}

}  // namespace trireme::parallel
