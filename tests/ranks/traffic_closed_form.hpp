// What a step of a rank sends, in closed form.
// SPDX-License-Identifier: Apache-2.0
// Rajbhandari et al. (2020) for sharding; "Ultra-Scale Playbook", A3, for the axes.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <ostream>
#include <string>

#include "comm/mesh.hpp"
#include "engine/run_outlook.hpp"
#include "schedule/stage_cut.hpp"

namespace trireme::test {

using comm::Axis;
using comm::Collective;
using optim::Sharding;

// Calls and bytes by group and kind.
struct Amount {
  std::int64_t calls = 0, bytes = 0;
  bool operator==(const Amount&) const = default;
};
inline std::ostream& operator<<(std::ostream& out, const Amount& amount) {
  return out << amount.calls << " calls, " << amount.bytes << " bytes";
}
using Table = std::map<std::string, Amount>;

inline std::string key(std::string_view group, Collective kind) {
  return format("{} {}", group, name_of(kind));
}

// The closed forms, for this rank.
class ClosedForm {
 public:
  ClosedForm(const config::RunConfig& config, const comm::Mesh& mesh,
             const std::vector<optim::FlatParameter>& flats)
      : config_(config), mesh_(mesh), flats_(flats), M_(config.microbatches()) {
    const schedule::PipelineShape shape = engine::pipeline_shape(config);
    const int stages = schedule::stages(shape);
    const auto cut =
        schedule::cut_stages(config.model, stages, config.parallel.stage_layers);
    const int here = mesh.coordinate(Axis::pipeline);
    const auto away = [&](int stage) {
      return stage >= 0 && stage < stages &&
             schedule::place_of(shape, stage).rank != here;
    };
    for (int chunk = 0; chunk < shape.chunks; ++chunk) {
      const int stage = schedule::stage_of(shape, here, chunk);
      layers_ += cut[static_cast<std::size_t>(stage)].count();
      first_ = first_ || stage == 0;
      last_ = last_ || stage == stages - 1;
      sends_ += (away(stage - 1) ? 1 : 0) + (away(stage + 1) ? 1 : 0);
    }
    T_ = config.batch.micro * config.model.sequence / mesh.shape().context;
    w_ = static_cast<std::int64_t>(size_of(config.precision.compute));
    totals();
    tensor();
    context();
    pipeline();
    gradients();
    weights();
  }

  const Table& table() const { return table_; }

 private:
  void add(const comm::Group& group, Collective kind, std::int64_t calls,
           std::int64_t bytes) {
    if (group.size() == 1 || calls == 0) return;
    Amount& amount = table_[key(group.name(), kind)];
    amount.calls += calls;
    amount.bytes += bytes;
  }
  // Direct: everything to everyone. Else 2 (N - 1) / N K where N divides K: all but this
  // rank's part goes out, and the sum of this rank's part goes to everyone.
  void all_reduce(const comm::Group& group, std::int64_t times, std::int64_t elements,
                  std::int64_t width) {
    const std::int64_t N = group.size();
    const std::int64_t own = elements / N + (group.rank() < elements % N ? 1 : 0);
    const std::int64_t sent = elements * width <= (16 << 10)
                                  ? elements * (N - 1)
                                  : elements - own + own * (N - 1);
    add(group, Collective::all_reduce, times, times * sent * width);
  }
  // (N - 1) / N of the whole, which N divides.
  void parts(const comm::Group& group, Collective kind, std::int64_t times,
             std::int64_t elements, std::int64_t width) {
    EXPECT_EQ(elements % group.size(), 0);
    const std::int64_t sent = elements / group.size() * (group.size() - 1);
    add(group, kind, times, times * sent * width);
  }

  // Tokens, before the step; then a row of all that ranks tell each other.
  void totals() {
    all_reduce(mesh_.replicas(), 1, 1, 8);
    all_reduce(mesh_.everyone(), 1, 8, 8);
  }

  // Two all-reduces forward and two backward a block; with sequence parallelism as many
  // pairs of gather and scatter, and two gathers more, of the inputs that backward reads.
  // Their sums go in parts of rows. One more forward for the embedding, backward for the
  // head. The loss gathers three numbers a token, in two chunks.
  void tensor() {
    const comm::Group& group = mesh_.group(Axis::tensor);
    const std::int64_t TD = T_ * config_.model.hidden;
    const std::int64_t ends = (first_ ? 1 : 0) + (last_ ? 1 : 0);
    if (config_.parallel.sequence) {
      const std::int64_t times = M_ * (6 * layers_ + ends);
      parts(group, Collective::all_gather, times, TD, w_);
      parts(group, Collective::reduce_scatter, M_ * ends, TD, w_);
      for_chunks(T_ / group.size(), [&](std::int64_t rows) {
        parts(group, Collective::reduce_scatter, M_ * 4 * layers_,
              rows * group.size() * config_.model.hidden, w_);
      });
      const std::int64_t norms = (2 * layers_ + (last_ ? 1 : 0)) * config_.model.hidden;
      if (group.size() > 1) all_reduce(mesh_.spread(), 1, norms, 4);
    } else {
      all_reduce(group, M_ * ends, TD, w_);
      for_chunks(T_, [&](std::int64_t rows) {
        all_reduce(group, M_ * 4 * layers_, rows * config_.model.hidden, w_);
      });
    }
    if (!last_) return;
    add(group, Collective::all_gather, 2 * M_, M_ * 3 * T_ * 4 * (group.size() - 1));
  }

  template <class F>
  void for_chunks(std::int64_t rows, const F& f) {
    const int chunks = std::max(config_.parallel.tensor_chunks, 1);
    for (int c = 0; c < chunks; ++c) {
      const std::int64_t count = split_range(rows, chunks, c).count();
      if (count > 0) f(count);
    }
  }

  // Keys and values travel N - 1 times forward and backward, their gradients N times.
  void context() {
    const comm::Group& group = mesh_.group(Axis::context);
    const std::int64_t N = group.size();
    const std::int64_t block =
        2 * T_ * config_.model.hidden / mesh_.shape().tensor;  // kv_heads = heads
    const std::int64_t times = M_ * layers_;
    const std::int64_t calls = times * (3 * N - 2);
    add(group, Collective::send, calls, times * block * ((2 * N - 2) * w_ + N * 4));
    add(group, Collective::receive, calls, 0);
  }

  // [T, D] of each microbatch across each boundary with another rank, both ways.
  void pipeline() {
    const comm::Group& group = mesh_.group(Axis::pipeline);
    const std::int64_t rows = config_.parallel.sequence ? T_ / mesh_.shape().tensor : T_;
    const std::int64_t calls = M_ * sends_;
    add(group, Collective::send, calls, calls * rows * config_.model.hidden * w_);
    add(group, Collective::receive, calls, 0);
  }

  void gradients() {
    if (config_.parallel.sharding == Sharding::none) {  // one bucket
      std::int64_t whole = 0;
      for (const auto& flat : flats_) whole += flat.elements;
      all_reduce(mesh_.replicas(), 1, whole, 4);
    }
    for (const auto& flat : flats_) {
      if (config_.parallel.sharding != Sharding::none) {
        const bool each = config_.parallel.sharding != Sharding::optimizer;
        parts(mesh_.shards(), Collective::reduce_scatter, each ? M_ : 1, flat.elements,
              4);
        all_reduce(mesh_.copies(), 1, flat.shard_elements(), 4);
      }
      if (flat.in_embedding_group)
        all_reduce(mesh_.embedding_group(), 1, flat.shard_elements(), 4);
    }
  }

  // ZeRO-1 and 2 gather the new weights once a step. Sharded weights are gathered for
  // each forward and each backward, but for what the pass before has left in the slots.
  // (The gradients of head and embedding need no weights, but what comes next is fetched
  // ahead.)
  void weights() {
    const auto gather = [&](std::int64_t times, const optim::FlatParameter& flat) {
      parts(mesh_.shards(), Collective::all_gather, times, flat.elements, w_);
    };
    const std::size_t U = flats_.size();
    const bool whole = config_.parallel.sharding < Sharding::weights;
    for (std::size_t u = 0; u < U; ++u) {
      if (config_.parallel.sharding == Sharding::none) break;
      if (whole) {
        gather(1, flats_[u]);
      } else if (config_.parallel.prefetch == 0) {  // one slot
        gather(M_, flats_[u]);
        if (u != 0 && u != U - 1) gather(M_, flats_[u]);
      } else {  // two slots: the last two are there for backward, then the first two
        gather(u < 2 ? 1 : M_, flats_[u]);
        if (u + 2 < U) gather(M_, flats_[u]);
      }
    }
  }

  const config::RunConfig& config_;
  const comm::Mesh& mesh_;
  const std::vector<optim::FlatParameter>& flats_;
  std::int64_t M_, T_ = 0, w_ = 0, layers_ = 0, sends_ = 0;
  bool first_ = false, last_ = false;
  Table table_;
};

}  // namespace trireme::test
