// TensorBoard event files: checksums, golden bytes, frames, what a restart supersedes.
// SPDX-License-Identifier: Apache-2.0
#include "io/event_file.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "io/files.hpp"

namespace trireme::io {
namespace {

namespace fs = std::filesystem;

std::string hex(const std::string& bytes) {
  std::string out;
  for (const char c : bytes) {
    constexpr auto digits = "0123456789abcdef";
    out += digits[static_cast<unsigned char>(c) >> 4];
    out += digits[static_cast<unsigned char>(c) & 15];
  }
  return out;
}

// The messages of a file, every checksum held against its bytes.
std::vector<std::string> frames(const std::string& path) {
  const std::string text = read_text(path, 1 << 20);
  std::vector<std::string> out;
  const auto word = [&](std::size_t at) {
    std::uint32_t value = 0;
    std::memcpy(&value, text.data() + at, sizeof value);
    return value;
  };
  for (std::size_t at = 0; at < text.size();) {
    EXPECT_LE(at + 16, text.size());
    std::uint64_t length = 0;
    std::memcpy(&length, text.data() + at, sizeof length);
    EXPECT_EQ(word(at + 8), masked_crc32c(text.substr(at, 8)));
    out.push_back(text.substr(at + 12, length));
    EXPECT_EQ(word(at + 12 + length), masked_crc32c(out.back()));
    at += 16 + length;
  }
  return out;
}

TEST(EventFile, ChecksumsAreTheStandards) {
  // RFC 3720, B.4
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43u);
  EXPECT_EQ(masked_crc32c("123456789"), 0xc78ab0e5u);
}

TEST(EventFile, BytesAreGolden) {
  EXPECT_EQ(
      hex(tf_record(version_event(1700000000))),
      "1800000000000000a37f4b220900000040fc54d9411a0d627261696e2e4576656e743a32eced8f"
      "9d");
  const std::vector<Scalar> loss = {{"train/loss", 2.5}};
  EXPECT_EQ(
      hex(tf_record(scalars_event(1700000001, 10, loss))),
      "200000000000000029eda9500900004040fc54d941100a2a130a110a0a747261696e2f6c6f7373"
      "1500002040a6466f5b");
  // Event {1: 0.0, 2: 300, 7: SessionLog {1: START}}
  EXPECT_EQ(hex(session_start_event(0, 300)), "09000000000000000010ac023a020801");
}

// Bytes by an encoder of its own for event.proto, summary.proto and tensor.proto.
TEST(EventFile, TextIsGolden) {
  EXPECT_EQ(hex(text_event(0, 3, "samples/1", "ab")),
            "09000000000000000010032a270a250a0973616d706c65732f31"
            "420c0807120412020801420261624a0a0a060a04746578742002");
}

TrackedRun run_in(const std::string& directory, std::int64_t resumed) {
  TrackedRun run;
  run.directory = directory;
  run.resumed = resumed;
  return run;
}

class EventFolder : public testing::Test {
 protected:
  EventFolder() {
    std::string name = fs::temp_directory_path() / "trireme-events-XXXXXX";
    folder_ = ::mkdtemp(name.data());
  }
  ~EventFolder() override { fs::remove_all(folder_); }
  std::string folder_;
};

TEST_F(EventFolder, HoldsEachRecordAtOnce) {
  EventFile file(run_in(folder_ + "/run", 7));
  auto events = frames(file.path());
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(hex(events[0].substr(9)), "1a0d627261696e2e4576656e743a32");
  EXPECT_EQ(hex(events[1].substr(9)), "10083a020801") << "points from step 8 on are new";
  Record nested;
  nested.set("calls", std::int64_t{3});
  file.write(Record()
                 .set("step", std::int64_t{8})
                 .set("loss", 2.5)
                 .set("grad_norm", NAN)
                 .set("memory_peak_bytes", 1.0)
                 .set("text", std::string("1"))
                 .set("communication", nested));
  events = frames(file.path());
  ASSERT_EQ(events.size(), 3u);
  const std::vector<Scalar> scalars = {{"train/loss", 2.5},
                                       {"memory/memory_peak_bytes", 1}};

  EXPECT_EQ(hex(events[2].substr(9)), hex(scalars_event(0, 8, scalars).substr(9)));
}

TEST_F(EventFolder, ARestartWritesALaterFile) {
  std::vector<std::string> paths;
  for (int i = 0; i < 3; ++i) paths.push_back(EventFile(run_in(folder_, i)).path());
  EXPECT_LT(paths[0], paths[1]);
  EXPECT_LT(paths[1], paths[2]);
  EXPECT_EQ(frames(paths[0]).size(), 2u) << "earlier files stay as they are";
}

TEST_F(EventFolder, NamesOfNoClockAreNoTimes) {
  for (const char* seconds : {"99999999999999999999", "9223372036854775807", "-5", "x"})
    write_text_atomically(folder_ + "/events.out.tfevents." + seconds + ".host.1", "");
  const EventFile file(run_in(folder_, 0));
  const std::string name = fs::path(file.path()).filename().string();
  // Ten digits until the year 2286.
  EXPECT_EQ(name.find('.', 20), 30u) << name;
}

TEST_F(EventFolder, NeedsItsDirectory) {
  try {
    const EventFile file(run_in("/proc/trireme", 0));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::cannot_create);
  }
}

TEST_F(EventFolder, AFullDiskIsAnIoError) {
  EventFile file(run_in(folder_, 0));
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{fs::file_size(file.path()) + 5, before.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &small);
  Status status = Status::done;
  try {
    file.write(Record().set("step", std::int64_t{1}).set("loss", 1.0));
  } catch (const Error& error) {
    status = error.status();
  }
  ::setrlimit(RLIMIT_FSIZE, &before);
  ::signal(SIGXFSZ, handler);
  EXPECT_EQ(status, Status::io);
}

// Bytes that TensorBoard 2.21's own protocol buffers make of these messages.
TEST(EventFile, SettingsAreGolden) {
  const auto settings = deck_settings("[a]\nb = 2\nc = \"x\"\nd = true\n");
  ASSERT_EQ(settings.size(), 3u);
  EXPECT_EQ(hex(settings_event(1.5, settings)),
            "09000000000000f83f2a630a610a1c5f68706172616d735f2f73657373696f6e5f7374"
            "6172745f696e666f4a410a3f0a0768706172616d7312341a320a100a03612e62120911"
            "00000000000000400a0a0a03612e6312031a01780a090a03612e641202200129000000"
            "000000f83f");
  EXPECT_EQ(hex(settings_end_event(1.5, RunEnd::done)),
            "09000000000000f83f2a3a0a380a1a5f68706172616d735f2f73657373696f6e5f656e"
            "645f696e666f4a1a0a180a0768706172616d73120d220b080111000000000000f83f");
}

TEST_F(EventFolder, AnOlderFolderIsGoneOnWith) {
  fs::create_directory(folder_ + "/tensorboard");
  const EventFile file(run_in(folder_, 0));
  EXPECT_TRUE(file.path().starts_with(folder_ + "/tensorboard/events"));
}

TEST(EventFile, EveryKeyHasATag) {
  EXPECT_EQ(tag_of("communication.tensor.all_gather.bytes"),
            "communication/tensor/all_gather/bytes");
  EXPECT_EQ(tag_of("loss"), "train/loss");
  EXPECT_EQ(tag_of("validation_loss"), "validation/loss");
  EXPECT_EQ(tag_of("memory_peak_bytes"), "memory/memory_peak_bytes");
  EXPECT_EQ(tag_of("data_seconds"), "time/data_seconds");
  EXPECT_EQ(tag_of("live_microbatches"), "other/live_microbatches");
}

}  // namespace
}  // namespace trireme::io
