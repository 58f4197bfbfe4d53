// World: its small collectives, agreement on errors, signals.
// SPDX-License-Identifier: Apache-2.0
#include "comm/world.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "comm/one_time.hpp"
#include "comm/stop_signals.hpp"
#include "support/device.hpp"
#include "support/world.hpp"

namespace trireme::comm {
namespace {

using test::world;

TEST(World, SmallCollectives) {
  const int ranks = world().size(), rank = world().rank();
  for (int root = 0; root < ranks; ++root) {
    EXPECT_EQ(world().broadcast(rank == root ? "from the root" : "mine", root),
              "from the root");
    EXPECT_EQ(world().broadcast(rank == root ? "" : "mine", root), "");
    const auto values = world().gather(10.0 + rank, root);
    ASSERT_EQ(values.size(), rank == root ? static_cast<std::size_t>(ranks) : 0u);
    for (std::size_t i = 0; i < values.size(); ++i)
      EXPECT_EQ(values[i], 10.0 + static_cast<double>(i));
  }
  EXPECT_EQ(world().max(rank == ranks - 1 ? -1.5 : -2.5), -1.5);
  EXPECT_EQ(world().sum(rank + 1.0), ranks * (ranks + 1) / 2.0);
  EXPECT_GE(world().ranks_on_node(), 1);
  EXPECT_LT(world().rank_on_node(), world().ranks_on_node());
  EXPECT_FALSE(world().host().empty());
}

template <class F>
void expect_agreed(const F& work, Status status, const std::string& message) {
  try {
    world().agree(work);
    FAIL() << "no error";
  } catch (const Agreed& error) {
    EXPECT_EQ(error.status(), status);
    EXPECT_EQ(error.what(), message);
  }
}

TEST(Agree, ThrowsTheLowestRanksErrorOnAll) {
  const int rank = world().rank(), last = world().size() - 1;
  world().agree([] {});
  expect_agreed([] { fail(Status::bad_content, "line {} is wrong", 3); },
                Status::bad_content, "line 3 is wrong");
  expect_agreed(
      [&] {
        if (rank == last) fail(Status::missing_input, "no such file");
      },
      Status::missing_input,
      last == 0 ? "no such file" : "rank " + std::to_string(last) + ": no such file");
  expect_agreed([&] { fail(Status::io, "file {} is short", rank); }, Status::io,
                last == 0 ? "file 0 is short" : "rank 0: file 0 is short");
  world().agree([] {});  // the world goes on
}

TEST(Agree, NestedAgreementIsToldOnce) {
  const int last = world().size() - 1;
  expect_agreed(
      [&] {
        world().agree([&] {
          if (world().rank() == last) fail(Status::io, "disk full");
        });
      },
      Status::io,
      last == 0 ? "disk full" : "rank " + std::to_string(last) + ": disk full");
}

TEST(Guarded, ReturnsTheStatusOfAnAgreedError) {
  testing::internal::CaptureStderr();
  const int status = guarded(world(), [&]() -> int {
    world().agree([] { fail(Status::resources, "too few ranks"); });
    return 0;
  });
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_EQ(status, 78);
  EXPECT_EQ(text, world().rank() == 0 ? "trireme: error: too few ranks\n" : "");
  EXPECT_EQ(guarded(world(), [] { return 75; }), 75);
}

// A thread takes signals: what it has taken is seen soon.
template <class Condition>
bool soon(const Condition& condition) {
  for (int i = 0; i < 10000; ++i) {
    if (condition()) return true;
    ::usleep(1000);
  }
  return false;
}

// Every thread of this process, MPI's and OpenMP's included.
std::vector<std::string> thread_states() {
  std::vector<std::string> states;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream file(task.path() / "status");
    states.emplace_back(std::istreambuf_iterator<char>(file),
                        std::istreambuf_iterator<char>());
  }
  return states;
}

bool blocks(const std::string& state, int signal) {
  const std::string key = "SigBlk:\t";
  const auto mask =
      std::stoull(state.substr(state.find(key) + key.size(), 16), nullptr, 16);
  return (mask >> (signal - 1) & 1) != 0;
}

// Of the requests, the thread that waits for them alone seems not to block them.
TEST(Signals, AreBlockedInEveryThread) {
  const auto states = thread_states();
  for (const std::string& state : states)
    for (const int signal : {SIGCHLD, SIGALRM, SIGPROF, SIGVTALRM, SIGIO})
      EXPECT_TRUE(blocks(state, signal)) << signal << " in " << state;
  for (const int signal : {SIGUSR1, SIGUSR2, SIGTERM, SIGINT, SIGHUP, SIGXCPU})
    EXPECT_LE(std::count_if(states.begin(), states.end(),
                            [&](const auto& state) { return !blocks(state, signal); }),
              1)
        << signal;
}

TEST(Signals, LeaveFaultsAndJobControlAlone) {
  for (const std::string& state : thread_states())
    for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTSTP, SIGQUIT})
      EXPECT_FALSE(blocks(state, signal)) << signal << " in " << state;
}

TEST(Signals, FatalOnesRunOnAStackOfTheirOwn) {
  stack_t stack{};
  ASSERT_EQ(::sigaltstack(nullptr, &stack), 0);
  EXPECT_EQ(stack.ss_flags & SS_DISABLE, 0);
  std::vector<int> ours = {SIGUSR1, SIGTERM};
  // A sanitizer's build leaves these to the sanitizer and to MPI.
  if (!test::is_watched())
    ours.insert(ours.end(), {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT});
  for (const int signal : ours) {
    struct sigaction action {};
    ASSERT_EQ(::sigaction(signal, nullptr, &action), 0);
    EXPECT_NE(action.sa_flags & SA_ONSTACK, 0) << signal;
  }
}

TEST(Signals, AskForAnEnd) {
  EXPECT_EQ(take_end_warnings(), 0);
  ::kill(::getpid(), SIGUSR1);
  EXPECT_TRUE(soon([] { return take_end_warnings() > 0; }));
  EXPECT_FALSE(stop_requested());
  ::kill(::getpid(), SIGTERM);
  EXPECT_TRUE(soon(stop_requested));
}

// A thousand at once ask for few checkpoints, and the last of them for one.
TEST(Signals, AskForASave) {
  EXPECT_FALSE(take_save_request());
  for (int i = 0; i < 1000; ++i) ::kill(::getpid(), SIGUSR2);
  EXPECT_TRUE(soon([] { return take_save_request(); }));
}

TEST(Libraries, NamesMpi) {
  const auto versions = library_versions();
  ASSERT_EQ(versions.size(), 1u);
  EXPECT_NE(versions[0].first.find("MPI"), std::string::npos);
  EXPECT_FALSE(versions[0].second.empty());
}

TEST(World, OneRankWorksAndTheOthersWait) {
  int made = 0;
  first_rank_then_others(world(), 0, [&] { ++made; });
  EXPECT_EQ(world().sum(made), 1);
  EXPECT_EQ(made, world().rank() == 0 ? 1 : 0);
  try {
    first_rank_then_others(world(), 0, [] { fail(Status::io, "disk of {} full", 3); });
    FAIL() << "no error on rank " << world().rank();
  } catch (const Agreed& error) {
    EXPECT_EQ(error.status(), Status::io);
    EXPECT_NE(std::string(error.what()).find("disk of 3 full"), std::string::npos);
  }
}

}  // namespace
}  // namespace trireme::comm
