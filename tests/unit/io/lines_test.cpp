// LineReader: lines that are whole, above a limit, and without an end.
// SPDX-License-Identifier: Apache-2.0
#include "io/lines.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/format.hpp"

namespace trireme::io {
namespace {

class Lines : public testing::Test {
 protected:
  void SetUp() override {
    path_ =
        std::filesystem::temp_directory_path() / format("trireme_lines_{}", ::getpid());
    std::filesystem::create_directories(path_);
  }
  void TearDown() override { std::filesystem::remove_all(path_); }

  // The lines of a file that holds `text`, and which of them are whole.
  std::vector<std::pair<std::string, bool>> lines_of(const std::string& text,
                                                     LineLimits limits) const {
    std::ofstream(path_ / "file") << text;
    LineReader reader(Directory(path_.string()), "file", limits);
    std::vector<std::pair<std::string, bool>> lines;
    while (auto line = reader.next()) lines.emplace_back(*line, reader.whole());
    return lines;
  }

  std::filesystem::path path_;
};

using Expected = std::vector<std::pair<std::string, bool>>;

TEST_F(Lines, PassOverWhatIsAboveALimit) {
  EXPECT_EQ(lines_of("abcd\nabcde\n\nab", {.line = 4}),
            (Expected{{"abcd", true}, {"abcd", false}, {"", true}, {"ab", false}}));
}

TEST_F(Lines, WithoutALimitMayHaveAnyLength) {
  const std::string longest((std::size_t{16} << 20) + 5, 'a');
  EXPECT_TRUE(lines_of(longest + "\nb\nc", no_line_limits) ==
              (Expected{{longest, true}, {"b", true}, {"c", false}}));
  const Expected usual = lines_of(longest + "\nb\n", {});
  EXPECT_EQ(usual[0].first.size(), LineReader::most_line_bytes);
  EXPECT_FALSE(usual[0].second);
}

TEST_F(Lines, OfALongerFileAreRefused) {
  EXPECT_EQ(lines_of("ab\n", {.file = 3}), (Expected{{"ab", true}}));
  try {
    lines_of("abc\n", {.file = 3});
    ADD_FAILURE() << "was read";
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::bad_content);
  }
  std::filesystem::resize_file(path_ / "file", std::uintmax_t{5} << 30);  // of zeros
  EXPECT_THROW(LineReader((path_ / "file").string()), Error);
  EXPECT_NO_THROW(LineReader((path_ / "file").string(), any_file));
}

}  // namespace
}  // namespace trireme::io
