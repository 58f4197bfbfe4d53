// Why a run saves or stops: the clock, files, Slurm's variables, and restarts in vain.
// SPDX-License-Identifier: Apache-2.0
#include "launch/stop_requests.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "base/error.hpp"
#include "launch/batch_job.hpp"
#include "launch/restarts.hpp"

namespace trireme::launch {
namespace {

namespace fs = std::filesystem;

class Interrupted : public testing::Test {
 protected:
  Interrupted() {
    directory_ = fs::temp_directory_path() / "trireme-stop-requests-XXXXXX";
    std::string name = directory_.string();
    directory_ = ::mkdtemp(name.data());
  }
  ~Interrupted() override { fs::remove_all(directory_); }

  void touch(const char* name) const { std::ofstream(directory_ / name) << "\n"; }
  bool has(const char* name) const { return fs::exists(directory_ / name); }
  StopRequest request(double limit, double left, const TimeNeeded& needed,
                      bool leads = true) const {
    BatchJob job;
    if (left > 0) job.seconds_left = left;
    return StopRequests(directory_.string(), limit, job, leads).request(needed);
  }

  fs::path directory_;
};

TEST_F(Interrupted, NothingIsWantedByItself) {
  EXPECT_EQ(request(0, 0, {1e6, 1e6, 1e6}), StopRequest::none);
  EXPECT_FALSE(stops(StopRequest::none));
  EXPECT_FALSE(stops(StopRequest::save));
  EXPECT_TRUE(stops(StopRequest::stop_file));
  EXPECT_TRUE(stops(StopRequest::signal));
}

// 1.5 saves, two steps and a validation must fit.
TEST_F(Interrupted, ByTheTimeLimit) {
  constexpr double hour = 3600;
  EXPECT_EQ(request(hour, 0, {1, 1, 0}), StopRequest::none);
  EXPECT_EQ(request(hour, 0, {0.51 * hour, 0, 0}), StopRequest::time_limit);
  EXPECT_EQ(request(hour, 0, {0.49 * hour, 0, 0}), StopRequest::none);
  EXPECT_EQ(request(hour, 0, {0, 0.68 * hour, 0}), StopRequest::time_limit);
  EXPECT_EQ(request(hour, 0, {0, 0.65 * hour, 0}), StopRequest::none);
  EXPECT_EQ(request(hour, 0, {0, 0, 1.01 * hour}), StopRequest::time_limit);
  EXPECT_EQ(request(hour, 0, {hour, hour, hour}, false),
            StopRequest::none);  // rank 0's affair
}

// A tenth of what is left is kept free, a minute at most.
TEST_F(Interrupted, ByTheEndOfTheJob) {
  EXPECT_EQ(request(0, 100, {0, 0, 95}), StopRequest::job_end);
  EXPECT_EQ(request(0, 100, {0, 0, 85}), StopRequest::none);
  EXPECT_EQ(request(0, 36000, {0, 0, 36000 - 50}), StopRequest::job_end);
  EXPECT_EQ(request(0, 36000, {0, 0, 36000 - 70}), StopRequest::none);
  EXPECT_EQ(request(1, 36000, {0, 0, 5}), StopRequest::time_limit);
  EXPECT_EQ(request(0, 1e11, {1, 1, 1}), StopRequest::none);  // no end at all
}

TEST_F(Interrupted, ByFilesThatAreRemovedAfterwards) {
  StopRequests some(directory_.string(), 0, {}, true);
  touch("save");
  EXPECT_EQ(some.request({}), StopRequest::save);
  EXPECT_EQ(request(0, 0, {}, false), StopRequest::none);
  EXPECT_TRUE(has("save"));
  some.fulfilled(StopRequest::none);
  EXPECT_TRUE(has("save"));
  some.fulfilled(StopRequest::save);
  EXPECT_FALSE(has("save"));
  touch("save");
  touch("stop");
  EXPECT_EQ(some.request({}), StopRequest::stop_file);
  some.fulfilled(StopRequest::save);
  EXPECT_TRUE(has("stop"));
  some.fulfilled(StopRequest::signal);
  EXPECT_FALSE(has("stop"));
  EXPECT_EQ(some.request({}), StopRequest::none);
}

// What the leading rank makes of a SIGUSR1 that another rank has told it of.
TEST_F(Interrupted, ByAWarningUnlessTheEndOfTheJobIsKnown) {
  int asked = 0;
  double left_now = 280;
  const auto run = [&](std::optional<double> left) {
    BatchJob job;
    job.seconds_left = left;
    return StopRequests(directory_.string(), 0, job, true,
                        [&]() -> std::optional<double> {
                          ++asked;
                          return left_now;
                        });
  };
  EXPECT_EQ(run({}).request({}, StopRequest::end_warning), StopRequest::signal);
  EXPECT_EQ(run(3600).request({}, StopRequest::end_warning), StopRequest::signal);
  EXPECT_EQ(asked, 0);
  StopRequests near = run(300);
  EXPECT_EQ(near.request({}, StopRequest::end_warning), StopRequest::none);
  EXPECT_EQ(near.request({}, StopRequest::end_warning),
            StopRequest::none);  // of another rank, the same
  EXPECT_EQ(asked, 1);
  EXPECT_EQ(near.request({1, 180, 0}),
            StopRequest::job_end);  // 272 s are needed, 252 are left
  left_now = 36000;                 // the limit was raised
  StopRequests longer = run(300);
  EXPECT_EQ(longer.request({1, 180, 0}), StopRequest::job_end);
  EXPECT_EQ(longer.request({1, 180, 0}, StopRequest::end_warning), StopRequest::none);
  EXPECT_EQ(run(300).request({}, StopRequest::none), StopRequest::none);
  EXPECT_FALSE(saves(StopRequest::end_warning));
  EXPECT_FALSE(stops(StopRequest::end_warning));
}

// With steps of a minute ranks tell of the same warning up to two steps later. With steps
// of a second many of them may pass meanwhile.
TEST_F(Interrupted, AWarningIsTheSameOneAStepLaterHoweverLongStepsAre) {
  for (const int seconds : {60, 1}) {
    auto now = std::chrono::steady_clock::time_point(std::chrono::hours(1));
    BatchJob job;
    job.seconds_left = 350;
    StopRequests near(
        directory_.string(), 0, job, true, [] { return std::optional<double>(350); },
        [&] { return now; });
    const auto after_a_step = [&](StopRequest before) {
      now += std::chrono::seconds(seconds);
      return near.request({}, before);
    };
    EXPECT_EQ(after_a_step(StopRequest::end_warning), StopRequest::none);
    EXPECT_EQ(after_a_step(StopRequest::end_warning), StopRequest::none) << seconds;
    EXPECT_EQ(after_a_step(StopRequest::end_warning), StopRequest::none) << seconds;
    EXPECT_EQ(after_a_step(StopRequest::end_warning),
              seconds > 1 ? StopRequest::signal : StopRequest::none);
    now += std::chrono::seconds(10);
    EXPECT_EQ(after_a_step(StopRequest::none), StopRequest::none);
    EXPECT_EQ(after_a_step(StopRequest::end_warning), StopRequest::signal)
        << "another one";
  }
}

TEST_F(Interrupted, SavesArePredictedFromBytes) {
  EXPECT_EQ(predicted_save_seconds(0, 4), 0);
  EXPECT_GT(predicted_save_seconds(1e12, 4), 60);
  EXPECT_EQ(predicted_save_seconds(1e12, 8), predicted_save_seconds(1e12, 4) / 2);
}

TEST(BatchJob, ReadsSqueuesTimes) {
  EXPECT_EQ(parse_time_left("59"), 59);
  EXPECT_EQ(parse_time_left("2:03"), 123);
  EXPECT_EQ(parse_time_left("1:02:03"), 3723);
  EXPECT_EQ(parse_time_left("2-01:02:03"), 2 * 86400 + 3723);
  for (const char* text : {"", "UNLIMITED", "INVALID", "1:", ":1", "1-2:3", "-1:2:3",
                           "1:2:3:4", "1.5", "1 2"})
    EXPECT_FALSE(parse_time_left(text)) << text;
}

TEST(BatchJob, ReadsSlurmsVariables) {
  ::unsetenv("SLURM_JOB_END_TIME");
  ::unsetenv("SLURM_JOB_ID");
  ::unsetenv("SLURM_RESTART_COUNT");
  EXPECT_TRUE(batch_job().id.empty());
  EXPECT_FALSE(batch_job().seconds_left);
  ::setenv("SLURM_JOB_ID", "17", 1);
  ::setenv("SLURM_RESTART_COUNT", "3", 1);
  ::setenv("SLURM_JOB_END_TIME", "99999999999", 1);
  const BatchJob job = batch_job();
  EXPECT_EQ(job.id, "17");
  EXPECT_EQ(job.restarts, 3);
  ASSERT_TRUE(job.seconds_left);
  EXPECT_GT(*job.seconds_left, 1e10);
  for (const char* count : {"99999999999", "-3", "1e3", ""}) {
    ::setenv("SLURM_RESTART_COUNT", count, 1);
    EXPECT_EQ(batch_job().restarts, 0) << count;
  }
  ::setenv("SLURM_JOB_END_TIME", "soon; rm -r /", 1);
  ::setenv("SLURM_JOB_ID", "17; echo 5", 1);
  EXPECT_FALSE(batch_job().seconds_left);
  ::unsetenv("SLURM_JOB_END_TIME");
  ::unsetenv("SLURM_JOB_ID");
  ::unsetenv("SLURM_RESTART_COUNT");
}

// Starts by the script in one allocation count as those by the batch system do.
TEST(Restarts, ThreeInVainInOneAllocationAreEnough) {
  std::vector<io::RunStart> starts;
  const auto start = [&](int restart, int attempt, std::int64_t step) {
    io::RunStart now;
    now.step = step;
    now.process.job = "1";
    now.restart = restart;
    now.attempt = attempt;
    starts.push_back(now);
    require_progress(starts);
  };
  start(0, 0, 5);
  start(0, 1, 10);
  start(0, 2, 10);
  start(1, 0, 10);  // queued again meanwhile
  EXPECT_THROW(start(1, 1, 10), Error);
  start(1, 2, 12);
}

TEST(Restarts, TheJobSaysHowManyAreEnough) {
  std::vector<io::RunStart> starts;
  const auto start = [&](int restart, std::int64_t step) {
    io::RunStart now;
    now.step = step;
    now.process.job = "1";
    now.restart = restart;
    starts.push_back(now);
    require_progress(starts);
  };
  ::setenv("TRIREME_MOST_STARTS", "5", 1);
  for (int i = 0; i < 5; ++i) start(i, 7);
  for (int i = 5; i < 10; ++i) start(i, 8);  // a newer checkpoint renews them
  EXPECT_THROW(start(10, 8), Error);
  for (const char* const wrong : {"0", "", "many"}) {
    ::setenv("TRIREME_MOST_STARTS", wrong, 1);
    try {
      start(11, 9);
      ADD_FAILURE() << wrong;
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), Status::command_line);
    }
  }
  ::unsetenv("TRIREME_MOST_STARTS");
}

TEST(Restarts, ThreeInVainAreEnough) {
  std::vector<io::RunStart> starts;
  const auto start = [&](const std::string& job, int restart, std::int64_t step) {
    io::RunStart now;
    now.step = step;
    now.process.job = job;
    now.restart = restart;
    starts.push_back(now);
    require_progress(starts);
  };
  for (int i = 0; i < 8; ++i) start("", i, 5);   // nobody's batch job
  for (int i = 0; i < 8; ++i) start("1", 0, 5);  // several runs in one start of a job
  start("1", 1, 10);
  start("1", 2, 10);
  start("1", 3, 10);
  start("1", 4, 11);  // it came further
  start("1", 5, 11);
  start("1", 6, 11);
  try {
    start("1", 7, 11);
    FAIL() << "a fourth start from step 11";
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::resources);
    EXPECT_NE(std::string(error.what()).find("3 times from step 11"), std::string::npos)
        << error.what();
  }
  EXPECT_THROW(start("1", 8, 11), Error);
  start("2", 0, 11);  // submitted anew
}

}  // namespace
}  // namespace trireme::launch
