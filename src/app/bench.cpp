// `trireme bench`: the limits of the machine that everything else is divided by; with a
// deck, the share of them that its training step reaches, and where the rest goes.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <chrono>

#include "app/app.hpp"
#include "app/deck_arguments.hpp"
#include "base/log.hpp"
#include "base/philox.hpp"
#include "comm/mesh.hpp"
#include "kernels/bandwidth.hpp"
#include "kernels/profile.hpp"
#include "kernels/runtime.hpp"
#include "train/engine.hpp"
#include "train/machine_peak.hpp"

namespace trireme::app {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::string giga(double value) { return fixed(value * 1e-9, 1); }

// Best GEMM rate over the shapes that a transformer uses; printed shape by shape.
double bench_gemm(comm::World& world, DType dtype) {
  constexpr std::array<std::array<std::int64_t, 3>, 7> shapes = {{{512, 512, 512},
                                                                  {1024, 1024, 1024},
                                                                  {2048, 2048, 2048},
                                                                  {1024, 2304, 768},
                                                                  {1024, 3072, 768},
                                                                  {1024, 768, 3072},
                                                                  {512, 50257, 768}}};
  double best = 0;
  for (const auto& [m, n, k] : shapes) {
    world.barrier();
    const double rate = world.sum(train::gemm_rate(dtype, m, n, k, 0.3));
    best = std::max(best, rate);
    log::info("gemm {}  {} x {} x {}  {} GFLOP/s", name_of(dtype), m, n, k, giga(rate));
  }
  return best;
}

void bench_memory(comm::World& world) {
  constexpr std::int64_t elements = 32 << 20;
  world.barrier();
  const double triad = world.sum(kernels::triad_bandwidth(elements, 5));
  world.barrier();
  const double read = world.sum(kernels::read_bandwidth(elements, 5));
  log::info("memory  triad {} GB/s  read {} GB/s", giga(triad), giga(read));
}

void bench_all_reduce(comm::World& world) {
  if (world.size() == 1) return;
  comm::Mesh mesh(world, {.data = world.size()});
  comm::Group& group = mesh.group(comm::Axis::data);
  Stream stream;
  for (const std::int64_t bytes :
       {4LL, 4096LL, 65536LL, 1LL << 20, 16LL << 20, 64LL << 20}) {
    const Buffer x(Device::host(), DType::f32, {bytes / 4}, MemoryClass::workspace,
                   "bench");
    group.all_reduce(stream, x.view()).wait();
    double best = 1e30;
    const int repeats = bytes > (4 << 20) ? 5 : 30;
    for (int i = 0; i < repeats; ++i) {
      world.barrier();
      const auto start = Clock::now();
      group.all_reduce(stream, x.view()).wait();
      best = std::min(best, world.max(seconds_since(start)));
    }
    const double n = world.size();
    const double bus = 2.0 * (n - 1) / n * static_cast<double>(bytes) / best;
    log::info("all-reduce  {} ranks  {}  {} us  bus {} GB/s", world.size(),
              human_bytes(static_cast<double>(bytes)), fixed(best * 1e6, 1),
              fixed(bus * 1e-9, 2));
  }
}

// Synthetic token ids for the step: the values do not matter to its speed.
std::vector<TensorView> fill_ids(const Buffer& ids, const train::RunConfig& config) {
  const std::int64_t tokens = config.batch.micro * config.model.sequence;
  const Random random(1, hash_name("bench"));
  auto all = ids.view().span<std::int32_t>();
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i] = static_cast<std::int32_t>(
        random.below(i, static_cast<std::uint64_t>(config.model.vocabulary)));
  }
  std::vector<TensorView> microbatches;
  for (std::int64_t m = 0; m < config.microbatches(); ++m) {
    microbatches.push_back(ids.view().rows(m * tokens, tokens));
  }
  return microbatches;
}

struct StepResult {
  double best = 0, median = 0;  // seconds
};

// Times whole optimizer steps: forward, backward, reduction, norm, update.
StepResult time_steps(comm::World& world, const train::RunConfig& config,
                      std::int64_t steps) {
  comm::Mesh mesh(world, config.parallel.mesh);
  train::Engine engine(config, mesh, Device::host());
  engine.store().initialize(config.run.seed);
  const Buffer ids(Device::host(), DType::i32,
                   {config.microbatches() * config.batch.micro * config.model.sequence},
                   MemoryClass::data, "ids");
  const auto batch = fill_ids(ids, config);
  const auto schedule = train::one_stage_schedule(config.microbatches());
  const double scale =
      1.0 / static_cast<double>(config.batch.global * config.model.sequence);
  std::vector<double> seconds;
  for (std::int64_t step = 0; step < steps + 2; ++step) {
    if (step == 2) kernels::reset_profile();
    world.barrier();
    const auto start = Clock::now();
    optim::ParameterStore& store = engine.store();
    store.begin_step(config.microbatches());
    engine.run(schedule, batch, batch, scale);
    store.finish_gradients();
    store.gradient_norm();
    store.update(config.optimizer, 1e-4, 1.0, step + 1);
    const double taken = world.max(seconds_since(start));
    if (step >= 2) seconds.push_back(taken);
  }
  std::sort(seconds.begin(), seconds.end());
  return {seconds.front(), seconds[seconds.size() / 2]};
}

void bench_deck(comm::World& world, const train::RunConfig& config, std::int64_t steps) {
  const DType dtype = config.precision.compute;
  const double before = bench_gemm(world, dtype);
  const StepResult step = time_steps(world, config, steps);
  const auto profile = kernels::profile();
  const double peak = std::max(before, bench_gemm(world, dtype));
  const auto flops = model::flops_per_token(config.model);
  const double tokens = static_cast<double>(config.batch.global * config.model.sequence);
  log::info("step  best {} ms  median {} ms  {} tok/s", fixed(step.best * 1e3, 1),
            fixed(step.median * 1e3, 1), fixed(tokens / step.best, 0));
  log::info(
      "step  {} GFLOP/s (6 N + causal attention) = {} % of the best {} GEMM rate {} "
      "GFLOP/s (median step: {} %)",
      giga(flops.causal * tokens / step.best),
      fixed(100 * flops.causal * tokens / step.best / peak, 1), name_of(dtype),
      giga(peak), fixed(100 * flops.causal * tokens / step.median / peak, 1));
  for (const auto& entry : profile) {
    log::info("kernel  {}  {} ms a step  {} calls", entry.name,
              fixed(entry.seconds * 1e3 / static_cast<double>(steps), 2),
              entry.calls / steps);
  }
}

}  // namespace

int bench(comm::World& world, const Arguments& given) {
  Arguments arguments = given;
  LoadedDeck deck;
  std::int64_t steps = 0;
  world.agree([&] {
    constexpr Option options[] = {{"--steps", true}};
    arguments.parse("trireme bench [DECK [section.key=value ...]] [--steps N]", options,
                    0, 10000);
    steps = arguments.integer("--steps", 5, 1, 100000);
    if (!arguments.words().empty()) deck = load_deck(arguments.words(), world.size());
  });
  const bool with_deck = !arguments.words().empty();
  const kernels::Runtime runtime(with_deck ? deck.config.run.threads : 0,
                                 world.ranks_on_node());
  log::info("{} ranks, {} threads each; rates are of all ranks together", world.size(),
            kernels::threads());
  if (with_deck) {
    bench_deck(world, deck.config, steps);
    return 0;
  }
  for (const DType dtype : {DType::f32, DType::bf16, DType::f64})
    bench_gemm(world, dtype);
  bench_memory(world);
  bench_all_reduce(world);
  return 0;
}

}  // namespace trireme::app
