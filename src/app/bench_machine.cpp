// The measurements of `trireme bench --machine`.
// SPDX-License-Identifier: Apache-2.0
#include "app/bench_machine.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/cpu_place.hpp"
#include "base/descriptor.hpp"
#include "base/error.hpp"
#include "base/median.hpp"
#include "base/memory.hpp"
#include "base/stopwatch.hpp"
#include "base/system_reason.hpp"
#include "comm/mesh.hpp"
#include "kernels/activation.hpp"
#include "kernels/attention.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/norm.hpp"
#include "kernels/optimizer.hpp"
#include "launch/machine_peak.hpp"
#include "launch/memory_limit.hpp"

namespace trireme::app {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int windows = 5;

// Seconds of a call: the mean of as many as fit into a window, and of windows, which take
// `seconds` together, the median. So ranks that share a core have their share of it, and
// a disturbance in one or two windows does not count.
double time_of(double seconds, const std::function<void()>& call) {
  call();
  std::vector<double> means;
  for (int i = 0; i < windows; ++i) {
    const auto begin = Clock::now();
    double elapsed = 0;
    int calls = 0;
    do {
      call();
      ++calls;
      elapsed = seconds_since(begin);
    } while (elapsed < seconds / windows);
    means.push_back(elapsed / calls);
  }
  return median(std::move(means));
}

Buffer buffer(const Shape& shape, DType type = DType::f32) {
  return {Device::host(), type, shape, MemoryClass::workspace, "bench"};
}

// Ranks of each node, if all have as many and they follow each other; else all ranks
// count as those of one node.
int ranks_of_each_node(comm::World& world) {
  const int on_node = world.ranks_on_node();
  const bool regular = world.rank() % on_node == world.rank_on_node();
  const double most = world.max(on_node), least = -world.max(-on_node);
  const bool all_regular = world.max(regular ? 0 : 1) == 0 && most == least;
  return all_regular ? on_node : world.size();
}

class MachineBench {
 public:
  MachineBench(comm::World& world, bool quick)
      : world_(world), seconds_(quick ? 0.002 : 0.3), extent_(quick ? 64 : 1024) {}

  void products(plan::Machine& m) {
    const auto rate = [&](DType type, std::int64_t rows, std::int64_t inner) {
      std::vector<double> mine;
      for (int i = 0; i < windows; ++i) {
        world_.barrier();
        mine.push_back(
            launch::gemm_rate(type, rows, extent_, inner, seconds_ / windows).sustained);
      }
      return -world_.max(-median(std::move(mine)));
    };
    m.products.fp64 = rate(DType::f64, extent_, extent_);
    m.products.fp32 = rate(DType::f32, extent_, extent_);
    m.products.bf16 = rate(DType::bf16, extent_, extent_);
    m.products.fp16 = rate(DType::f16, extent_, extent_);
    // rate(x) = large x / (x + half), so that half = x (large / rate(x) - 1).
    const std::int64_t small = extent_ / 16;
    const auto half = [&](double reached) {
      return static_cast<double>(small) *
             std::clamp(m.products.fp32 / reached - 1, 0.0, 100.0);
    };
    m.products.half_inner = half(rate(DType::f32, extent_, small));
    m.products.half_side = half(rate(DType::f32, small, extent_));
    // The large product is not without an end itself.
    const double side = static_cast<double>(extent_);
    const double grow =
        (1 + m.products.half_inner / side) * (1 + m.products.half_side / side);
    for (double* value :
         {&m.products.fp64, &m.products.fp32, &m.products.bf16, &m.products.fp16})
      *value *= grow;
  }

  void attention(plan::Machine& m) {
    // A head takes t(K) = a + b K seconds for each pair of positions, so that the rate is
    // K / (K + half) of the largest, half = a / b.
    const auto [forward, backward] = attention_seconds(64);
    const auto [narrow_forward, narrow_backward] = attention_seconds(16);
    const double longer = (forward + backward) / (narrow_forward + narrow_backward);
    const double half = std::clamp((64 - 16 * longer) / (longer - 1), 0.0, 1000.0);
    m.attention_half_width = longer > 1 ? half : 1000;
    const double reached = 64 / (64 + m.attention_half_width) * m.products.fp32;
    m.attention_forward = std::clamp(4 * 64 / forward / reached, 0.001, 2.0);
    m.attention_backward = std::clamp(10 * 64 / backward / reached, 0.001, 2.0);
  }

  // A norm, an activation and a sum, each of which reads and writes its tensors; and a
  // step of AdamW on more than caches hold.
  void sweeps(plan::Machine& m) {
    m.sweep_rate = sweep_rate(DType::f32);
    m.narrow_sweep_rate = sweep_rate(DType::bf16);
    const Shape shape{4 * extent_ * extent_};
    const Buffer master = buffer(shape), gradient = buffer(shape), first = buffer(shape),
                 second = buffer(shape), weight = buffer(shape, DType::bf16),
                 one = buffer({1});
    Stream stream;
    for (const Buffer* x : {&master, &gradient, &first, &second})
      kernels::fill(stream, x->view(), 0.5);
    const kernels::Update update{.formula = kernels::UpdateFormula::adamw, .step = 1};
    const double seconds = slowest([&] {
      kernels::update(stream, update, master.view(), gradient.view(),
                      {first.view(), second.view()}, weight.view());
    });
    m.update_rate = static_cast<double>(7 * master.bytes() + weight.bytes()) / seconds;
    m.kernel_seconds =
        slowest([&] { kernels::add(stream, one.view(), one.view(), one.view()); });
  }

  // Within a node, and from node to node by all ranks of each at once. Where there is one
  // of the two alone, it stands for both.
  void links(plan::Machine& m) {
    if (world_.size() == 1) {  // nothing to measure: as fast as memory
      m.links = {m.sweep_rate / 4, 1e-6, m.sweep_rate / 4, 1e-6, 0};
      return;
    }
    const int on_node = ranks_of_each_node(world_);
    const int nodes = world_.size() / on_node;
    comm::Mesh mesh(world_, {.data = nodes, .tensor = on_node});
    std::optional<Link> within, across;
    if (on_node > 1) within = link_of(mesh.group(comm::Axis::tensor));
    if (nodes > 1) across = link_of(mesh.group(comm::Axis::data));
    const Link near = within ? *within : *across, far = across ? *across : *within;
    m.links = {near.rate, near.latency, far.rate, far.latency, far.overlap};
  }

  void files(plan::Machine& m, const std::string& path) {
    // Large beside what it costs to sync any file.
    std::vector<char> block(seconds_ < 0.1 ? 4 << 20 : 32 << 20, 'x');
    const std::string mine = path + "." + std::to_string(world_.rank());
    world_.barrier();
    double writing = 0, reading = 0;
    world_.agree([&] { transfer(mine, block, writing, reading); });
    const double all =
        static_cast<double>(block.size()) * static_cast<double>(m.ranks_per_node);
    m.write_rate = all / world_.max(writing);
    m.read_rate = all / world_.max(reading);
  }

 private:
  struct Link {
    double rate = 0, latency = 0, overlap = 0;
  };

  // Of a sum of all ranks of a group, which all groups make at once.
  Link link_of(comm::Group& group) {
    const Buffer x = buffer({extent_ * extent_ * 4}), one = buffer({1});
    Stream stream;
    const auto reduced = [&](const Buffer& y) {
      return timed_together([&] { group.all_reduce(stream, y.view()).wait(); });
    };
    const double n = group.size();
    const double latency = reduced(one) / std::ceil(std::log2(n));
    const double alone = reduced(x);
    const double sent = 2 * (n - 1) / n * static_cast<double>(x.bytes());
    // On a busy machine a short message may have taken as long as the large one: of that
    // one's time no more than half is taken for latency.
    const double rate = sent / std::max(alone - latency, alone / 2);
    // Beside a message, work of about the same length.
    const Buffer a = buffer({extent_, extent_}), b = buffer({extent_, extent_});
    const double sweep =
        timed_together([&] { kernels::add(stream, a.view(), b.view(), b.view()); });
    const int sweeps = static_cast<int>(std::ceil(alone / sweep));
    const double both = timed_together([&] {
      comm::Handle handle = group.all_reduce(stream, x.view());
      for (int i = 0; i < sweeps; ++i) kernels::add(stream, a.view(), b.view(), b.view());
      handle.wait();
    });
    const double overlap = std::clamp((alone + sweeps * sweep - both) / alone, 0.0, 1.0);
    return {rate, latency, overlap};
  }

  // Seconds that a file of this size takes to be written and to be read.
  static void transfer(const std::string& path, std::span<char> block, double& writing,
                       double& reading) {
    const Descriptor file(
        ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    require(file.is_open(), Status::cannot_create,
            "{}: cannot be created, to measure the file system: {}", path,
            system_reason(errno));
    ::unlink(path.c_str());
    auto start = Clock::now();
    const auto flush = [&] { return ::fsync(file.get()); };
    require(
        write_all(file.get(), {block.data(), block.size()}) && uninterrupted(flush) == 0,
        Status::io, "{}: cannot be written, to measure the file system: {}", path,
        system_reason(errno));
    writing = seconds_since(start);
    ::posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED);
    start = Clock::now();
    std::size_t done = 0;
    while (done < block.size()) {
      const ::ssize_t count = uninterrupted([&] {
        return ::pread(file.get(), block.data() + done, block.size() - done,
                       static_cast<off_t>(done));
      });
      require(count > 0, Status::io, "{}: cannot be read, to measure the file system: {}",
              path, system_reason(errno));
      done += static_cast<std::size_t>(count);
    }
    reading = seconds_since(start);
  }

  // Of one head and pair of positions of that head width: forward and backward.
  std::pair<double, double> attention_seconds(std::int64_t width) {
    kernels::AttentionShape shape{.batch = 2,
                                  .sequence = extent_ / 4,
                                  .heads = 4,
                                  .kv_heads = 4,
                                  .head_width = width,
                                  .scale = 0.125,
                                  .kv_head = {0, 1, 2, 3}};
    const Shape rows{shape.batch * shape.sequence, shape.heads * width};
    const Buffer q = buffer(rows), k = buffer(rows), v = buffer(rows), o = buffer(rows);
    const Buffer d_o = buffer(rows), dq = buffer(rows), dk = buffer(rows),
                 dv = buffer(rows), lse = buffer({rows[0], shape.heads});
    Arena scratch(Device::host(), std::size_t{1} << 28, MemoryClass::workspace, "bench");
    Stream stream;
    const auto pairs =
        static_cast<double>(kernels::AttentionPart::whole(shape.sequence).pairs() *
                            shape.batch * shape.heads);
    const double forward = slowest([&] {
      kernels::attention(stream, scratch, shape, q.view(), k.view(), v.view(), o.view(),
                         lse.view());
    });
    const double backward = slowest([&] {
      kernels::attention_backward(stream, scratch, shape, d_o.view(), q.view(), k.view(),
                                  v.view(), o.view(), lse.view(), dq.view(), dk.view(),
                                  dv.view());
    });
    return {forward / pairs, backward / pairs};
  }

  double sweep_rate(DType type) {
    const Shape shape{2 * extent_, 2 * extent_};  // more than most caches
    const Buffer x = buffer(shape, type), y = buffer(shape, type),
                 gain = buffer({2 * extent_}, type), rstd = buffer({2 * extent_}),
                 gated = buffer({2 * extent_, 4 * extent_}, type);
    Stream stream;
    const double seconds =
        slowest([&] {
          kernels::rms_norm(stream, x.view(), gain.view(), 1e-5, y.view(), rstd.view());
        }) +
        slowest([&] { kernels::add(stream, x.view(), y.view(), y.view()); }) +
        slowest([&] {
          kernels::activate(stream, kernels::Activation::swiglu, gated.view(), y.view());
        });
    return 8 * static_cast<double>(x.bytes()) / seconds;  // 2 + 3 + 3 tensors
  }

  double slowest(const std::function<void()>& call) {
    world_.barrier();
    return world_.max(time_of(seconds_, call));
  }
  // Of calls in which all ranks take part: as many on each.
  double timed_together(const std::function<void()>& call) {
    std::vector<double> times;
    for (int i = 0; i < (seconds_ < 0.1 ? 2 : 15); ++i) {
      world_.barrier();
      const auto start = Clock::now();
      call();
      times.push_back(world_.max(seconds_since(start)));
    }
    times.erase(times.begin());
    return median(std::move(times));
  }

  comm::World& world_;
  double seconds_;
  std::int64_t extent_;
};

}  // namespace

plan::Machine measure_machine(comm::World& world, const std::string& scratch,
                              bool quick) {
  plan::Machine machine;
  machine.name = describe_node();
  machine.source = "measured";
  machine.ranks_per_node = static_cast<std::int64_t>(world.max(world.ranks_on_node()));
  machine.memory_bytes =
      -world.max(-static_cast<double>(launch::node_memory_limit().bytes)) /
      static_cast<double>(machine.ranks_per_node);
  machine.products.reached = 1;
  machine.failure_hours = 50000;
  machine.restart_seconds = 300;
  MachineBench bench(world, quick);
  bench.products(machine);
  bench.attention(machine);
  bench.sweeps(machine);
  bench.links(machine);
  bench.files(machine, scratch);
  return machine;
}

}  // namespace trireme::app
