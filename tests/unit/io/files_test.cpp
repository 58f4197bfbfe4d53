// Files: whole reads, atomic writes, directories, globs, digests.
// SPDX-License-Identifier: Apache-2.0
#include "io/files.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"

namespace trireme::io {
namespace {

namespace fs = std::filesystem;

class FilesTest : public testing::Test {
 protected:
  FilesTest() {
    std::string name = fs::temp_directory_path() / "trireme-files-XXXXXX";
    folder_ = ::mkdtemp(name.data());
  }
  ~FilesTest() override { fs::remove_all(folder_); }
  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  std::string put(const std::string& name, const std::string& text) const {
    std::ofstream(path(name), std::ios::binary) << text;
    return path(name);
  }

  std::string folder_;
};

// Status and message of what `work` throws.
template <class F>
std::pair<Status, std::string> outcome(const F& work) {
  try {
    work();
  } catch (const Error& error) {
    return {error.status(), error.what()};
  }
  return {Status::done, ""};
}

TEST_F(FilesTest, ReadsWholeFilesUpToALimit) {
  const std::string text(3000000, 'a');
  EXPECT_EQ(read_text(put("a", text), 3000000), text);
  EXPECT_EQ(read_text(put("empty", ""), 0), "");
  EXPECT_EQ(outcome([&] { read_text(path("a"), 2999999); }).first, Status::bad_content);
  EXPECT_EQ(
      outcome([&] { read_text(path("none"), 1); }),
      std::pair(Status::missing_input, path("none") + ": No such file or directory"));
  EXPECT_EQ(outcome([&] { read_text(folder_, 1); }).first, Status::missing_input);
}

TEST_F(FilesTest, ReplacesFilesAsAWhole) {
  const auto file = put("a", "old");
  write_text_atomically(file, "new");
  EXPECT_EQ(read_text(file, 100), "new");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1);
  EXPECT_EQ(outcome([&] { write_text_atomically(path("none/a"), "x"); }).first,
            Status::cannot_create);
  fs::create_directory(path("folder"));
  EXPECT_EQ(outcome([&] { write_text_atomically(path("folder"), "x"); }).first,
            Status::cannot_create);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 2);
}

TEST_F(FilesTest, OnlyRegularFilesAreReadAndReplaced) {
  fs::create_symlink("/dev/zero", path("zero"));
  ::mkfifo(path("pipe").c_str(), 0666);
  put("a", "old");
  fs::create_symlink("a", path("link"));
  for (const char* const name : {"zero", "pipe"}) {
    const auto read = outcome([&] { read_text(path(name), 100); });
    EXPECT_EQ(read.first, Status::missing_input);
    EXPECT_EQ(read.second.find(path(name) + ": is a "), 0u) << read.second;
    EXPECT_EQ(outcome([&] { file_digest(path(name)); }).first, Status::missing_input);
  }
  EXPECT_EQ(outcome([&] { read_text_or_pipe(path("zero"), 100); }).first,
            Status::missing_input);
  EXPECT_EQ(read_text_or_pipe(path("pipe"), 100), "") << "nobody writes: no wait";
  EXPECT_EQ(read_text(path("link"), 100), "old") << "of a path, links are the user's";
  for (const char* const name : {"zero", "pipe", "link"}) {
    const auto write = outcome([&] { write_text_atomically(path(name), "new"); });
    EXPECT_EQ(write.first, Status::cannot_create);
    EXPECT_EQ(write.second.find(path(name) + ": is a "), 0u) << write.second;
  }
  EXPECT_EQ(outcome([&] { read_text(Directory(folder_), "link", 100); }).first,
            Status::cannot_create);
  EXPECT_EQ(read_text(path("a"), 100), "old");
}

TEST_F(FilesTest, APipeIsReadToItsEndUpToALimit) {
  for (const std::int64_t limit : {3, 2}) {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    ASSERT_EQ(::write(ends[1], "abc", 3), 3);
    ::close(ends[1]);
    const std::string name = "/dev/fd/" + std::to_string(ends[0]);
    const auto read = outcome([&] { EXPECT_EQ(read_text_or_pipe(name, limit), "abc"); });
    EXPECT_EQ(read.first, limit == 3 ? Status::done : Status::bad_content);
    ::close(ends[0]);
  }
}

TEST_F(FilesTest, MakesDirectoriesAndNamesTheFirstThatFails) {
  make_directories(path("a/b/c"));
  EXPECT_TRUE(fs::is_directory(path("a/b/c")));
  make_directories(path("a/b/c/"));
  put("a/file", "");
  const auto [status, message] = outcome([&] { make_directories(path("a/file/x/y")); });
  EXPECT_EQ(status, Status::cannot_create);
  EXPECT_EQ(message, path("a/file") + ": cannot be made, for a file of that name exists");
}

TEST_F(FilesTest, ExpandsGlobsSorted) {
  put("b.txt", "");
  put("a.txt", "");
  put("[x].txt", "");
  fs::create_directory(path("c.txt"));
  EXPECT_EQ(expand(path("?.txt")), (std::vector{path("a.txt"), path("b.txt")}));
  EXPECT_EQ(expand(path("[ab].txt")), (std::vector{path("a.txt"), path("b.txt")}));
  EXPECT_EQ(expand(path("[x].txt")), (std::vector{path("[x].txt")}));
  EXPECT_EQ(outcome([&] { expand(path("*.md")); }).first, Status::missing_input);
  EXPECT_EQ(outcome([&] { expand(path("**/a.txt")); }).first, Status::missing_input);
  EXPECT_EQ(outcome([&] { expand(path("none")); }),
            std::pair(Status::missing_input, path("none") + ": no such file"));
}

// The digests that xxhsum -H128 of xxHash 0.8 prints.
TEST_F(FilesTest, DigestsAreThoseOfXxhsum) {
  EXPECT_EQ(file_digest(put("empty", "")), "99aa06d3014798d86001c324468d497f");
  std::string text;
  for (int i = 0; i < 1 << 21; ++i) text += static_cast<char>(i * 31 % 253);
  const auto digest = file_digest(put("a", text));
  text[1 << 20] = static_cast<char>(text[1 << 20] ^ 1);
  EXPECT_NE(file_digest(put("a", text)), digest);
}

}  // namespace
}  // namespace trireme::io
