// What is known of the files of a source: told to other ranks, kept for the next start.
// SPDX-License-Identifier: Apache-2.0
#include "io/file_table.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/error.hpp"
#include "io/digest.hpp"
#include "io/open_files.hpp"
#include "io/token_writer.hpp"

namespace trireme::io {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t files = most_open_files + 6;

class FileTables : public testing::Test {
 protected:
  void SetUp() override {
    directory_ = fs::temp_directory_path() / format("trireme_file_table_{}", ::getpid());
    fs::create_directories(directory_);
  }
  void TearDown() override { fs::remove_all(directory_); }

  std::string path(const std::string& name) const { return (directory_ / name).string(); }
  // Five tokens from `first` on.
  void write(TokenFormat format, const std::string& name, std::uint16_t first,
             const std::string& digest = "digest") const {
    const auto out = make_token_writer(format, path(name), {digest, 100, 12}, 5);
    std::uint16_t ids[] = {first, 11, 12, 20, 21};
    std::int32_t wide[] = {first, 11, 12, 20, 21};
    const bool narrow = token_dtype(format, 100) == DType::u16;
    out->add(narrow ? TensorView(ids, DType::u16, {5})
                    : TensorView(wide, DType::i32, {5}));
    out->close({0, 3, 5});
  }
  struct Kind {
    SourceKind kind;
    std::string pattern;
  };
  // More files than stay open, each with 10 as its first token: names of one, for it is
  // written with care.
  Kind write_some(SourceKind kind) const {
    const auto names = [&](const std::string& first, const std::string& letter,
                           const std::string& end) {
      for (std::size_t i = 1; i < files; ++i)
        fs::create_hard_link(path(first), path(format("{}{}{}", letter, 100 + i, end)));
    };
    switch (kind) {
      case SourceKind::tokens:
        write(TokenFormat::hdf5, "a100.h5", 10);
        names("a100.h5", "a", ".h5");
        return {kind, "a*.h5"};
      case SourceKind::llmc:
        write(TokenFormat::llmc, "b100.bin", 10);
        names("b100.bin", "b", ".bin");
        return {kind, "b*.bin"};
      case SourceKind::megatron:
        write(TokenFormat::megatron, "c100", 10);
        names("c100.bin", "c", ".bin");
        names("c100.idx", "c", ".idx");
        return {kind, "c*"};
      default:
        std::ofstream(path("d100.txt")) << "text";
        names("d100.txt", "d", ".txt");
        return {kind, "d*.txt"};
    }
  }
  static constexpr SourceKind kinds[] = {SourceKind::tokens, SourceKind::llmc,
                                         SourceKind::megatron, SourceKind::bytes};
  std::unique_ptr<SampleSource> open(const Kind& of) const {
    return open_source(
        {.kind = of.kind, .paths = {path(of.pattern)}, .sequence = 4, .vocabulary = 257});
  }
  std::unique_ptr<SampleSource> open(const Kind& of, FileTable& table) const {
    const FileTableInUse in_use(table);
    return open(of);
  }
  static std::vector<std::int32_t> sample(const SampleSource& source, std::int64_t i) {
    std::vector<std::int32_t> tokens(5);
    source.sample(i, tokens);
    return tokens;
  }
  void expect_refused(const SampleSource& source, Status status,
                      const std::string& words) const {
    try {
      sample(source, 0);
      ADD_FAILURE() << "was taken; expected " << words;
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), status);
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
    }
  }

  fs::path directory_;
};

// Another rank opens a source without a look at its files, and has the same samples.
TEST_F(FileTables, WhoIsToldOpensNothing) {
  for (const SourceKind of : kinds) {
    const Kind kind = write_some(of);
    FileTable table;
    const auto first = open(kind, table);
    const std::string text = table.text();
    const fs::path away = directory_.string() + ".away";
    fs::rename(directory_, away);  // nothing is there to be looked at
    const std::int64_t before = open_data_files().opened();
    FileTable told = FileTable::told(text);
    const auto other = open(kind, told);
    EXPECT_EQ(open_data_files().opened(), before);
    fs::rename(away, directory_);
    EXPECT_EQ(other->describe(), first->describe());
    EXPECT_EQ(other->end_token(), first->end_token());
    for (const std::int64_t i :
         {std::int64_t{0}, first->samples() / 2, first->samples() - 1})
      EXPECT_EQ(sample(*other, i), sample(*first, i)) << other->describe();
  }
}

// A later start looks into the file that changed, and into no other.
TEST_F(FileTables, WhatIsKeptHoldsWhileAFileIsAsItWas) {
  for (const SourceKind of : kinds) {
    const Kind kind = write_some(of);
    FileTable table;
    open(kind, table);
    keep_files(path("index"), table);
    std::string problem;
    FileTable kept = kept_files(path("index"), problem);
    EXPECT_EQ(problem, "");
    const std::int64_t before = open_data_files().opened();
    open(kind, kept);
    // Bytes are whatever a file has; of others the first and the last sample are tried.
    EXPECT_LE(open_data_files().opened(), before + 4);
    EXPECT_FALSE(kept.is_new());
  }
  const Kind changed{SourceKind::tokens, "a*.h5"};
  FileTable table;
  EXPECT_EQ(sample(*open(changed, table), 0)[0], 10);
  keep_files(path("index"), table);
  write(TokenFormat::hdf5, "new", 13, "other");
  fs::rename(path("new"), path("a100.h5"));
  struct ::timespec times[2] = {{0, UTIME_OMIT}, {1, 0}};  // whatever the clock's step is
  ASSERT_EQ(::utimensat(AT_FDCWD, path("a100.h5").c_str(), times, 0), 0);
  std::string problem;
  FileTable kept = kept_files(path("index"), problem);
  int looked = 0;
  kept.set_file_callback([&] { ++looked; });
  EXPECT_EQ(sample(*open(changed, kept), 0)[0], 13);
  EXPECT_EQ(looked, 1);
  EXPECT_TRUE(kept.is_new());
  // What was found of the tokenizer is compared, whoever found it.
  const FileTableInUse in_use(kept);
  EXPECT_THROW(open_source({.kind = SourceKind::tokens,
                            .paths = {path("a*.h5")},
                            .sequence = 4,
                            .vocabulary = 257,
                            .tokenizer_digest = "digest"}),
               Error);
}

// On a host with a disk of its own a file may be a copy, of another time and even with
// the same inode: disks that were formatted and filled alike number their files alike.
TEST_F(FileTables, FilesOfAnotherHostMayBeCopies) {
  const Kind kind = write_some(SourceKind::llmc);
  FileTable table;
  open(kind, table);
  const std::string text = table.text(), name = path("b100.bin");
  const auto told = [&] {
    FileTable of_rank_0 = FileTable::told(text);
    return open(kind, of_rank_0);
  };
  fs::copy_file(name, path("copy"));
  fs::rename(name, path("original"));
  fs::rename(path("copy"), name);
  const auto copy = told();
  EXPECT_EQ(sample(*copy, 0)[0], 10);
  fs::resize_file(name, fs::file_size(name) + 1);
  expect_refused(*copy, Status::io, "changed while it was in use");
  expect_refused(*told(), Status::bad_content, "on the host of rank 0");
  fs::remove(name);
  expect_refused(*told(), Status::missing_input, "cannot be read here");
  fs::rename(path("original"), name);
  EXPECT_EQ(sample(*told(), 0)[0], 10);
  struct ::timespec times[2] = {{0, UTIME_OMIT}, {1, 0}};
  const auto before = told();
  EXPECT_EQ(sample(*before, 0)[0], 10);
  ASSERT_EQ(::utimensat(AT_FDCWD, name.c_str(), times, 0), 0);
  expect_refused(*before, Status::io, "written or replaced since");
  EXPECT_EQ(sample(*told(), 0)[0], 10);
}

TEST_F(FileTables, ADamagedIndexIsNoTable) {
  const Kind kind = write_some(SourceKind::tokens);
  FileTable table;
  open(kind, table);
  const auto problem_with = [&](const std::string& content) {
    std::ofstream(path("index"), std::ios::binary) << content;
    std::string problem;
    EXPECT_EQ(kept_files(path("index"), problem).files(), 0u);
    return problem;
  };
  keep_files(path("index"), table);
  std::ifstream in(path("index"), std::ios::binary);
  const std::string whole{std::istreambuf_iterator<char>(in), {}};
  const std::size_t head = whole.find('\n') + 1;
  std::string flipped = whole;
  flipped[head + 40] ^= 1;
  EXPECT_NE(problem_with(flipped).find("is damaged"), std::string::npos);
  EXPECT_NE(problem_with("another file\n").find("no index"), std::string::npos);
  EXPECT_NE(problem_with("").find("no index"), std::string::npos);
  // With the right digest, but cut off or longer.
  const std::string text = whole.substr(head);
  for (std::size_t size = 0; size <= text.size() + 1; size += 1 + size / 50) {
    if (size == text.size()) continue;
    std::string part = text;
    part.resize(size);
    EXPECT_THROW(FileTable::kept(part), Error) << size;
    EXPECT_THROW(FileTable::told(part), Error) << size;
  }
  std::string none;
  EXPECT_EQ(kept_files(path("no such index"), none).files(), 0u);
  EXPECT_EQ(none, "");
  fs::create_symlink(path("index"), path("link"));
  std::string link;
  EXPECT_EQ(kept_files(path("link"), link).files(), 0u);
  EXPECT_NE(link, "");
  EXPECT_THROW(keep_files(path("no such folder/index"), table), Error);
}

}  // namespace
}  // namespace trireme::io
