// How long collectives took, as the trace adds it up, and what follows from that.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "comm/trace.hpp"
#include "comm/traffic_meter.hpp"

namespace trireme::comm {
namespace {

CallTimes of(const Trace& trace, std::string_view group, Collective kind) {
  return trace.times_of(group)[static_cast<std::size_t>(kind)];
}

TEST(CallTimes, AreThoseFromStartToEnd) {
  Trace trace;
  const int data = trace.add_group("data", RankList::line(0, 2));
  const int tensor = trace.add_group("tensor", RankList::line(0, 2));
  const auto id = trace.begin("data", Collective::all_reduce, 1, DType::f32, 100, data);
  EXPECT_EQ(of(trace, "data", Collective::all_reduce).ended, 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  trace.end(id);
  trace.end(trace.begin("data", Collective::all_reduce, 2, DType::f64, 5, data));
  trace.end(trace.begin("data", Collective::all_gather, 3, DType::f64, 5, data));
  trace.end(trace.begin("none", Collective::all_gather, 1, DType::f64, 5));
  const CallTimes times = of(trace, "data", Collective::all_reduce);
  EXPECT_EQ(times.ended, 2);
  EXPECT_EQ(times.bytes, 440);
  EXPECT_GE(times.seconds, 2e-3);
  EXPECT_EQ(times.on_device, 0);
  EXPECT_EQ(of(trace, "tensor", Collective::all_reduce).ended, 0);
  // Groups of one name count together, as one axis of a program.
  const int other = trace.add_group("tensor", RankList::line(2, 2));
  for (const int group : {tensor, other})
    trace.end(trace.begin("tensor", Collective::send, 1, DType::f32, 1, group));
  EXPECT_EQ(of(trace, "tensor", Collective::send).ended, 2);
}

TEST(CallTimes, OfAGpuAreNotKnown) {
  Trace trace;
  const int data = trace.add_group("data", RankList::line(0, 2));
  const auto id = trace.begin("data", Collective::all_reduce, 1, DType::f32, 100, data);
  trace.carried_by_device(id);
  EXPECT_EQ(of(trace, "data", Collective::all_reduce).on_device, 1);
  trace.end(id);
  EXPECT_EQ(of(trace, "data", Collective::all_reduce).ended, 0);
  // The entry's place in the ring is no longer that of a GPU.
  for (std::int64_t i = 0; i < Trace::capacity; ++i)
    trace.end(trace.begin("data", Collective::all_reduce, i + 2, DType::f32, 1, data));
  EXPECT_EQ(of(trace, "data", Collective::all_reduce).ended, Trace::capacity);
}

TEST(TrafficTimes, AreThoseOfCallsThatEndedUnlessAGpuCarriedSome) {
  const Traffic traffic{2, 750, 0.25};
  const auto all = times_of(traffic, {2, 0.5, 1000, 0}, Collective::all_reduce, 4);
  EXPECT_EQ(all.seconds, 0.5);
  EXPECT_EQ(all.bus_bytes_per_second, 1000 * 1.5 / 0.5);
  EXPECT_EQ(all.exposed_seconds, 0.25);
  const auto some = times_of(traffic, {1, 0.5, 500, 0}, Collective::all_reduce, 4);
  EXPECT_EQ(some.seconds, 0.5);
  EXPECT_EQ(some.bus_bytes_per_second, 500 * 1.5 / 0.5);
  EXPECT_EQ(some.exposed_seconds, 0.25);
  const auto begun = times_of(traffic, {}, Collective::all_reduce, 4);
  EXPECT_FALSE(begun.seconds);
  EXPECT_FALSE(begun.bus_bytes_per_second);
  EXPECT_EQ(begun.exposed_seconds, 0.25);
  const auto none = times_of(traffic, {1, 0.5, 500, 1}, Collective::all_reduce, 4);
  EXPECT_FALSE(none.seconds);
  EXPECT_FALSE(none.bus_bytes_per_second);
  EXPECT_FALSE(none.exposed_seconds);
}

TEST(TrafficTimes, HaveTheFactorsOfNcclTests) {
  EXPECT_EQ(bus_factor(Collective::all_reduce, 4), 1.5);
  for (const auto kind :
       {Collective::all_gather, Collective::reduce_scatter, Collective::all_to_all})
    EXPECT_EQ(bus_factor(kind, 4), 0.75);
  for (const auto kind :
       {Collective::reduce, Collective::broadcast, Collective::send, Collective::receive})
    EXPECT_EQ(bus_factor(kind, 4), 1.0);
}

}  // namespace
}  // namespace trireme::comm
