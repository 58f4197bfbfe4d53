// Numbers as text, errors with their place, the log, and what the build says of itself.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <string>

#include "base/cuda_devices.hpp"
#include "base/error.hpp"
#include "base/format.hpp"
#include "base/log.hpp"
#include "base/version.hpp"

namespace trireme {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan_value = std::numeric_limits<double>::quiet_NaN();

TEST(Format, FillsBracesInOrder) {
  EXPECT_EQ(format("{} of {}", 1, "two"), "1 of two");
  EXPECT_EQ(format("{}{}", 1), "1{}") << "surplus braces stay";
  EXPECT_EQ(format("x", 1, 2), "x") << "surplus arguments are dropped";
  EXPECT_EQ(format("{}", "{}"), "{}") << "an argument is not a format";
  EXPECT_EQ(format(""), "");
}

TEST(Format, FixedAndExact) {
  EXPECT_EQ(fixed(2.0, 3), "2.000");
  EXPECT_EQ(fixed(-0.125, 2), "-0.12");
  EXPECT_EQ(exact(0.1), "0.1");
  EXPECT_EQ(exact(1e300), "1e+300");
  EXPECT_EQ(exact(infinity), "inf");
  EXPECT_EQ(exact(nan_value), "nan");
  for (const double value :
       {1.0 / 3, 5e-324, 1.7976931348623157e308, -0.0, 6.02214076e23}) {
    EXPECT_EQ(std::strtod(exact(value).c_str(), nullptr), value);
  }
}

TEST(Format, SizesTimesAndCountsForPeople) {
  EXPECT_EQ(human_bytes(0), "0 B");
  EXPECT_EQ(human_bytes(1023), "1023 B");
  EXPECT_EQ(human_bytes(1.5 * 1024 * 1024 * 1024), "1.50 GiB");
  EXPECT_EQ(human_seconds(0.85), "850 ms");
  EXPECT_EQ(human_seconds(12.34), "12.3 s");
  EXPECT_EQ(human_seconds(200), "3 min 20 s");
  EXPECT_EQ(human_seconds(7500), "2 h 05 min");
  EXPECT_EQ(human_seconds(3599.6), "1 h 00 min");
  EXPECT_EQ(human_seconds(infinity), "unknown");
  EXPECT_EQ(human_seconds(nan_value), "unknown");
  EXPECT_EQ(human_seconds(-1), "unknown");
  EXPECT_EQ(human_count(950), "950");
  EXPECT_EQ(human_count(12345), "12.3 k");
  EXPECT_EQ(human_count(124e6), "124 M");
  EXPECT_EQ(human_count(1.3e9), "1.30 G");
  EXPECT_EQ(human_count(2.2e19), "22.0 E");  // FLOPs of a step of 405B parameters
}

TEST(Error, CarriesStatusMessageAndTheLineThatRaisedIt) {
  const unsigned line = __LINE__ + 2;
  try {
    require(false, Status::bad_content, "{} is not {}", "a", 3);
    FAIL() << "require returned";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "a is not 3");
    EXPECT_EQ(error.status(), Status::bad_content);
    EXPECT_EQ(error.where().line(), line);
    EXPECT_NE(std::string(error.where().file_name()).find("base_text_test"),
              std::string::npos);
  }
}

TEST(Error, BrokenInvariantsAreInternal) {
  EXPECT_NO_THROW(require(true, "never"));
  EXPECT_NO_THROW(require(true, Status::io, "never"));
  try {
    require(false, "invariant {}", 1);
    FAIL() << "require returned";
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::internal);
    EXPECT_EQ(static_cast<int>(error.status()), 70);
  }
}

TEST(Log, OnlyRankZeroSpeaksAndErrorsAlwaysDo) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  log::info("step {}", 1);
  log::warn("{}", "late");
  log::set_rank(1);
  log::info("step {}", 2);
  log::error("broken");
  log::set_rank(0);
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "step 1\nwarning: late\n");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "broken\n");
}

TEST(Version, SaysWhatTheBuildIs) {
  const BuildInfo& build = build_info();
  EXPECT_EQ(std::count(build.version.begin(), build.version.end(), '.'), 2);
  for (const std::string_view value :
       {build.version, build.git_commit, build.compiler, build.target, build.build_type,
        build.flags, build.options, build.libraries}) {
    EXPECT_FALSE(value.empty());
    EXPECT_EQ(value.find('@'), std::string::npos) << value << " was not filled in";
  }
}

TEST(Cuda, ListsDevicesOrNothing) {
  for (const CudaDevice& device : cuda_devices()) {
    EXPECT_FALSE(device.name.empty());
    EXPECT_GT(device.memory_bytes, 0);
  }
  EXPECT_EQ(count_cuda_devices(), std::ssize(cuda_devices()));
  EXPECT_EQ(outdated_driver(), "");
  EXPECT_FALSE(cuda_version().empty());
}

}  // namespace
}  // namespace trireme
