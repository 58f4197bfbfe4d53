// Collectives against sums, copies and counts made locally.
// SPDX-License-Identifier: Apache-2.0
// In a test on a GPU the tensors lie there.
#include <gtest/gtest.h>

#include <bit>
#include <cstdlib>
#include <set>
#include <vector>

#include "base/memory.hpp"
#include "comm/mesh.hpp"
#include "comm/meta_group.hpp"
#include "comm/trace.hpp"
#include "ranks/comm_tensors.hpp"
#include "support/world.hpp"

namespace trireme::comm {
namespace {

constexpr DType floating[] = {DType::f64, DType::f32, DType::bf16, DType::f16};
// None, one, fewer and not divisible, direct for some types only, in lanes, in many
// chunks a lane.
constexpr std::int64_t sizes[] = {0, 1, 5, 1000, 5003, 100003, 2400007};

// TRIREME_TEST_ROUTES=all: few ranks take the routes of many.
bool takes_all_routes() {
  static const bool wanted = std::getenv("TRIREME_TEST_ROUTES") != nullptr;
  return wanted;
}

Mesh& mesh() {
  if (takes_all_routes()) route_limits() = {.direct_ranks = 1, .pairwise_ranks = 1};
  static Mesh data_parallel(test::world(), {.data = test::world().size()}, {},
                            test::test_device());
  return data_parallel;
}
Group& everyone() { return mesh().everyone(); }

using test::buffer;
using test::fill;
using test::first_difference;
using test::OnHost;
using test::reduced;
using test::test_device;
using test::value;
using test::write;

template <class F>
void for_all(const F& f) {
  for (const DType dtype : floating)
    for (const std::int64_t size : sizes) {
      if (takes_all_routes() && size > 1000000) continue;  // in chunks without it, too
      SCOPED_TRACE(format("{}[{}]", name_of(dtype), size));
      f(dtype, size);
    }
}

TEST(Collectives, AllReduceSumsInRankOrderAndRoundsOnce) {
  Stream stream(test_device());
  for_all([&](DType dtype, std::int64_t size) {
    visit_floating(dtype, [&](auto tag) {
      using T = decltype(tag);
      const Buffer x = buffer(dtype, size);
      for (const Reduce reduce : {Reduce::sum, Reduce::max}) {
        fill<T>(x.view(), everyone().rank());
        everyone().all_reduce(stream, x.view(), reduce).wait();
        EXPECT_EQ(first_difference<T>(x.view(),
                                      [&](std::int64_t i) {
                                        return reduced<T>(everyone().size(), i, reduce);
                                      }),
                  -1);
      }
    });
  });
}

TEST(Collectives, ReduceScatterGivesEachRankItsPart) {
  Stream stream(test_device());
  const std::int64_t ranks = everyone().size(), rank = everyone().rank();
  for_all([&](DType dtype, std::int64_t size) {
    visit_floating(dtype, [&](auto tag) {
      using T = decltype(tag);
      const std::int64_t part = size / ranks;
      const auto expected = [&](std::int64_t i) {
        return reduced<T>(everyone().size(), rank * part + i, Reduce::sum);
      };
      const Buffer full = buffer(dtype, ranks * part), shard = buffer(dtype, part);
      fill<T>(full.view(), everyone().rank());
      everyone().reduce_scatter(stream, full.view(), shard.view()).wait();
      EXPECT_EQ(first_difference<T>(shard.view(), expected), -1);
      // in place: the shard is its part of the full tensor
      fill<T>(full.view(), everyone().rank());
      const TensorView inside = full.view().rows(rank * part, part);
      everyone().reduce_scatter(stream, full.view(), inside).wait();
      EXPECT_EQ(first_difference<T>(inside, expected), -1);
    });
  });
}

TEST(Collectives, AllGatherConcatenates) {
  Stream stream(test_device());
  const std::int64_t ranks = everyone().size(), rank = everyone().rank();
  for_all([&](DType dtype, std::int64_t size) {
    visit_floating(dtype, [&](auto tag) {
      using T = decltype(tag);
      const std::int64_t part = size / ranks;
      const auto expected = [&](std::int64_t i) {
        return static_cast<T>(
            static_cast<Accumulator<T>>(value(static_cast<int>(i / part), i % part)));
      };
      const Buffer full = buffer(dtype, ranks * part), shard = buffer(dtype, part);
      fill<T>(shard.view(), everyone().rank());
      everyone().all_gather(stream, shard.view(), full.view()).wait();
      EXPECT_EQ(first_difference<T>(full.view(), expected), -1);
      const Buffer whole = buffer(dtype, ranks * part);
      const TensorView inside = whole.view().rows(rank * part, part);
      fill<T>(inside, everyone().rank());
      everyone().all_gather(stream, inside, whole.view()).wait();
      EXPECT_EQ(first_difference<T>(whole.view(), expected), -1);
    });
  });
}

// The bits of an all-reduce, on every root.
TEST(Collectives, ReduceLeavesTheSumOnTheRoot) {
  Stream stream(test_device());
  for_all([&](DType dtype, std::int64_t size) {
    visit_floating(dtype, [&](auto tag) {
      using T = decltype(tag);
      const Buffer all = buffer(dtype, size), x = buffer(dtype, size);
      for (const Reduce reduce : {Reduce::sum, Reduce::max}) {
        fill<T>(all.view(), everyone().rank());
        everyone().all_reduce(stream, all.view(), reduce).wait();
        const OnHost expected(all.view());
        for (int root = 0; root < everyone().size(); ++root) {
          fill<T>(x.view(), everyone().rank());
          everyone().reduce(stream, x.view(), root, reduce).wait();
          if (everyone().rank() != root) continue;
          const auto at = [&](std::int64_t i) { return expected.view().data<T>()[i]; };
          EXPECT_EQ(first_difference<T>(x.view(), at), -1) << "root " << root;
        }
      }
    });
  });
}

TEST(Collectives, BroadcastReachesEveryRankFromEveryRoot) {
  Stream stream(test_device());
  for (const std::int64_t size : sizes) {
    const Buffer x = buffer(DType::i32, size);
    for (int root = 0; root < everyone().size(); ++root) {
      write<std::int32_t>(x.view(), [](std::int64_t i) {
        return static_cast<std::int32_t>(i) + 1000 * everyone().rank();
      });
      everyone().broadcast(stream, x.view(), root).wait();
      const OnHost here(x.view());
      const auto values = here.view().span<std::int32_t>();
      std::int64_t wrong = 0;
      for (std::size_t i = 0; i < values.size(); ++i)
        wrong += values[i] != static_cast<std::int32_t>(i) + 1000 * root;
      EXPECT_EQ(wrong, 0) << "root " << root << ", size " << size;
    }
  }
}

TEST(Collectives, AllToAllTransposes) {
  Stream stream(test_device());
  const int ranks = everyone().size(), rank = everyone().rank();
  for (const std::int64_t part : {0, 1, 7, 40000}) {
    const Buffer from = buffer(DType::i64, ranks * part),
                 to = buffer(DType::i64, ranks * part);
    write<std::int64_t>(from.view(), [&](std::int64_t i) { return rank * 1000000 + i; });
    everyone().all_to_all(stream, from.view(), to.view()).wait();
    const OnHost here(to.view());
    const auto got = here.view().span<std::int64_t>();
    std::int64_t wrong = 0;
    for (std::int64_t i = 0; i < ranks * part; ++i)
      wrong +=
          got[static_cast<std::size_t>(i)] != i / part * 1000000 + rank * part + i % part;
    EXPECT_EQ(wrong, 0) << "part " << part;
  }
}

TEST(Collectives, MessagesArriveInOrderPerPair) {
  const int ranks = everyone().size(), rank = everyone().rank();
  if (ranks == 1) GTEST_SKIP() << "one rank has nobody to send to";
  Stream stream(test_device());
  const int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
  constexpr std::size_t count = 6;
  std::vector<Buffer> sent, got;
  std::vector<Handle> handles;
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t size = i % 2 ? 3 : 70001;  // eager and rendezvous by turns
    sent.push_back(buffer(DType::i32, size));
    got.push_back(buffer(DType::i32, size));
    write<std::int32_t>(sent[i].view(),
                        [&](std::int64_t) { return 100 * rank + static_cast<int>(i); });
    handles.push_back(everyone().send(stream, sent[i].view(), next));
  }
  for (std::size_t i = 0; i < count; ++i)
    handles.push_back(everyone().receive(stream, got[i].view(), previous));
  for (auto handle = handles.rbegin(); handle != handles.rend(); ++handle) handle->wait();
  for (std::size_t i = 0; i < count; ++i)
    ASSERT_EQ(first_difference<std::int32_t>(
                  got[i].view(),
                  [&](std::int64_t) { return 100 * previous + static_cast<int>(i); }),
              -1);
}

// Starts twelve collectives of all kinds and sizes, and waits from the last to the first.
void many_in_flight(std::vector<Buffer>& buffers) {
  Stream stream(test_device());
  const std::int64_t ranks = everyone().size();
  std::vector<Handle> handles;
  for (std::size_t i = 0; i < 12; i += 3) {
    fill<float>(buffers[i].view(), everyone().rank(), i);
    handles.push_back(everyone().all_reduce(stream, buffers[i].view()));
    const TensorView full = buffers[i + 1].view();
    const std::int64_t part = full.dim(0) / ranks;
    fill<float>(full, everyone().rank(), i + 1);
    handles.push_back(everyone().reduce_scatter(
        stream, full, full.rows(everyone().rank() * part, part)));
    handles.push_back(everyone().broadcast(stream, buffers[i + 2].view(), 0));
    everyone().progress();
  }
  for (auto handle = handles.rbegin(); handle != handles.rend(); ++handle) handle->wait();
}

std::vector<Buffer> buffers_for_many() {
  std::vector<Buffer> buffers;
  const std::int64_t lengths[] = {10, 100003, 1000, 300007};
  for (const std::int64_t length : lengths)
    for (int i = 0; i < 3; ++i)
      buffers.push_back(
          buffer(DType::f32, length / everyone().size() * everyone().size()));
  return buffers;
}

TEST(Collectives, ManyInFlightWaitedInReverse) {
  auto buffers = buffers_for_many();
  many_in_flight(buffers);
  const int ranks = everyone().size();
  for (std::size_t i = 0; i < 12; i += 3) {
    EXPECT_EQ(first_difference<float>(buffers[i].view(),
                                      [&](std::int64_t at) {
                                        return reduced<float>(ranks, at, Reduce::sum, i);
                                      }),
              -1);
    const std::int64_t part = buffers[i + 1].view().dim(0) / ranks;
    const std::int64_t begin = everyone().rank() * part;
    EXPECT_EQ(first_difference<float>(buffers[i + 1].view().rows(begin, part),
                                      [&](std::int64_t at) {
                                        return reduced<float>(ranks, begin + at,
                                                              Reduce::sum, i + 1);
                                      }),
              -1);
  }
}

TEST(Collectives, AllocateNothingAfterTheFirstRound) {
  auto buffers = buffers_for_many();
  many_in_flight(buffers);
  const auto allocations = memory_allocations();
  const auto staging = everyone().staging_bytes();
  for (int round = 0; round < 20; ++round) many_in_flight(buffers);
  EXPECT_EQ(memory_allocations(), allocations);
  EXPECT_EQ(everyone().staging_bytes(), staging);
}

TEST(Collectives, MetaGroupCountsWhatTheTransportDoes) {
  const int ranks = test::world().size(), rank = test::world().rank();
  const Mesh real(test::world(), {.data = ranks}, {}, test_device());
  const Mesh planned = Mesh::meta({.data = ranks}, rank);
  const auto run = [&](Group& group, Device device) {
    Stream stream(device);
    const Buffer a(device, DType::bf16, {ranks * 200001}, MemoryClass::workspace, "a");
    const Buffer b(device, DType::f32, {1001}, MemoryClass::workspace, "b");
    const Buffer c(device, DType::f32, {ranks * 1001}, MemoryClass::workspace, "c");
    {
      Handle first = group.all_reduce(stream, a.view());
      Handle second = group.all_reduce(stream, b.view());
      first.wait();
      second.wait();
    }
    group.reduce_scatter(stream, a.view(), a.view().rows(rank * 200001, 200001)).wait();
    group.all_gather(stream, b.view(), c.view()).wait();
    group.broadcast(stream, b.view(), ranks - 1).wait();
    group.all_reduce(stream, b.view(), Reduce::max).wait();
  };
  Group& group = real.group(Axis::data);
  run(group, test_device());
  run(planned.group(Axis::data), Device::meta());
  // A GPU's tensors lie whole in pinned memory, one of each size at a time.
  std::size_t pinned = 0;
  if (test_device().is_cuda() && ranks > 1) {
    std::set<std::size_t> blocks;
    for (const int bytes : {2 * ranks * 200001, 4 * 1001, 4 * 1001 * ranks})
      blocks.insert(std::bit_ceil(static_cast<std::size_t>(bytes)));
    for (const std::size_t block : blocks) pinned += block;
  }
  EXPECT_EQ(group.staging_bytes(), planned.group(Axis::data).staging_bytes() + pinned);
  EXPECT_EQ(group.bytes_sent(), planned.group(Axis::data).bytes_sent());
  EXPECT_EQ(group.collectives(), planned.group(Axis::data).collectives());
  if (ranks > 1) {
    EXPECT_GT(group.staging_bytes(), 0u);
    EXPECT_EQ(group.collectives(), 6);
  }
}

// What all ranks send together is what the algorithm must move: 2 (P - 1) N for a large
// all-reduce, for a reduction to one rank (P - 1) N and the parts of all ranks but the
// root, (P - 1) N for a broadcast, whatever the tree.
TEST(Collectives, BytesSent) {
  const int ranks = everyone().size();
  Stream stream(test_device());
  const Buffer x = buffer(DType::f32, 100003);
  const auto sent_by_all = [&](const auto& collective) {
    const auto before = everyone().bytes_sent();
    collective();
    return test::world().sum(static_cast<double>(everyone().bytes_sent() - before));
  };
  const double bytes = 4.0 * 100003 * (ranks - 1);
  EXPECT_EQ(sent_by_all([&] { everyone().all_reduce(stream, x.view()).wait(); }),
            2 * bytes);
  for (int root = 0; root < ranks; ++root) {
    EXPECT_EQ(sent_by_all([&] { everyone().broadcast(stream, x.view(), root).wait(); }),
              bytes);
    // A chain ends on the last rank, which sends the sum on.
    const double parts =
        takes_all_routes()
            ? 4.0 * (root == ranks - 1 ? 0 : 100003)
            : 4.0 *
                  static_cast<double>(100003 - split_range(100003, ranks, root).count());
    EXPECT_EQ(sent_by_all([&] { everyone().reduce(stream, x.view(), root).wait(); }),
              ranks == 1 ? 0 : bytes + parts);
  }
}

TEST(Collectives, RefuseWhatDoesNotFit) {
  Stream stream(test_device());
  const std::int64_t ranks = everyone().size();
  const Buffer matrix(test_device(), DType::f32, {4, 6}, MemoryClass::workspace, "m");
  const Buffer ints = buffer(DType::i32, 4 * ranks);
  const Buffer shard = buffer(DType::f32, 3), full = buffer(DType::f32, 3 * ranks + 1);
  EXPECT_THROW(everyone().all_reduce(stream, matrix.view().columns(1, 3)), Error);
  EXPECT_THROW(everyone().all_reduce(stream, ints.view()), Error);
  EXPECT_THROW(everyone().all_gather(stream, shard.view(), full.view()), Error);
  EXPECT_THROW(everyone().reduce_scatter(stream, full.view(), shard.view()), Error);
  EXPECT_THROW(everyone().broadcast(stream, ints.view(), static_cast<int>(ranks)), Error);
  EXPECT_THROW(everyone().reduce(stream, shard.view(), -1), Error);
  EXPECT_THROW(everyone().reduce(stream, ints.view(), 0), Error);
  EXPECT_THROW(everyone().send(stream, ints.view(), everyone().rank()), Error);
}

TEST(Collectives, RefuseTensorsOfAnotherDevice) {
  if (!test_device().is_cuda() || everyone().size() == 1)
    GTEST_SKIP() << "nothing travels between devices";
  Stream stream(test_device()), host;
  const Buffer x = buffer(DType::f32, 3);
  const Mesh on_host(test::world(), {.data = test::world().size()});
  EXPECT_THROW(on_host.everyone().all_reduce(stream, x.view()), Error);
  EXPECT_THROW(everyone().all_reduce(host, x.view()), Error);
  const Buffer full(Device::host(), DType::f32, {3 * everyone().size()},
                    MemoryClass::workspace, "full");
  EXPECT_THROW(everyone().all_gather(stream, x.view(), full.view()), Error);
}

TEST(Trace, KeepsTheLast) {
  Stream stream(test_device());
  const Buffer x = buffer(DType::f32, 12);
  const auto before = trace().count();
  for (int i = 0; i < 1100; ++i) everyone().all_reduce(stream, x.view()).wait();
  if (everyone().size() == 1) {
    EXPECT_EQ(trace().count(), before);  // groups of one are free
    return;
  }
  EXPECT_EQ(trace().count(), before + 1100);
  const Trace::Entry& last = trace().entry(trace().count() - 1);
  EXPECT_STREQ(last.group.data(), "everyone");
  EXPECT_EQ(last.sequence, everyone().collectives());
  EXPECT_EQ(last.elements, 12);
  EXPECT_GE(last.end_seconds, 0) << "it is in flight";
  EXPECT_THROW(trace().entry(before), Error);
  EXPECT_NE(trace().last(8).find("fp32[12] on axis 'everyone'"), std::string::npos);
}

TEST(Trace, ListsTheOldestInFlight) {
  Trace trace;
  std::int64_t ids[3] = {};
  for (int i = 0; i < 3; ++i)
    ids[i] = trace.begin("data", Collective::all_reduce, i + 1, DType::f32, 7);
  trace.end(ids[1]);
  const std::string all = trace.in_flight(8), oldest = trace.in_flight(1);
  EXPECT_NE(all.find("#1"), std::string::npos);
  EXPECT_EQ(all.find("#2"), std::string::npos);
  EXPECT_NE(all.find("#3"), std::string::npos);
  EXPECT_NE(oldest.find("#1"), std::string::npos);
  EXPECT_EQ(oldest.find("#3"), std::string::npos);
}

}  // namespace
}  // namespace trireme::comm
