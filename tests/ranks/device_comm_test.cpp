// Collectives among other work of a device.
// SPDX-License-Identifier: Apache-2.0
// What is queued before and after them keeps its order, also with several in flight.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <vector>

#include "comm/async_errors.hpp"
#include "comm/mesh.hpp"
#include "comm/trace.hpp"
#include "ranks/comm_tensors.hpp"
#include "support/transport.hpp"
#include "support/world.hpp"

namespace trireme::comm {
namespace {

using test::buffer;
using test::fill;
using test::first_difference;
using test::reduced;
using test::test_device;
using test::value;
using test::write;

constexpr std::int64_t N = 50021;  // large enough for chunks and a rendezvous

// Along this axis neighbours may send, also with NCCL; all ranks are on it.
Group& along(const Mesh& mesh) { return mesh.group(Axis::pipeline); }
Mesh make_mesh(Device device = test_device()) {
  return Mesh(test::world(), {.pipeline = test::world().size()}, {}, device,
              device.is_cuda() ? test::test_transport() : Transport::mpi);
}
Group& everyone() {
  static const Mesh mesh = make_mesh();
  return along(mesh);
}

float sum_of(std::int64_t i, std::uint64_t stream = 0) {
  return reduced<float>(everyone().size(), i, Reduce::sum, stream);
}
float value_of(int rank, std::int64_t i) { return static_cast<float>(value(rank, i)); }

// A tensor of f32 that holds one number.
Buffer constant(float c, std::int64_t elements = N) {
  Buffer x = buffer(DType::f32, elements);
  write<float>(x.view(), [&](std::int64_t) { return c; });
  return x;
}

// All collectives among `ranks` ranks, and what the result is.
struct Case {
  const char* name;
  std::int64_t from, to;  // elements
  std::function<std::vector<Handle>(Group&, Stream&, const TensorView&,
                                    const TensorView&)>
      start;
  std::function<float(std::int64_t)> expected;
};

std::vector<Case> cases() {
  const int ranks = everyone().size(), rank = everyone().rank();
  const int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
  const std::int64_t whole = ranks * N;
  const auto one = [](Handle handle) {
    std::vector<Handle> handles;
    handles.push_back(std::move(handle));
    return handles;
  };
  std::vector<Case> all = {
      {"reduce_scatter", whole, N,
       [=](Group& g, Stream& s, const TensorView& from, const TensorView& to) {
         return one(g.reduce_scatter(s, from, to));
       },
       [=](std::int64_t i) { return sum_of(rank * N + i); }},
      {"all_gather", N, whole,
       [=](Group& g, Stream& s, const TensorView& from, const TensorView& to) {
         return one(g.all_gather(s, from, to));
       },
       [=](std::int64_t i) { return value_of(static_cast<int>(i / N), i % N); }},
      {"all_to_all", whole, whole,
       [=](Group& g, Stream& s, const TensorView& from, const TensorView& to) {
         return one(g.all_to_all(s, from, to));
       },
       [=](std::int64_t i) {
         return value_of(static_cast<int>(i / N), rank * N + i % N);
       }},
  };
  if (ranks > 1)
    all.push_back(
        {"send and receive", N, N,
         [=](Group& g, Stream& s, const TensorView& from, const TensorView& to) {
           std::vector<Handle> handles;
           handles.push_back(g.send(s, from, next));
           handles.push_back(g.receive(s, to, previous));
           return handles;
         },
         [=](std::int64_t i) { return value_of(previous, i); }});
  return all;
}

// The source is written by work queued just before, and overwritten just after; the old
// contents of the target are read by work queued before, the new ones after.
TEST(OnDevice, CollectivesKeepTheirPlaceInTheStream) {
  Stream stream(test_device());
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    const Buffer values = buffer(DType::f32, c.from), junk = constant(-7, c.from);
    const Buffer from = constant(-1, c.from), to = constant(-2, c.to);
    const Buffer before = constant(-3, c.to), after = constant(-4, c.to);
    fill<float>(values.view(), everyone().rank());
    for (int round = 0; round < 3; ++round) {
      copy_bytes(stream, values.view(), from.view());
      copy_bytes(stream, to.view(), before.view());
      auto handles = c.start(everyone(), stream, from.view(), to.view());
      for (Handle& handle : handles) handle.wait();
      copy_bytes(stream, junk.view(), from.view());
      copy_bytes(stream, to.view(), after.view());
      copy_bytes(stream, junk.view().rows(0, 1), to.view().rows(0, 1));
      EXPECT_EQ(first_difference<float>(after.view(), c.expected), -1);
      EXPECT_EQ(first_difference<float>(before.view(),
                                        [&](std::int64_t i) {
                                          if (round == 0) return -2.0f;
                                          return i == 0 ? -7.0f : c.expected(i);
                                        }),
                -1);
    }
  }
}

TEST(OnDevice, InPlaceCollectivesKeepTheirPlaceInTheStream) {
  Stream stream(test_device());
  const int ranks = everyone().size();
  const Buffer values = buffer(DType::f32, N), junk = constant(-7);
  fill<float>(values.view(), everyone().rank());
  const Buffer x = constant(-1), first = constant(0), second = constant(0);
  copy_bytes(stream, values.view(), x.view());
  everyone().all_reduce(stream, x.view()).wait();
  copy_bytes(stream, x.view(), first.view());
  copy_bytes(stream, values.view(), x.view());
  everyone().broadcast(stream, x.view(), ranks - 1).wait();
  copy_bytes(stream, x.view(), second.view());
  copy_bytes(stream, junk.view(), x.view());
  EXPECT_EQ(
      first_difference<float>(first.view(), [](std::int64_t i) { return sum_of(i); }),
      -1);
  EXPECT_EQ(first_difference<float>(
                second.view(), [&](std::int64_t i) { return value_of(ranks - 1, i); }),
            -1);
}

// Memory that a result is copied from is used again at once, by a sum that copies out to
// it and by a message that is received into it.
TEST(OnDevice, StagingMemoryIsUsedAgainWithoutALook) {
  Stream stream(test_device());
  const int ranks = everyone().size(), rank = everyone().rank();
  std::vector<Buffer> sums, messages;
  for (int i = 0; i < 4; ++i) {
    sums.push_back(buffer(DType::f32, N));
    fill<float>(sums.back().view(), rank, static_cast<std::uint64_t>(i));
    messages.push_back(buffer(DType::f32, N));
  }
  const Buffer sent = buffer(DType::f32, N);
  for (int i = 0; i < 4; ++i) {
    everyone().all_reduce(stream, sums[static_cast<std::size_t>(i)].view()).wait();
    const TensorView message = messages[static_cast<std::size_t>(i)].view();
    if (rank == 0) fill<float>(message, 100 + i);
    everyone().broadcast(stream, message, 0).wait();
  }
  for (int i = 0; i < 4; ++i) {
    const auto k = static_cast<std::size_t>(i);
    EXPECT_EQ(first_difference<float>(sums[k].view(),
                                      [&](std::int64_t at) {
                                        return reduced<float>(
                                            ranks, at, Reduce::sum,
                                            static_cast<std::uint64_t>(i));
                                      }),
              -1)
        << i;
    EXPECT_EQ(
        first_difference<float>(messages[k].view(),
                                [&](std::int64_t at) { return value_of(100 + i, at); }),
        -1)
        << i;
  }
}

// A target that queued work still reads is not overwritten by what comes early.
TEST(OnDevice, WhatIsOverwrittenHasBeenRead) {
  Stream stream(test_device());
  const Buffer first = constant(everyone().rank() == 0 ? -5.0f : -1.0f),
               second = constant(-2), kept = constant(-3);
  copy_bytes(stream, first.view(), kept.view());
  everyone().broadcast(stream, first.view(), 0).wait();
  everyone().broadcast(stream, second.view(), 0).wait();  // looks for the first's copy
  const float own = everyone().rank() == 0 ? -5.0f : -1.0f;
  EXPECT_EQ(first_difference<float>(kept.view(), [&](std::int64_t) { return own; }), -1);
}

// Two axes and everyone: each rank is in three groups that overlap.
struct Overlapping {
  Overlapping()
      : mesh(test::world(),
             test::world().size() % 2 == 0
                 ? MeshShape{.data = test::world().size() / 2, .tensor = 2}
                 : MeshShape{.data = test::world().size()},
             {}, test_device()),
        groups{&mesh.everyone(), &mesh.group(Axis::data), &mesh.group(Axis::tensor)} {
    for (int i = 0; i < 12; ++i)
      tensors.push_back(buffer(DType::f32, i % 4 == 3 ? 200003 : 1001 * (i + 1)));
  }

  Group& group(std::size_t i) { return *groups[i % groups.size()]; }
  // Sums of 1 + world rank: exact, and known from the members alone.
  float expected(std::size_t i) {
    float sum = 0;
    for (int r = 0; r < mesh.shape().size(); ++r) {
      const bool same_data =
          mesh.shape().coordinate(r, Axis::data) == mesh.coordinate(Axis::data);
      const bool same_tensor =
          mesh.shape().coordinate(r, Axis::tensor) == mesh.coordinate(Axis::tensor);
      const std::size_t g = i % groups.size();
      if (g == 0 || (g == 1 && same_tensor) || (g == 2 && same_data))
        sum += static_cast<float>(1 + r);
    }
    return sum;
  }

  // Starts all, each group's in its order, the groups in an order of this rank's own, and
  // waits in another.
  void round(std::mt19937& random) {
    Stream stream(test_device());
    const Buffer own = constant(static_cast<float>(1 + mesh.rank()), 200003);
    for (const Buffer& x : tensors)
      copy_bytes(stream, own.view().rows(0, x.view().dim(0)), x.view());
    std::vector<std::size_t> next = {0, 1, 2}, order(tensors.size());
    std::vector<Handle> handles(tensors.size());
    for (std::size_t started = 0; started < tensors.size();) {
      std::size_t& i = next[random() % groups.size()];
      if (i >= tensors.size()) continue;
      handles[i] = group(i).all_reduce(stream, tensors[i].view());
      order[started++] = i;
      i += groups.size();
    }
    std::shuffle(order.begin(), order.end(), random);
    for (const std::size_t i : order) handles[i].wait();
  }
  void check() {
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const float sum = expected(i);
      EXPECT_EQ(
          first_difference<float>(tensors[i].view(), [&](std::int64_t) { return sum; }),
          -1)
          << "tensor " << i;
    }
  }
  std::size_t staging() const {
    std::size_t bytes = 0;
    for (const Group* group : groups) bytes += group->staging_bytes();
    return bytes;
  }

  Mesh mesh;
  std::vector<Group*> groups;
  std::vector<Buffer> tensors;
};

TEST(OnDevice, ManyInFlightOnOverlappingGroups) {
  Overlapping all;
  std::mt19937 random(static_cast<unsigned>(17 + all.mesh.rank()));
  std::size_t staging = 0;
  for (int round = 0; round < 10; ++round) {
    all.round(random);
    all.check();
    if (round == 0) staging = all.staging();
    EXPECT_EQ(all.staging(), staging) << "round " << round;
  }
}

TEST(OnDevice, DroppedHandlesAreWaitedFor) {
  Stream stream(test_device());
  const Buffer x = buffer(DType::f32, N);
  fill<float>(x.view(), everyone().rank());
  { const Handle dropped = everyone().all_reduce(stream, x.view()); }
  EXPECT_EQ(first_difference<float>(x.view(), [](std::int64_t i) { return sum_of(i); }),
            -1);
  fill<float>(x.view(), everyone().rank());
  Handle polled = everyone().all_reduce(stream, x.view());
  while (!polled.done()) {
  }
  polled.wait();
  EXPECT_EQ(first_difference<float>(x.view(), [](std::int64_t i) { return sum_of(i); }),
            -1);
}

TEST(OnDevice, AGroupOfOneCopies) {
  const Mesh mesh = make_mesh();
  Group& alone = mesh.alone();
  Stream stream(test_device());
  const Buffer from = buffer(DType::f32, N);
  fill<float>(from.view(), 3);
  const auto copied = [&](const Buffer& to) {
    return first_difference<float>(to.view(),
                                   [](std::int64_t i) { return value_of(3, i); });
  };
  const Buffer a = constant(0), b = constant(0), c = constant(0);
  alone.reduce_scatter(stream, from.view(), a.view()).wait();
  alone.all_gather(stream, from.view(), b.view()).wait();
  alone.all_to_all(stream, from.view(), c.view()).wait();
  EXPECT_EQ(copied(a), -1);
  EXPECT_EQ(copied(b), -1);
  EXPECT_EQ(copied(c), -1);
}

// One of each kind, on tensors of `device`.
void one_of_each(Group& group, Device device) {
  const int ranks = group.size(), rank = group.rank();
  Stream stream(device);
  const Buffer whole = buffer(DType::bf16, ranks * N, device);
  const Buffer other = buffer(DType::bf16, ranks * N, device);
  const TensorView part = whole.view().rows(rank * N, N);
  group.all_reduce(stream, whole.view()).wait();
  group.all_reduce(stream, part.rows(0, 7), Reduce::max).wait();
  group.reduce_scatter(stream, whole.view(), part).wait();
  group.all_gather(stream, part, whole.view()).wait();
  group.reduce(stream, part, ranks - 1).wait();
  group.broadcast(stream, part, ranks - 1).wait();
  group.all_to_all(stream, whole.view(), other.view()).wait();
  if (ranks == 1) return;
  Handle sent = group.send(stream, part, (rank + 1) % ranks);
  group.receive(stream, other.view().rows(0, N), (rank + ranks - 1) % ranks).wait();
}

TEST(OnDevice, CountsAsOnHosts) {
  const Mesh host = make_mesh(Device::host()), device = make_mesh();
  const auto entered = [&](const Mesh& mesh, Device where) {
    const std::int64_t before = trace().count();
    one_of_each(along(mesh), where);
    return trace().count() - before;
  };
  const std::int64_t on_host = entered(host, Device::host());
  EXPECT_EQ(entered(device, test_device()), on_host);
  // Tensors of the host go the same way from a mesh of devices, and are counted there.
  EXPECT_EQ(entered(device, Device::host()), on_host);
  EXPECT_EQ(device.groups().size(), host.groups().size());
  EXPECT_EQ(along(device).collectives(), 2 * along(host).collectives());
  for (std::size_t kind = 0; kind < collective_kinds; ++kind) {
    const Traffic& one = along(host).traffic()[kind];
    const Traffic& two = along(device).traffic()[kind];
    EXPECT_EQ(two.calls, 2 * one.calls) << name_of(static_cast<Collective>(kind));
    EXPECT_EQ(two.bytes, 2 * one.bytes) << name_of(static_cast<Collective>(kind));
    EXPECT_EQ(one.calls > 0, along(host).size() > 1);
  }
  // A late rank holds the others up, and that is entered in the group that was called.
  const auto exposed = [](const Group& group) {
    double seconds = 0;
    for (const Traffic& traffic : group.traffic()) seconds += traffic.exposed_seconds;
    return seconds;
  };
  // With NCCL the GPU waits, and not the host.
  const bool by_nccl =
      test_device().is_cuda() && test::test_transport() == Transport::nccl;
  if (along(host).size() > 1 && !by_nccl) {
    EXPECT_GT(test::world().sum(exposed(along(device))), 0.0);
  }
  // Nor is it known how long that took, of any kind.
  for (const CallTimes& times : trace().times_of(along(device).name()))
    EXPECT_EQ(times.on_device > 0, by_nccl && along(host).size() > 1);
  // What is over is not left in flight in the trace.
  Stream(test_device()).synchronize();
  async_errors().look();
  EXPECT_EQ(trace().in_flight(8), "");
}

}  // namespace
}  // namespace trireme::comm
