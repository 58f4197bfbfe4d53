// Records of passed self-tests: where they lie, and what prevents them.
// SPDX-License-Identifier: Apache-2.0
#include "selftest/pass_record.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/format.hpp"
#include "base/version.hpp"

namespace trireme::selftest {
namespace {

namespace fs = std::filesystem;

// A cache of the test's own.
class PassRecord : public testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::temp_directory_path() / format("trireme-selftest-{}", ::getpid());
    fs::create_directories(root_);
    ::setenv("XDG_CACHE_HOME", root_.c_str(), 1);
    ::setenv("HOME", (root_ / "home").c_str(), 1);
  }
  void TearDown() override { fs::remove_all(root_); }

  fs::path root_;
  CudaDevice gpu_ = [] {
    CudaDevice gpu;
    gpu.name = "NVIDIA X100 80GB/HBM3";
    gpu.compute_major = 9;
    return gpu;
  }();
};

TEST_F(PassRecord, IsOfTheBuildAndTheDevice) {
  EXPECT_FALSE(has_passed(gpu_));
  EXPECT_EQ(record_pass(record_name(gpu_)), "");
  EXPECT_TRUE(has_passed(gpu_));
  CudaDevice other = gpu_;
  other.compute_minor = 1;
  EXPECT_FALSE(has_passed(other));
  other = gpu_;
  other.name = "NVIDIA X200";
  EXPECT_FALSE(has_passed(other));
  const std::string name = record_name(gpu_);
  EXPECT_TRUE(name.starts_with(build_info().version)) << name;
  EXPECT_EQ(name.find('/'), std::string::npos) << name;
  EXPECT_TRUE(fs::is_regular_file(root_ / "trireme/selftest" / name));
  EXPECT_EQ(record_pass(name), "") << "a second pass";
}

TEST_F(PassRecord, LiesInTheHomeWithoutACache) {
  for (const char* cache : {"", "relative/path"}) {
    ::setenv("XDG_CACHE_HOME", cache, 1);
    EXPECT_EQ(record_folder(), (root_ / "home/.cache/trireme/selftest").string());
  }
  ::unsetenv("XDG_CACHE_HOME");
  ::unsetenv("HOME");
  EXPECT_EQ(record_folder(), "");
  EXPECT_NE(record_pass("x"), "");
  EXPECT_FALSE(has_passed(gpu_));
}

TEST_F(PassRecord, AFolderThatCannotBeMadeIsAReason) {
  std::ofstream(root_ / "trireme") << "a file";
  EXPECT_NE(record_pass(record_name(gpu_)), "");
  EXPECT_FALSE(has_passed(gpu_));
}

// What a link leads to is neither written nor believed.
TEST_F(PassRecord, FollowsNoLink) {
  const fs::path folder = root_ / "trireme/selftest", target = root_ / "target";
  fs::create_directories(folder);
  std::ofstream(target) << "mine";
  fs::create_symlink(target, folder / record_name(gpu_));
  EXPECT_FALSE(has_passed(gpu_));
  EXPECT_NE(record_pass(record_name(gpu_)), "");
  std::string kept;
  std::getline(std::ifstream(target), kept);
  EXPECT_EQ(kept, "mine");
}

}  // namespace
}  // namespace trireme::selftest
