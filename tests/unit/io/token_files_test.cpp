// Token files of other programs: bytes as those write them, reading, and what is refused.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/error.hpp"
#include "io/open_files.hpp"
#include "io/sample_source.hpp"
#include "io/token_writer.hpp"

namespace trireme::io {
namespace {

namespace fs = std::filesystem;

class TokenFiles : public testing::Test {
 protected:
  void SetUp() override {
    directory_ = fs::temp_directory_path() / format("trireme_token_files_{}", ::getpid());
    fs::create_directories(directory_);
  }
  void TearDown() override { fs::remove_all(directory_); }

  std::string path(const std::string& name) const { return (directory_ / name).string(); }
  std::string bytes_of(const std::string& name) const {
    std::ifstream in(path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  std::string put(const std::string& name, const std::string& bytes) const {
    std::ofstream(path(name), std::ios::binary) << bytes;
    return path(name);
  }
  // Two documents, [10, 11, 12] and [20, 21].
  void write(TokenFormat format, const std::string& name, std::int64_t vocabulary) const {
    const auto out = make_token_writer(format, path(name), {"digest", vocabulary, 12}, 5);
    if (token_dtype(format, vocabulary) == DType::u16) {
      std::uint16_t ids[] = {10, 11, 12, 20, 21};
      out->add(TensorView(ids, DType::u16, {5}));
    } else {
      std::int32_t ids[] = {10, 11, 12, 20, 21};
      out->add(TensorView(ids, DType::i32, {5}));
    }
    out->close({0, 3, 5});
  }
  std::unique_ptr<SampleSource> open(SourceKind kind, const std::string& name,
                                     std::int64_t vocabulary = 100) const {
    return open_source(
        {.kind = kind, .paths = {path(name)}, .sequence = 2, .vocabulary = vocabulary});
  }
  void expect_tokens(const SampleSource& source) const {
    ASSERT_EQ(source.tokens(), 5);
    ASSERT_EQ(source.samples(), 2);
    std::vector<std::int32_t> tokens(3);
    source.sample(0, tokens);
    EXPECT_EQ(tokens, (std::vector<std::int32_t>{10, 11, 12}));
    source.sample(1, tokens);
    EXPECT_EQ(tokens, (std::vector<std::int32_t>{12, 20, 21}));
  }
  void expect_refused(SourceKind kind, const std::string& name,
                      const std::string& words) const {
    try {
      open(kind, name);
      ADD_FAILURE() << "was taken; expected " << words;
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), Status::bad_content);
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
    }
  }

  fs::path directory_;
};

std::string from_hex(const std::string& digits) {
  std::string out;
  for (std::size_t i = 0; i < digits.size(); i += 2)
    out += static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16));
  return out;
}

// Bytes of Megatron-LM's IndexedDatasetBuilder for these documents.
TEST_F(TokenFiles, MegatronsBytes) {
  write(TokenFormat::megatron, "m", 65499);
  EXPECT_EQ(bytes_of("m.bin"), from_hex("0a000b000c0014001500"));
  EXPECT_EQ(
      bytes_of("m.idx"),
      from_hex("4d4d4944494458000001000000000000000802000000000000000300000000000000"
               "030000000200000000000000000000000600000000000000000000000000000001"
               "000000000000000200000000000000"));
  for (const char* name : {"m", "m.bin", "m.idx", "*.bin"})
    expect_tokens(*open(SourceKind::megatron, name));
  write(TokenFormat::megatron, "w", 65500);
  EXPECT_EQ(bytes_of("w.bin").size(), 20u);
  expect_tokens(*open(SourceKind::megatron, "w"));
}

// Bytes of llm.c's write_datafile().
TEST_F(TokenFiles, LlmcsBytes) {
  write(TokenFormat::llmc, "a.bin", 50257);
  EXPECT_EQ(bytes_of("a.bin").size(), 1034u);
  EXPECT_EQ(bytes_of("a.bin").substr(0, 16),
            from_hex("88d83401010000000500000000000000"));
  EXPECT_EQ(bytes_of("a.bin").substr(1024), from_hex("0a000b000c0014001500"));
  expect_tokens(*open(SourceKind::llmc, "a.bin"));
  write(TokenFormat::llmc, "b.bin", 128256);
  EXPECT_EQ(bytes_of("b.bin").size(), 1044u);
  EXPECT_EQ(bytes_of("b.bin").substr(0, 16),
            from_hex("a1d93401070000000500000000000000"));
  expect_tokens(*open(SourceKind::llmc, "b.bin"));
  write(TokenFormat::hdf5, "c.h5", 50257);
  expect_tokens(*open(SourceKind::tokens, "c.h5"));
}

TEST_F(TokenFiles, SayTheirEndToken) {
  write(TokenFormat::hdf5, "a.h5", 100);
  write(TokenFormat::llmc, "b.bin", 100);
  EXPECT_EQ(open(SourceKind::tokens, "a.h5")->end_token(), 12);
  EXPECT_EQ(open(SourceKind::llmc, "b.bin")->end_token(), std::nullopt);
  SourceConfig blend{
      .kind = SourceKind::blend, .paths = {}, .sequence = 2, .vocabulary = 100};
  blend.blend = {{1, SourceKind::tokens, path("a.h5")},
                 {1, SourceKind::tokens, path("*.h5")}};
  EXPECT_EQ(open_source(blend)->end_token(), 12);
  blend.blend.push_back({1, SourceKind::llmc, path("b.bin")});
  EXPECT_EQ(open_source(blend)->end_token(), std::nullopt);
}

// More files than stay open are opened when they are read.
TEST_F(TokenFiles, ManyFilesStayClosed) {
  const auto open_files = [] {
    return std::distance(fs::directory_iterator("/proc/self/fd"), {});
  };
  for (int i = 0; i < 300; ++i) {
    write(TokenFormat::hdf5, format("a{}.h5", i), 100);
    write(TokenFormat::megatron, format("b{}", i), 100);
    write(TokenFormat::llmc, format("c{}.bin", i), 100);
  }
  const auto before = open_files();
  const auto tokens = open(SourceKind::tokens, "a*.h5"),
             pairs = open(SourceKind::megatron, "b*.idx"),
             llmc = open(SourceKind::llmc, "c*.bin");
  EXPECT_LT(open_files(), before + 20);
  for (const auto* source : {&tokens, &pairs, &llmc}) {
    EXPECT_EQ((*source)->tokens(), 1500);
    std::vector<std::int32_t> sample(3);
    (*source)->sample(748, sample);
    EXPECT_EQ(sample, (std::vector<std::int32_t>{11, 12, 20}));
  }
}

// As many files as a large corpus has, in a process that may open few: here they are
// names of one.
TEST_F(TokenFiles, TwentyThousandFilesUnderALowLimit) {
  write(TokenFormat::llmc, "c.bin", 100);
  write(TokenFormat::hdf5, "a.h5", 100);
  for (int i = 0; i < 20000; ++i)
    fs::create_hard_link(path("c.bin"), path(format("c{}.bin", i)));
  for (int i = 0; i < 400; ++i)
    fs::create_hard_link(path("a.h5"), path(format("a{}.h5", i)));
  struct ::rlimit before {};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const struct ::rlimit low { 256, before.rlim_max };
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
  {
    const auto llmc = open(SourceKind::llmc, "c*.bin");
    const auto tokens = open(SourceKind::tokens, "a*.h5");
    EXPECT_EQ(llmc->tokens(), 5 * 20001);
    EXPECT_EQ(tokens->tokens(), 5 * 401);
    std::vector<std::int32_t> sample(3);
    for (std::int64_t i = 0; i < 2000; ++i) {
      // Samples of 2 tokens begin at 0, 2, 4 ... of the stream, whose files have 5.
      llmc->sample(37 * i % (llmc->samples() / 5) * 5, sample);
      EXPECT_EQ(sample, (std::vector<std::int32_t>{10, 11, 12}));
      tokens->sample(37 * i % (tokens->samples() / 5) * 5, sample);
      EXPECT_EQ(sample, (std::vector<std::int32_t>{10, 11, 12}));
      EXPECT_LE(open_data_files().size(), most_open_files);
    }
  }
  EXPECT_EQ(open_data_files().size(), 0u);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
}

TEST_F(TokenFiles, FewFilesAreOpenedOnce) {
  for (int i = 0; i < 40; ++i) write(TokenFormat::hdf5, format("a{}.h5", i), 100);
  const std::int64_t before = open_data_files().opened();
  const auto tokens = open(SourceKind::tokens, "a*.h5");
  std::vector<std::int32_t> sample(3);
  for (std::int64_t i = 0; i < 500; ++i) tokens->sample(i * 37 % 99, sample);
  EXPECT_EQ(open_data_files().opened(), before + 40);
  // A file that changes is noticed though it stays open.
  fs::resize_file(path("a0.h5"), fs::file_size(path("a0.h5")) + 1);
  EXPECT_THROW(tokens->sample(0, sample), Error);
}

TEST_F(TokenFiles, NothingIsLeftOfAWriterThatWasNotClosed) {
  for (const TokenFormat format :
       {TokenFormat::hdf5, TokenFormat::megatron, TokenFormat::llmc})
    make_token_writer(format, path("x"), {"digest", 100, 0}, 5);
  EXPECT_TRUE(fs::is_empty(directory_));
  EXPECT_THROW(make_token_writer(TokenFormat::llmc, path("x"), {"digest", 100, 0},
                                 INT64_C(1) << 31),
               Error);
}

TEST_F(TokenFiles, RefusesBrokenIndexes) {
  write(TokenFormat::megatron, "m", 100);
  const std::string good = bytes_of("m.idx"), tokens = bytes_of("m.bin");
  const auto with = [&](std::size_t at, const std::string& bytes,
                        const std::string& why) {
    std::string bad = good;
    bad.replace(at, bytes.size(), bytes);
    put("m.idx", bad);
    expect_refused(SourceKind::megatron, "m", why);
  };
  with(0, "X", "does not begin with MMIDIDX");
  with(9, "\x02", "version 2");
  with(17, "\x06", "type 6");
  with(18, std::string(8, '\x7f'), "too short");
  with(26, std::string(8, '\xff'), "too short");
  with(34, from_hex("ffffffff"), "length -1");
  with(34, from_hex("04000000"), "begins at byte 6 instead of 8");
  with(42, "\x02", "begins at byte 2 instead of 0");
  with(58, "\x01", "document 0 begins at sequence 1");
  with(66, "\x03", "document 1 begins at sequence 3");
  with(74, "\x01", "ends at sequence 1 of 2");
  put("m.idx", good.substr(0, 20));
  expect_refused(SourceKind::megatron, "m", "too short");
  put("m.idx", good + "x");
  expect_refused(SourceKind::megatron, "m", "83 bytes instead of 82");
  put("m.idx", good + "xx");
  expect_refused(SourceKind::megatron, "m", "modes of sequences");
  put("m.idx", good);
  put("m.bin", tokens.substr(0, 8));
  expect_refused(SourceKind::megatron, "m", "one was cut off");
  put("m.bin", tokens.substr(0, 8) + "\x65" + std::string(1, '\0'));
  expect_refused(SourceKind::megatron, "m", "token 4 is 101, outside");
  fs::remove(path("m.bin"));
  EXPECT_THROW(open(SourceKind::megatron, "m"), Error);
}

TEST_F(TokenFiles, RefusesBrokenLlmcFiles) {
  write(TokenFormat::llmc, "a.bin", 100);
  const std::string good = bytes_of("a.bin");
  put("a.bin", good.substr(0, 1000));
  expect_refused(SourceKind::llmc, "a.bin", "too short");
  put("a.bin", good.substr(0, 1033));
  expect_refused(SourceKind::llmc, "a.bin", "has 1033 bytes");
  std::string bad = good;
  bad[0] = 'x';
  put("a.bin", bad);
  expect_refused(SourceKind::llmc, "a.bin", "no token file of llm.c");
  bad = good;
  bad[11] = '\xff';
  put("a.bin", bad);
  expect_refused(SourceKind::llmc, "a.bin", "tokens, which are");
}

TEST_F(TokenFiles, RefusesBrokenBlends) {
  const auto refused = [](const char* text, const char* why) {
    try {
      parse_blend_part(text);
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(why), std::string::npos) << error.what();
    }
  };
  for (const char* text : {"", "x tokens a", "0 tokens a", "-1 tokens a", "nan tokens a"})
    refused(text, "weight above 0");
  refused("1", "does not name");
  refused("1 synthetic a", "does not name");
  refused("1 tokens", "names no path");
  refused("1 tokens  ", "names no path");
  const BlendPart part = parse_blend_part(" 0.25  llmc a b.bin");
  EXPECT_EQ(part.weight, 0.25);
  EXPECT_EQ(part.kind, SourceKind::llmc);
  EXPECT_EQ(part.path, "a b.bin");
}

// Rows of whole documents: [10, 11, 12] and [20, 21] fill a row of 5 tokens; one of 3
// holds either, the second with an end that is missing.
TEST_F(TokenFiles, DocumentsAreFittedIntoRows) {
  write(TokenFormat::hdf5, "a.h5", 100);
  write(TokenFormat::megatron, "m", 100);
  write(TokenFormat::llmc, "l.bin", 100);
  const auto fitted = [&](SourceKind kind, const std::string& name, std::int64_t S) {
    return open_source({.kind = kind,
                        .paths = {path(name)},
                        .sequence = S,
                        .vocabulary = 100,
                        .packing = Packing::best_fit,
                        .end_token = kind == SourceKind::llmc ? 12 : -1});
  };
  for (const auto& [kind, name] :
       {std::pair(SourceKind::tokens, "a.h5"), std::pair(SourceKind::megatron, "m"),
        std::pair(SourceKind::llmc, "l.bin")}) {
    const auto wide = fitted(kind, name, 4);
    ASSERT_EQ(wide->samples(), 1);
    EXPECT_EQ(wide->windows(), 1);
    std::vector<std::int32_t> tokens(5);
    wide->sample(0, tokens);
    EXPECT_EQ(tokens, (std::vector<std::int32_t>{10, 11, 12, 20, 21}));
    EXPECT_EQ(wide->marks(0).starts, (std::vector<std::int64_t>{0, 0, 0, 3, 3}));
    EXPECT_EQ(wide->parts(0).size(), 2u);
    const auto narrow = fitted(kind, name, 2);
    ASSERT_EQ(narrow->samples(), 2);
    tokens.resize(3);
    // The seed numbers the rows.
    narrow->sample(0, tokens);
    const std::int64_t second = tokens[0] == 20 ? 0 : 1;
    narrow->sample(second, tokens);
    EXPECT_EQ(tokens, (std::vector<std::int32_t>{20, 21, ignore_index}));
    EXPECT_EQ(narrow->marks(second).starts, (std::vector<std::int64_t>{0, 0, 2}));
    EXPECT_NE(narrow->describe().find("2 rows of 2 from 2 documents, 0 of them cut, "
                                      "16.67 % padding"),
              std::string::npos)
        << narrow->describe();
  }
}

TEST_F(TokenFiles, FittingNeedsToKnowWhereDocumentsEnd) {
  write(TokenFormat::llmc, "l.bin", 100);
  try {
    open_source({.kind = SourceKind::llmc,
                 .paths = {path("l.bin")},
                 .sequence = 2,
                 .vocabulary = 100,
                 .packing = Packing::best_fit});
    ADD_FAILURE() << "was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::bad_content);
    EXPECT_NE(std::string(error.what()).find("set data.end_token"), std::string::npos);
  }
}

}  // namespace
}  // namespace trireme::io
