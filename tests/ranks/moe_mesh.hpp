// A mixture of experts on a mesh, and all that comes out of it, of all ranks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "comm/mesh.hpp"
#include "support/world.hpp"
#include "unit/nn/moe_case.hpp"

namespace trireme::test {

inline constexpr std::int64_t B = 12, S = 4;  // of the global batch, in one microbatch
inline constexpr std::int64_t E = 12;         // divisible by 1, 2, 3 and 4

struct Outcome {
  Values y, dx, load;  // of all rows of the global batch
  Tensors gradients;
  double balance = 0, z = 0;
  double rows = 0;       // that all experts got
  int rounds = 0;        // of the last microbatch, on this rank
  bool is_full = false;  // this rank has used all memory that was planned
};

// How experts work.
struct Way {
  double memory = 0;  // of received rows, of the even load; 0: any number
  nn::Recompute recompute{};
  bool deferred = false;  // weights' gradients
  int microbatches = 2;
};

inline void sum_over(comm::Group& group, Values& values) {
  Stream stream;
  const auto n = static_cast<std::int64_t>(values.size());
  group.all_reduce(stream, TensorView(values.data(), DType::f64, {n})).wait();
}

// What is done to the case before it runs.
using Change = void (*)(MoeCase&);
inline void nothing(MoeCase&) {}
// Scores are equal, so that expert 0 (and 1, ... with larger top_k) gets every token.
inline void one_expert(MoeCase& c) {
  Stream stream;
  kernels::fill(stream, c.params.front()->value, 0.0);
}
inline void last_expert(MoeCase& c) {
  std::vector<StateTensor*> states;
  c.moe.collect(states);
  states.at(0)->value.data<double>()[E - 1] = 9;
}
// Even experts only.
inline void half_of_the_experts(MoeCase& c) {
  std::vector<StateTensor*> states;
  c.moe.collect(states);
  for (std::int64_t e = 0; e < E; ++e) states.at(0)->value.data<double>()[e] = e % 2 * -9;
}

// How the ranks of a mesh are used. Experts lie on data or context; what is left of data
// x context holds copies.
struct Split {
  comm::MeshShape shape;
  comm::Axis expert = comm::Axis::data;
  bool context_parts = false;  // context cuts sequences (else it is more of data)
  bool sequence = false;       // sequence parallelism on the tensor axis
};

inline Outcome run(const nn::MoeConfig& config, comm::Mesh& mesh, const Split& split,
                   Change change, const Way& way = {}) {
  const parallel::TensorRegion region(mesh.group(comm::Axis::tensor), split.sequence);
  parallel::ExpertAxes axes{
      parallel::ExpertDispatch(mesh.group(split.expert), way.memory), {}};
  Piece piece{0, B, 0, 1};
  const int data = mesh.coordinate(comm::Axis::data);
  const int context = mesh.coordinate(comm::Axis::context);
  piece.batch = B / mesh.shape().data;
  if (split.context_parts) {
    axes.sequence_sum = parallel::SequenceSum(mesh.group(comm::Axis::context));
    piece.part = context;
    piece.parts = mesh.shape().context;
    piece.first = data * piece.batch;
  } else {
    piece.batch /= mesh.shape().context;
    piece.first = (data * mesh.shape().context + context) * piece.batch;
  }
  MoeCase c(config, region, axes, DType::f64, S, piece, B, way.recompute, way.deferred);
  change(c);
  for (int m = 0; m < way.microbatches; ++m) {  // the same one: gradients double
    c.forward();
    c.backward();
  }
  Outcome out;
  const auto D = static_cast<std::size_t>(config.hidden);
  const auto spread = [&](const TensorView& view) {
    Values all(static_cast<std::size_t>(B * S) * D);
    const Values mine = MoeCase::values(view);
    for (std::size_t i = 0; i < mine.size(); ++i) {
      const auto row = c.global_row(static_cast<std::int64_t>(i / D));
      all[static_cast<std::size_t>(row) * D + i % D] = mine[i];
    }
    sum_over(mesh.everyone(), all);
    // Without sequence parallelism every rank of the tensor axis has all rows.
    if (!split.sequence)
      for (double& v : all) v /= mesh.shape().tensor;
    return all;
  };
  out.y = spread(c.y);
  out.dx = spread(c.dx);
  out.load = MoeCase::values(c.moe.load());
  Values sums = MoeCase::values(c.moe.losses());
  sums.push_back(static_cast<double>(c.views.route.rows));
  sum_over(mesh.replicas(), out.load);
  sum_over(mesh.replicas(), sums);
  out.balance = sums[0];
  out.z = sums[1];
  out.rows = sums[2];
  out.rounds = c.views.route.rounds;
  out.is_full = c.is_full();
  // A tensor that this rank has no box of is zeros: those of all experts are listed.
  const auto resize = [&](const std::string& name, std::int64_t outputs) {
    out.gradients[name + ".weight"].resize(
        static_cast<std::size_t>(config.hidden * config.feed_forward));
    if (config.expert_names.biases)
      out.gradients[name + ".bias"].resize(static_cast<std::size_t>(outputs));
  };
  for (std::int64_t e = 0; e < config.experts; ++e)
    for (const std::string name : {"w1", "w3", "w2"})
      if (name != "w1" || kernels::row_of(config.activation).gated)
        resize(format("moe.experts.{}.{}", e, name),
               name == "w2" ? config.hidden : config.feed_forward);
  for (auto& [name, gradient] : c.gradients()) out.gradients[name] = gradient;
  for (auto& [name, gradient] : out.gradients) sum_over(mesh.everyone(), gradient);
  return out;
}

inline double relative(const Values& a, const Values& b) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    size += b[i] * b[i];
  }
  return std::sqrt(difference) / std::sqrt(std::max(size, 1e-300));
}

// EQ64 of the design, but for the load, which is counted.
inline void expect_equal(const Outcome& many, const Outcome& one) {
  EXPECT_LE(relative(many.y, one.y), 1e-10);
  EXPECT_LE(relative(many.dx, one.dx), 1e-10);
  ASSERT_EQ(many.gradients.size(), one.gradients.size());
  for (const auto& [name, gradient] : one.gradients)
    EXPECT_LE(relative(many.gradients.at(name), gradient), 1e-10) << name;
  EXPECT_EQ(many.load, one.load);
  EXPECT_EQ(many.rows, one.rows);
  EXPECT_NEAR(many.balance, one.balance, 1e-12);
  EXPECT_NEAR(many.z, one.z, 1e-12);
}

inline std::vector<Split> splits(int ranks) {
  using comm::Axis;
  std::vector<Split> all;
  for (int tensor = 1; tensor <= ranks; ++tensor) {
    if (ranks % tensor != 0) continue;
    const int rest = ranks / tensor;
    for (int data = 1; data <= rest; ++data) {
      if (rest % data != 0) continue;
      const comm::MeshShape shape{.data = data, .context = rest / data, .tensor = tensor};
      for (const auto expert : {Axis::data, Axis::context})
        for (const bool parts : {false, true})
          for (const bool sequence : {false, true})
            if (S % shape.context == 0 || !parts)
              all.push_back({shape, expert, parts, sequence});
    }
  }
  return all;
}

// body(split, mesh) for every split of the ranks on which the layer can be.
template <class Body>
void for_each_split(const nn::MoeConfig& config, const Body& body) {
  comm::World& world = test::world();
  for (const Split& split : splits(world.size())) {
    if (config.capacity_factor > 0 && split.context_parts && split.shape.context > 1)
      continue;
    SCOPED_TRACE(format("data {} context {} tensor {}, experts on {}, {} {}",
                        split.shape.data, split.shape.context, split.shape.tensor,
                        comm::name_of(split.expert),
                        split.context_parts ? "context parts" : "whole sequences",
                        split.sequence ? "sequence parallel" : ""));
    comm::Mesh mesh(world, split.shape);
    body(split, mesh);
  }
}

inline nn::MoeConfig full_config() {
  auto config = moe_config(E, 3);
  config.router = kernels::RouterScore::sigmoid;
  config.shared_feed_forward = 5;
  config.choice_bias = true;
  config.aux_loss = 0.3;
  config.z_loss = 0.2;
  return config;
}

}  // namespace trireme::test
