// The removal of old checkpoints in shares: who removes what, and what stays.
// SPDX-License-Identifier: Apache-2.0
#include "io/checkpoint_removal.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "io/checkpoint_shard.hpp"

namespace trireme::io {
namespace {

namespace fs = std::filesystem;

class Removal : public testing::Test {
 protected:
  Removal() { fs::create_directories(path_); }
  ~Removal() override { fs::remove_all(path_); }

  // A checkpoint on its way out.
  std::string leave(const std::string& name, int shards) const {
    const std::string below = path_ + "/" + name + "/";
    fs::create_directories(below);
    for (const auto& folder : shard_folders(shards)) fs::create_directory(below + folder);
    for (int i = 0; i < shards; ++i) std::ofstream(below + shard_path(i, shards)) << 'x';
    std::ofstream(below + "manifest.json") << 'x';
    return name;
  }
  bool has_shard(const std::string& name, int number, int shards) const {
    return fs::exists(path_ + "/" + name + "/" + shard_path(number, shards));
  }
  std::string list(const std::vector<std::string>& names) const {
    return removal_list(Directory(path_), names);
  }

  const std::string path_ =
      fs::temp_directory_path().string() + "/removal-" + std::to_string(::getpid());
};

// Whatever numbers of ranks and shards: each shard goes once, and rank 0 is left with
// little.
TEST_F(Removal, SharesAreAllShards) {
  for (const int shards : {1, 7, 1000, 1003})
    for (const int ranks : {1, 3, 7, 64}) {
      const std::string name = leave(".trash-step-00000001", shards), all = list({name});
      int before = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        remove_share(path_, all, rank, ranks);
        int gone = 0;
        for (int i = 0; i < shards; ++i) gone += has_shard(name, i, shards) ? 0 : 1;
        // Folders are taken for full ones.
        const int most = (shards > 1000 ? 2000 : shards) / ranks + 1;
        EXPECT_LE(gone - before, most) << "rank " << rank << " of " << ranks;
        before = gone;
      }
      EXPECT_EQ(before, shards) << ranks << " ranks";
      EXPECT_TRUE(fs::exists(path_ + "/" + name + "/manifest.json"));
      EXPECT_TRUE(remove_rest(path_, all).empty());
      EXPECT_FALSE(fs::exists(path_ + "/" + name));
    }
}

// Nothing beside what the list names, and no file that a link leads to.
TEST_F(Removal, OthersStay) {
  leave("step-00000002", 3);
  const std::string name = leave(".trash-step-00000001", 2);
  fs::create_directory_symlink("step-00000002", path_ + "/.trash-step-00000003");
  const std::string all = list({name, ".trash-step-00000003", ".step-gone"});
  EXPECT_EQ(all, "2 " + name + "\n0 .trash-step-00000003\n0 .step-gone\n");
  for (const char* const told : {"3 .trash-step-00000003\n", "", "no number\n"})
    remove_share(path_, told, 0, 1);
  remove_share(path_, all, 0, 1);
  EXPECT_TRUE(remove_rest(path_, all).empty());
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(has_shard("step-00000002", i, 3));
  const auto left = Directory(path_).names();
  EXPECT_EQ(std::count(left.begin(), left.end(), "step-00000002"), 1);
  EXPECT_EQ(std::count(left.begin(), left.end(), name), 0);
}

// Numbers that are none of ours count for nothing.
TEST_F(Removal, ShardsAreCountedByTheirNumbers) {
  EXPECT_EQ(shards_among({"manifest.json", "shard-00004.h5", "shard-00002.h5"}), 5);
  EXPECT_EQ(shards_among({"shards-00000", "shards-00002"}), 3000);
  EXPECT_EQ(shards_among({"shard-x.h5", "shard--0001.h5", "shards", "shard-"}), 0);
}

}  // namespace
}  // namespace trireme::io
