// The order of computation of each schedule but the zero-bubble ones.
// SPDX-License-Identifier: Apache-2.0
#include "schedule/orders.hpp"

#include <algorithm>
#include <array>
#include <deque>
#include <utility>

#include "base/split.hpp"

namespace trireme::schedule {
namespace {

// The k-th forward (or backward) of a rank under interleaving: groups of p microbatches
// go through the chunks, upwards in forward and downwards in backward.
Action interleaved_action(const PipelineShape& shape, ActionKind kind, std::int64_t k) {
  const std::int64_t group = std::int64_t{shape.ranks} * shape.chunks;
  const auto chunk = static_cast<int>(k % group / shape.ranks);
  return {kind, k / group * shape.ranks + k % shape.ranks,
          kind == ActionKind::forward ? chunk : shape.chunks - 1 - chunk};
}

// Writes DualPipe-V's order; the weight backwards that it defers wait in a queue.
class DualPipe {
 public:
  void forward(int chunk) { add(ActionKind::forward, chunk, forwards_); }
  void backward(int chunk) { add(ActionKind::backward, chunk, backwards_); }
  void backward_input(int chunk) {
    add(ActionKind::backward_input, chunk, backwards_);
    owed_.push_back(order_.back());
  }
  void backward(int chunk, bool defer) {
    defer ? backward_input(chunk) : backward(chunk);
  }
  void backward_weight() {
    order_.push_back(
        {ActionKind::backward_weight, owed_.front().microbatch, owed_.front().chunk});
    owed_.pop_front();
  }
  Schedule take() { return std::move(order_); }

 private:
  using Counts = std::array<std::int64_t, 2>;
  void add(ActionKind kind, int chunk, Counts& counts) {
    order_.push_back({kind, counts[static_cast<std::size_t>(chunk)]++, chunk});
  }

  Schedule order_;
  std::deque<Action> owed_;
  Counts forwards_{}, backwards_{};
};

}  // namespace

Schedule gpipe_order(const PipelineShape& shape) {
  Schedule order;
  for (const auto kind : {ActionKind::forward, ActionKind::backward}) {
    for (std::int64_t i = 0; i < shape.microbatches; ++i) order.push_back({kind, i});
  }
  return order;
}

// p - 1 - r forwards, then forwards and backwards in turn: the last rank, which runs each
// backward at once, starts that many microbatches late.
Schedule one_f_one_b_order(const PipelineShape& shape, int rank) {
  const std::int64_t m = shape.microbatches;
  const std::int64_t ahead = std::min<std::int64_t>(m, shape.ranks - 1 - rank);
  Schedule order;
  for (std::int64_t k = 0; k < m + ahead; ++k) {
    if (k < m) order.push_back({ActionKind::forward, k});
    if (k >= ahead) order.push_back({ActionKind::backward, k - ahead});
  }
  return order;
}

// As 1F1B, with 2 (p - 1 - r) + (v - 1) p forwards of warm-up (Narayanan et al., 2021).
// Microbatches are rounded up to a multiple of p.
Schedule interleaved_order(const PipelineShape& shape, int rank) {
  const std::int64_t p = shape.ranks, v = shape.chunks;
  const std::int64_t total = divide_up(shape.microbatches, p) * p * v;
  const std::int64_t ahead = std::min(total, 2 * (p - 1 - rank) + (v - 1) * p);
  Schedule order;
  for (std::int64_t k = 0; k < total + ahead; ++k) {
    if (k < total) {
      order.push_back(interleaved_action(shape, ActionKind::forward, k));
    }
    if (k >= ahead) {
      order.push_back(interleaved_action(shape, ActionKind::backward, k - ahead));
    }
  }
  return order;
}

// The published order (github.com/deepseek-ai/DualPipe), for at least 2 p microbatches.
// Where it overlaps a forward and a backward, the two stand next to each other, the
// forward first. Step numbers are the publication's.
Schedule dualpipe_v_order(const PipelineShape& shape, int rank) {
  const std::int64_t p = shape.ranks, r = rank;
  const std::int64_t m = std::max(shape.microbatches, 2 * p);
  const std::int64_t below = p - 1 - r, above = r + 1;
  DualPipe write;
  const auto times = [](std::int64_t count, auto&& step) {
    for (std::int64_t i = 0; i < count; ++i) step(i);
  };
  // 1. Fill the way down and, 2., start the way back up.
  times(2 * below, [&](auto) { write.forward(0); });
  times(above, [&](auto) {
    write.forward(0);
    write.forward(1);
  });
  // 3. First backwards; the gradient goes on before the weights are done.
  times(below, [&](auto) {
    write.backward_input(1);
    write.backward_weight();
    write.forward(1);
  });
  // 4. Steady state: two pairs of a forward and a backward of the other chunk.
  times(m - 2 * p + above, [&](auto) {
    write.forward(0);
    write.backward(1);
    write.forward(1);
    write.backward(0);
  });
  // 5. No chunk 0 is left.
  times(below, [&](auto) {
    write.backward(1);
    write.forward(1);
    write.backward(0);
  });
  // 6. Only backwards are left; the second half of them defer their weights, from one
  // chunk or the other on by the parity of the rank.
  times(above, [&](auto i) {
    const std::int64_t half = above / 2;
    write.backward(1, i > half || (i == half && r % 2 == 1));
    write.backward(0, i >= half);
  });
  // 7. and 8. Weights fill the gaps between the last backwards.
  times(below, [&](auto) {
    write.backward_weight();
    write.backward_input(0);
  });
  times(above, [&](auto) { write.backward_weight(); });
  return write.take();
}

Schedule v_forward_order(const PipelineShape& shape, int rank) {
  const std::int64_t start[] = {stage_of(shape, rank, 0), stage_of(shape, rank, 1)};
  Schedule order;
  for (std::int64_t time = 0; time < start[1] + 2 * shape.microbatches; ++time) {
    for (int c = 0; c < 2; ++c) {
      const std::int64_t since = time - start[c];
      if (since >= 0 && since % 2 == 0 && since / 2 < shape.microbatches) {
        order.push_back({ActionKind::forward, since / 2, c});
      }
    }
  }
  return order;
}

}  // namespace trireme::schedule
