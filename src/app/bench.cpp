// `trireme bench`: the limits of the machine that everything else is divided by.
// SPDX-License-Identifier: Apache-2.0
// With a deck it says what share of them a training step reaches, and where time goes.
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <numeric>
#include <span>
#include <vector>

#include "app/app.hpp"
#include "app/bench_machine.hpp"
#include "app/bench_products.hpp"
#include "app/benched_step.hpp"
#include "app/deck_arguments.hpp"
#include "base/counted.hpp"
#include "base/log.hpp"
#include "base/median.hpp"
#include "base/stopwatch.hpp"
#include "comm/mesh.hpp"
#include "config/precision.hpp"
#include "engine/engine.hpp"
#include "engine/training_flops.hpp"
#include "io/files.hpp"
#include "kernels/runtime/bandwidth.hpp"
#include "kernels/runtime/profile.hpp"
#include "kernels/runtime/runtime.hpp"
#include "launch/compute_device.hpp"
#include "launch/device_peak.hpp"
#include "launch/machine_peak.hpp"

namespace trireme::app {
namespace {

using Clock = std::chrono::steady_clock;

std::string giga(double value) { return fixed(value * 1e-9, 1); }

using GemmShape = std::array<std::int64_t, 3>;

// The shapes that a transformer uses; with --quick one that every device has done at
// once, to see that the command runs.
constexpr std::array<GemmShape, 7> all_shapes = {{{512, 512, 512},
                                                  {1024, 1024, 1024},
                                                  {2048, 2048, 2048},
                                                  {1024, 2304, 768},
                                                  {1024, 3072, 768},
                                                  {1024, 768, 3072},
                                                  {512, 50257, 768}}};
constexpr std::array<GemmShape, 1> quick_shapes = {{{32, 64, 32}}};

// Rates of all ranks together, printed shape by shape. Returns the shape with the best
// sustained rate.
GemmShape bench_gemm(comm::World& world, DType dtype, Device device, bool quick) {
  const std::span<const GemmShape> shapes =
      quick ? std::span<const GemmShape>(quick_shapes) : all_shapes;
  double best = 0;
  GemmShape best_shape{};
  for (const auto& shape : shapes) {
    world.barrier();
    const auto [m, n, k] = shape;
    const launch::GemmRate rate =
        launch::gemm_rate(dtype, m, n, k, quick ? 0.01 : 0.3, device);
    const double sustained = world.sum(rate.sustained), peak = world.sum(rate.best);
    log::info("gemm {}  {} x {} x {}  {} GFLOP/s sustained, {} at best", name_of(dtype),
              m, n, k, giga(sustained), giga(peak));
    if (sustained > best) {
      best = sustained;
      best_shape = shape;
    }
  }
  return best_shape;
}

void bench_memory(comm::World& world, bool quick) {
  const std::int64_t elements = quick ? 1 << 16 : 32 << 20;
  world.barrier();
  const double triad = world.sum(kernels::triad_bandwidth(elements, 5));
  world.barrier();
  const double read = world.sum(kernels::read_bandwidth(elements, 5));
  log::info("memory  triad {} GB/s  read {} GB/s", giga(triad), giga(read));
}

void bench_all_reduce(comm::World& world, bool quick) {
  if (world.size() == 1) return;
  comm::Mesh mesh(world, {.data = world.size()});
  comm::Group& group = mesh.group(comm::Axis::data);
  Stream stream;
  for (const std::int64_t bytes :
       {4LL, 4096LL, 65536LL, 1LL << 20, 16LL << 20, 64LL << 20}) {
    if (quick && bytes > 4096) break;
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

struct FamilyTotal {
  double seconds = 0, bytes = 0;
};
using KernelTotals = std::map<std::string, FamilyTotal>;

void add_profile(KernelTotals& totals) {
  for (const auto& entry : kernels::profile()) {
    totals[entry.name].seconds += entry.seconds;
    totals[entry.name].bytes += entry.bytes;
  }
}

// A line for each family, and for what sweeps memory its rate beside that of a sweep.
void report_kernels(const KernelTotals& totals, double steps, bool on_host, bool quick) {
  for (const auto& [name, total] : totals) {
    const std::string line = format("kernel  {} ms a step  {} (rank 0)",
                                    fixed(total.seconds * 1e3 / steps, 2), name);
    if (total.bytes == 0) {
      log::info("{}", line);
      continue;
    }
    const double triad =
        on_host ? kernels::triad_bandwidth(quick ? 1 << 16 : 32 << 20, 5) : 0;
    log::info("{}  {} GB/s{}", line, giga(total.bytes / total.seconds),
              on_host ? format(" beside a triad's {} on this rank", giga(triad)) : "");
  }
}

// Beside the share of what was measured: of what the vendor promises, which others divide
// by too. Full attention is counted, as by metrics.jsonl.
void report_mfu(comm::World& world, const config::RunConfig& config,
                const launch::ComputeDevice& on, double tokens_per_second) {
  if (!on.device.is_cuda()) return;  // what was measured is a CPU's peak
  const double mine = launch::dense_peak(on.gpu.name, config.precision.compute);
  const double peak = world.sum(mine);
  if (world.max(mine > 0 ? 0 : 1) > 0) {
    log::info("mfu: not known, there is no data sheet of {} in the table of peaks",
              on.gpu.name);
    return;
  }
  const model::FlopsPerToken flops = engine::training_flops(config);
  const auto report = [&](std::string_view type, double dense) {
    log::info(
        "mfu {} %, {} % with causal attention: of the data sheet's dense peak in {}, {} "
        "GFLOP/s",
        fixed(100 * flops.full * tokens_per_second / dense, 1),
        fixed(100 * flops.causal * tokens_per_second / dense, 1), type, giga(dense));
  };
  if (const double fp8 = world.sum(launch::dense_peak(on.gpu.name, DType::e4m3));
      fp8 > 0 && config::compute_of(config.precision.recipe) == "fp8")
    report("fp8", fp8);
  report(name_of(config.precision.compute), peak);
}

// What multiplies in a step, and how fast it could: on rank 0, while the others wait.
void report_products(comm::World& world, BenchedStep& step, std::int64_t steps,
                     const launch::ComputeDevice& on, bool quick) {
  require(on.device.is_host(), Status::command_line,
          "--products tells the paths of products on CPUs: give run.device=cpu too");
  kernels::start_product_log();
  for (std::int64_t i = 0; i < steps; ++i) step.run();
  const std::vector<kernels::LoggedProduct> products = kernels::product_log();
  kernels::stop_product_log();
  if (world.rank() == 0)
    log::info("products of rank 0, alone beside idle ranks:\n{}",
              table_of_products(products, steps, quick ? 0.001 : 0.2));
  world.barrier();
}

// Clocks change under load and with the neighbours: so the GEMM rate is taken right
// before and right after each step, and a step is compared with the mean of the two.
void bench_deck(comm::World& world, const config::RunConfig& config, std::int64_t steps,
                const launch::ComputeDevice& on, bool products, bool quick) {
  const DType dtype = config.precision.compute;
  const auto [m, n, k] = bench_gemm(world, dtype, on.device, quick);
  const auto rate_now = [&, m = m, n = n, k = k] {
    world.barrier();
    const double time = quick ? 0.01 : 0.5;
    return world.sum(launch::gemm_rate(dtype, m, n, k, time, on.device).sustained);
  };
  if (const std::string without = timed_without(config); !without.empty())
    log::info("note    a step of random tokens is timed, without {}", without);
  BenchedStep step(world, config, on);
  step.run();
  step.run();
  if (products) report_products(world, step, steps, on, quick);
  KernelTotals totals;
  const double flops = engine::training_flops(config).causal * step.tokens();
  std::vector<double> seconds, shares;
  double before = rate_now();
  for (std::int64_t i = 0; i < steps; ++i) {
    kernels::reset_profile();
    seconds.push_back(step.run());
    add_profile(totals);
    const double after = rate_now();
    shares.push_back(flops / seconds.back() / (0.5 * (before + after)));
    log::info("step {}  {} ms  {} tok/s  {} GFLOP/s  gemm {} GFLOP/s  share {} %", i + 1,
              fixed(seconds.back() * 1e3, 1), fixed(step.tokens() / seconds.back(), 0),
              giga(flops / seconds.back()), giga(0.5 * (before + after)),
              fixed(100 * shares.back(), 1));
    before = after;
  }
  log::info(
      "6 N + causal attention: {}FLOP a step; of the {} GEMM rate ({} x {} x {}) around "
      "each step: median {} %, best {} %; median step {} ms",
      human_count(flops), name_of(dtype), m, n, k, fixed(100 * median(shares), 1),
      fixed(100 * *std::max_element(shares.begin(), shares.end()), 1),
      fixed(median(seconds) * 1e3, 1));
  report_mfu(world, config, on, step.tokens() / median(seconds));
  double all = std::accumulate(seconds.begin(), seconds.end(), 0.0);
  if (on.device.is_cuda()) {  // one more step, which waits for every kernel
    totals.clear();
    step.drop_graphs();  // they show no kernels
    kernels::profile_device(on.device);
    kernels::reset_profile();
    all = step.run();
    add_profile(totals);
    kernels::profile_device(Device::host());
    steps = 1;
    log::info("a step of {} ms that waits for each kernel:", fixed(all * 1e3, 1));
  }
  double outside = all;
  for (const auto& [name, total] : totals) outside -= total.seconds;
  totals["outside kernels (communication, waiting)"].seconds = outside;
  report_kernels(totals, static_cast<double>(steps), on.device.is_host(), quick);
}

// A file that is there is replaced only if it was measured, too.
void require_measured(const std::string& path) {
  struct stat there {};
  if (::stat(path.c_str(), &there) != 0 || there.st_size == 0) return;
  std::string source;
  try {
    source = plan::read_machine(path).source;
  } catch (const Error&) {  // it is no machine file
  }
  require(source == "measured", Status::cannot_create,
          "{}: is there already, and was not measured by trireme bench: move it away, or "
          "name another file",
          path);
}

// A machine file for plans. Written by rank 0.
void bench_machine(comm::World& world, const std::string& path, bool quick) {
  world.agree([&] {
    if (world.rank() == 0) require_measured(path);
  });
  const plan::Machine machine = measure_machine(world, path + ".scratch", quick);
  const bool one_host = world.ranks_on_node() == world.size();
  world.agree([&] {
    const std::string text =
        (one_host ? "# Links between nodes were not measured: they are those within this "
                    "one. Ranks on several nodes measure both.\n"
                  : "") +
        plan::machine_text(machine);
    plan::parse_machine(text, path);  // what was measured is plausible
    if (world.rank() == 0) io::write_text_atomically(path, text);
  });
  log::info("the machine is in {}: trireme plan DECK --machine {}", path, path);
}

}  // namespace

int bench(comm::World& world, const Arguments& given) {
  Arguments arguments = given;
  LoadedDeck deck;
  std::int64_t steps = 0;
  world.agree([&] {
    constexpr Option options[] = {{"--steps", true},
                                  {"--products", false},
                                  {"--machine", true},
                                  {"--quick", false}};
    arguments.parse(
        "trireme bench [DECK [section.key=value ...] [--products]] [--steps N] "
        "[--machine OUT.toml] [--quick]",
        options, 0, 10000);
    steps = arguments.integer("--steps", 5, 1, 100000);
    if (!arguments.words().empty()) deck = load_deck(arguments.words(), world.size());
    require(!arguments.has("--products") || !arguments.words().empty(),
            Status::command_line,
            "--products tells the products of a deck's step: name a deck");
    require(!arguments.has("--machine") || arguments.words().empty(),
            Status::command_line,
            "--machine measures the machine alone: leave the deck out");
  });
  const bool with_deck = !arguments.words().empty(), quick = arguments.has("--quick");
  const kernels::Runtime runtime(with_deck ? deck.config.run.threads : 0,
                                 world.ranks_on_node());
  log::info("{}, {} each; rates are of all ranks together", counted(world.size(), "rank"),
            counted(kernels::threads(), "thread"));
  if (with_deck) {
    const config::RunSettings& run = deck.config.run;
    bench_deck(world, deck.config, steps,
               launch::choose_device(world, run.device, run.backend, run.share_gpus),
               arguments.has("--products"), quick);
    return 0;
  }
  if (arguments.has("--machine")) {
    bench_machine(world, arguments.text("--machine", ""), quick);
    return 0;
  }
  for (const DType dtype : {DType::f32, DType::bf16, DType::f64})
    bench_gemm(world, dtype, Device::host(), quick);
  bench_memory(world, quick);
  bench_all_reduce(world, quick);
  return 0;
}

}  // namespace trireme::app
