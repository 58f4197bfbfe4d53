// ScratchFile: its bytes, its room, and what it says when the disk fails.
// SPDX-License-Identifier: Apache-2.0
#include "base/scratch_file.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/node_folder.hpp"

namespace trireme {
namespace {

namespace fs = std::filesystem;
constexpr std::int64_t block = ScratchFile::block;

class ScratchFileTest : public testing::Test {
 protected:
  ScratchFileTest() {
    std::string name = fs::temp_directory_path() / "trireme-scratch-XXXXXX";
    folder_ = ::mkdtemp(name.data());
    memory_.reset(static_cast<std::byte*>(std::aligned_alloc(block, 8 * block)));
  }
  ~ScratchFileTest() override { fs::remove_all(folder_); }

  ScratchFile make(std::int64_t blocks, bool direct = true) const {
    return {{folder_, "state-7", "the state of rank 7", "use another disk", direct},
            blocks * block};
  }
  // Memory at a multiple of the block, with bytes that tell where they are.
  std::span<std::byte> pattern(std::int64_t blocks, unsigned salt) const {
    for (std::int64_t i = 0; i < blocks * block; ++i)
      memory_[static_cast<std::size_t>(i)] = value(i, salt);
    return {memory_.get(), static_cast<std::size_t>(blocks * block)};
  }
  static std::byte value(std::int64_t i, unsigned salt) {
    return static_cast<std::byte>(static_cast<std::uint64_t>(i * 7 + i / block) + salt);
  }
  // What a call throws, with its status in front.
  template <class Call>
  static std::string error_of(const Call& call) {
    try {
      call();
    } catch (const Error& error) {
      return std::to_string(static_cast<int>(error.status())) + " " + error.what();
    }
    return "nothing";
  }
  // A call with a limit on the size of files.
  template <class Call>
  static std::string error_with_limit(std::int64_t bytes, const Call& call) {
    rlimit before{};
    ::getrlimit(RLIMIT_FSIZE, &before);
    const auto handler = ::signal(SIGXFSZ, SIG_IGN);
    const rlimit small{static_cast<rlim_t>(bytes), before.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &small);
    const std::string error = error_of(call);
    ::setrlimit(RLIMIT_FSIZE, &before);
    ::signal(SIGXFSZ, handler);
    return error;
  }

  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::string folder_;
  std::unique_ptr<std::byte[], Free> memory_;
};

TEST_F(ScratchFileTest, KeepsWhatIsWrittenAndHasNoName) {
  for (const bool direct : {true, false}) {
    SCOPED_TRACE(direct);
    ScratchFile file = make(6, direct);
    EXPECT_TRUE(fs::is_empty(folder_));
    EXPECT_EQ(file.path(), folder_ + "/state-7");
    if (!direct) {
      EXPECT_FALSE(file.is_direct());
    }
    file.write(2 * block, pattern(3, 5));
    // Blocks that nobody wrote are zeros.
    std::vector<std::byte> some(static_cast<std::size_t>(2 * block));
    file.read_any(block + 100, some);
    for (std::int64_t i = 0; i < 2 * block; ++i) {
      const std::int64_t at = i + 100 - block;
      ASSERT_EQ(some[static_cast<std::size_t>(i)], at < 0 ? std::byte{} : value(at, 5))
          << i;
    }
    pattern(2, 77);
    file.read(3 * block, {memory_.get(), static_cast<std::size_t>(2 * block)});
    for (std::int64_t i = 0; i < 2 * block; ++i)
      ASSERT_EQ(memory_[static_cast<std::size_t>(i)], value(i + block, 5)) << i;
  }
}

// Memory and file are the same bytes, whichever was written.
TEST_F(ScratchFileTest, IsMemoryToo) {
  for (const bool direct : {true, false}) {
    SCOPED_TRACE(direct);
    ScratchFile file = make(4, direct);
    file.write(0, pattern(4, 1));
    std::byte* const memory = file.map();
    EXPECT_EQ(memory[block + 3], value(block + 3, 1));
    memory[block + 3] = std::byte{200};
    file.flush_mapping();
    file.read(block, {memory_.get(), static_cast<std::size_t>(block)});
    EXPECT_EQ(memory_[3], std::byte{200});
    EXPECT_EQ(memory_[4], value(block + 4, 1));
    file.write(0, pattern(4, 9));
    EXPECT_EQ(memory[block + 3], value(block + 3, 9));
    ScratchFile moved = std::move(file);
    EXPECT_EQ(moved.map(), memory);
  }
}

TEST_F(ScratchFileTest, NoRoomIsSaidBeforeAnythingIsWritten) {
  const std::int64_t blocks = std::int64_t{1} << 48;
  const std::string error = error_of([&] { make(blocks); });
  EXPECT_EQ(error.find("78 " + folder_ + ": the state of rank 7 needs "), 0u) << error;
  EXPECT_NE(error.find(format("({} bytes), and ", blocks * block)), error.npos) << error;
  EXPECT_NE(error.find(" bytes) are free: use another disk"), error.npos) << error;
  EXPECT_TRUE(fs::is_empty(folder_));
  // A limit of the process is room that cannot be taken.
  const std::string limit = error_with_limit(2 * block, [&] { make(3); });
  EXPECT_EQ(limit.find("78 " + folder_ + ": the state of rank 7 needs "), 0u) << limit;
  EXPECT_NE(limit.find("cannot be taken: File too large"), limit.npos) << limit;
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(ScratchFileTest, NoFolder) {
  EXPECT_EQ(error_of([&] {
              ScratchFile({folder_ + "/none", "a", "it", "", true}, block);
            }).substr(0, 3),
            "73 ");
}

TEST_F(ScratchFileTest, ErrorsNameTheFileAndTheByte) {
  const ScratchFile file = make(4);
  const std::string write =
      error_with_limit(3 * block, [&] { file.write(2 * block, pattern(2, 0)); });
  EXPECT_EQ(write.find(format("74 {}/state-7: at byte {}: cannot be written: File too "
                              "large",
                              folder_, 3 * block)),
            0u)
      << write;
  ASSERT_EQ(::ftruncate(file.descriptor(), 2 * block), 0);
  const std::string read = error_of([&] { file.read(block, pattern(2, 0)); });
  EXPECT_EQ(read, format("74 {}/state-7: ends at byte {} of {}: something cut it short",
                         folder_, 2 * block, 4 * block));
}

TEST(NodeFolder, AVariableStandsForItsValue) {
  ::setenv("TRIREME_TEST_DISK", "/fast", 1);
  EXPECT_EQ(node_folder("$TRIREME_TEST_DISK/a", "x.y", "/tmp"), "/fast/a");
  EXPECT_EQ(node_folder("$TRIREME_TEST_DISK", "x.y", "/tmp"), "/fast");
  EXPECT_EQ(node_folder("/other", "x.y", "/tmp"), "/other");
  ::unsetenv("TRIREME_TEST_DISK");
  try {
    node_folder("$TRIREME_TEST_DISK/a", "x.y", "/tmp");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::cannot_create);
    EXPECT_EQ(
        std::string(error.what()),
        "x.y = \"$TRIREME_TEST_DISK/a\": the variable TRIREME_TEST_DISK is not set, "
        "and has to name a folder from '/' on: set it on every node, or write "
        "\"/tmp\"");
  }
}

}  // namespace
}  // namespace trireme
