// PipelineTimes: means of the actions' times, and the idle share that follows.
// SPDX-License-Identifier: Apache-2.0
#include "train/pipeline_times.hpp"

#include <algorithm>
#include <chrono>

#include "base/error.hpp"
#include "base/memory.hpp"
#include "schedule/simulation.hpp"

namespace trireme::train {

PipelineTimes::PipelineTimes(comm::Mesh& mesh, const schedule::PipelineShape& shape)
    : mesh_(mesh), shape_(shape) {
  if (shape.ranks == 1) return;
  schedules_ = make_schedules(shape);
  for (const schedule::Schedule& schedule : schedules_)
    width_ = std::max(width_, schedule.size());
  actions_.resize(most_steps * width_);
  idle_.resize(most_steps * schedules_.size());
}

void PipelineTimes::add(std::span<const double> action_seconds,
                        const std::vector<double>& idle_shares) {
  if (schedules_.empty()) return;
  require(action_seconds.size() <= width_ && idle_shares.size() == schedules_.size(),
          "times of {} actions and {} ranks", action_seconds.size(), idle_shares.size());
  const std::size_t slot = steps_++ % most_steps;
  std::copy(action_seconds.begin(), action_seconds.end(),
            actions_.begin() + static_cast<std::ptrdiff_t>(slot * width_));
  std::copy(idle_shares.begin(), idle_shares.end(),
            idle_.begin() + static_cast<std::ptrdiff_t>(slot * idle_shares.size()));
}

IdleShares PipelineTimes::compare(const Shape& message, DType dtype) {
  IdleShares shares;
  const std::size_t ranks = schedules_.size(), steps = std::min(steps_, most_steps);
  if (ranks == 0 || steps == 0) return shares;
  const double latency = message_seconds(message, dtype);
  shares.measured.resize(ranks);
  shares.simulated.resize(ranks);
  comm::Group& pipeline = mesh_.group(comm::Axis::pipeline);
  const auto mine = static_cast<std::size_t>(pipeline.rank());
  const double weight = static_cast<double>(ranks) / (mesh_.shape().size() * steps);
  Stream stream;
  std::vector<double> all(ranks * width_);
  for (std::size_t step = 0; step < steps; ++step) {
    // 1. the times of this pipeline's ranks
    std::fill(all.begin(), all.end(), 0.0);
    std::copy_n(&actions_[step * width_], width_, &all[mine * width_]);
    const auto elements = static_cast<std::int64_t>(all.size());
    pipeline.all_reduce(stream, TensorView(all.data(), DType::f64, {elements})).wait();
    // 2. the same on a clock
    schedule::SimulationOptions options{.latency = latency};
    for (std::size_t r = 0; r < ranks; ++r) {
      const double* row = &all[r * width_];
      options.actions.emplace_back(row, row + schedules_[r].size());
      shares.measured[r] += idle_[step * ranks + r] / static_cast<double>(steps);
    }
    const schedule::Simulation simulation = simulate(shape_, schedules_, options);
    shares.simulated[mine] += weight * simulation.ranks[mine].idle_share;
  }
  const TensorView view(shares.simulated.data(), DType::f64,
                        {static_cast<std::int64_t>(ranks)});
  mesh_.everyone().all_reduce(stream, view).wait();
  return shares;
}

// There and back a few times between each two neighbours in turn; the fastest counts, for
// the first ones set up buffers and a neighbour may come late.
double PipelineTimes::message_seconds(const Shape& message, DType dtype) {
  using Clock = std::chrono::steady_clock;
  constexpr int times = 8;
  comm::Group& pipeline = mesh_.group(comm::Axis::pipeline);
  const Buffer x(mesh_.device(), dtype, message, MemoryClass::workspace, "message");
  Stream stream(mesh_.device());
  double sum = 0;
  for (int left = 0; left + 1 < pipeline.size(); ++left) {
    const bool sends_first = pipeline.rank() == left;
    if (!sends_first && pipeline.rank() != left + 1) continue;
    const int peer = sends_first ? left + 1 : left;
    double fastest = 1e9;
    for (int i = 0; i < times; ++i) {
      const auto start = Clock::now();
      for (const bool sends : {sends_first, !sends_first}) {
        if (sends) {
          pipeline.send(stream, x.view(), peer).wait();
        } else {
          pipeline.receive(stream, x.view(), peer).wait();
        }
      }
      stream.synchronize();
      const std::chrono::duration<double> both = Clock::now() - start;
      fastest = std::min(fastest, both.count() / 2);
    }
    if (sends_first) sum += fastest;
  }
  Stream host;
  mesh_.everyone().all_reduce(host, TensorView(&sum, DType::f64, {1})).wait();
  const double pairs =
      static_cast<double>(mesh_.shape().size()) / pipeline.size() * (pipeline.size() - 1);
  return sum / pairs;
}

}  // namespace trireme::train
