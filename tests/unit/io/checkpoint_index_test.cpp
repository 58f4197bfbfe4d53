// The index of a checkpoint: merged from those of shards, its size, and its reading.
// SPDX-License-Identifier: Apache-2.0
#include "io/checkpoint_index.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "io/digest.hpp"
#include "io/index_merge.hpp"
#include "support/sharded_index.hpp"

namespace trireme::io {
namespace {

constexpr test::ShardedModel model = {6, 64, 16, 176, 500};

Manifest merged(int ranks) {
  std::vector<std::string> shards;
  for (int rank = 0; rank < ranks; ++rank)
    shards.push_back(test::shard_index(model, rank, ranks));
  return merge_indices(shards);
}

TEST(CheckpointIndex, ShardsMakeWholeTensors) {
  for (const int ranks : {1, 3, 7, 64, 1500}) {
    const Manifest manifest = merged(ranks);
    EXPECT_EQ(manifest.files.size(), static_cast<std::size_t>(ranks));
    EXPECT_EQ(manifest.tensors.size(), 3U * (6 * 9 + 3));
    require_whole("merged", manifest);
    Manifest read;
    parse_index("read", index_bytes(manifest), read);
    require_whole("read", read);
    EXPECT_EQ(index_bytes(read), index_bytes(manifest));
  }
}

// In whatever rounds shards come together, the index has the same bytes.
TEST(CheckpointIndex, RoundsMakeTheSameIndex) {
  std::vector<std::string> shards;
  for (int rank = 0; rank < 23; ++rank)
    shards.push_back(test::shard_index(model, rank, 23));
  const std::string once = index_bytes(merge_indices(shards));
  for (const std::size_t round : {1, 4, 22, 23}) {
    std::vector<std::string> merged;
    for (std::size_t first = 0; first < shards.size(); first += round) {
      const std::size_t end = std::min(first + round, shards.size());
      merged.push_back(IndexMerge({shards.begin() + static_cast<std::ptrdiff_t>(first),
                                   shards.begin() + static_cast<std::ptrdiff_t>(end)})
                           .text());
    }
    const IndexMerge all({merged.begin(), merged.end()});
    const std::string text = all.text();
    EXPECT_EQ(text, once) << round;
    EXPECT_EQ(all.bytes(), static_cast<std::int64_t>(text.size()));
  }
}

TEST(CheckpointIndex, PiecesAreSmall) {
  std::vector<std::string> shards;
  for (int rank = 0; rank < 1500; ++rank)
    shards.push_back(test::shard_index(model, rank, 1500));
  const IndexMerge merge({shards.begin(), shards.end()});
  std::string all;
  merge.write([&](std::string_view piece) {
    EXPECT_LE(piece.size(), std::size_t{2} << 20);
    all += piece;
  });
  EXPECT_EQ(all, merge.text());
}

TEST(CheckpointIndex, APartThatIsNoneIsRefused) {
  const std::string whole = test::shard_index(model, 0, 2);
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{7}, std::size_t{23},
                                  std::size_t{90}, whole.size() / 2, whole.size() - 1})
    EXPECT_THROW(IndexMerge({std::string_view(whole).substr(0, bytes)}), Error) << bytes;
  const std::string longer = whole + "x";
  EXPECT_THROW(IndexMerge({longer}), Error);
  std::string elsewhere = whole;  // the last box lies in a file that the part has not
  elsewhere[elsewhere.size() - BoxTable::record_bytes(2)] = 1;
  EXPECT_THROW(IndexMerge({elsewhere}).text(), Error);
}

TEST(CheckpointIndex, ALackingShardIsFound) {
  std::vector<std::string> shards;
  for (int rank = 0; rank < 7; ++rank)
    if (rank != 3) shards.push_back(test::shard_index(model, rank, 7));
  const Manifest manifest = merge_indices(shards);
  EXPECT_THROW(require_whole("merged", manifest), Error);
}

TEST(CheckpointIndex, ShardsThatDifferInAShapeAreRefused) {
  test::ShardedModel other = model;
  other.vocabulary += 1;
  EXPECT_THROW(
      merge_indices({test::shard_index(model, 0, 2), test::shard_index(other, 1, 2)}),
      Error);
}

// docs/checkpoint-format.md: 44 bytes a file and 14 a tensor and their names, 8 a dim; 32
// and 16 for each dim a box.
TEST(CheckpointIndex, ItsSizeIsAsTheFormatSays) {
  const Manifest manifest = merged(64);
  std::size_t bytes = 24;
  for (const FileEntry& file : manifest.files) bytes += 44 + file.name.size();
  for (std::size_t i = 0; i < manifest.tensors.size(); ++i) {
    const TensorEntry& tensor = manifest.tensors[i];
    const auto rank = static_cast<std::size_t>(tensor.shape.rank());
    bytes += 14 + tensor.path.size() + 8 * rank;
    bytes += manifest.boxes.count(i) * (32 + 16 * rank);
  }
  EXPECT_EQ(index_bytes(manifest).size(), bytes);
}

// What a rank sends does not grow with the number of ranks, and what rank 0 holds grows
// as the boxes do: at most three of a tensor and rank.
TEST(CheckpointIndex, ARankSendsWhatItWrote) {
  const std::size_t few = test::shard_index({}, 3, 1000).size();
  const std::size_t many = test::shard_index({}, 3, 16000).size();
  EXPECT_LE(many, few + 16);  // the name of its folder
  EXPECT_LE(many, 100000U);
}

TEST(CheckpointIndex, ManyShardsLieInFolders) {
  EXPECT_EQ(shard_path(7, 1000), "shard-00007.h5");
  EXPECT_EQ(shard_path(1003, 1500), "shards-00001/shard-01003.h5");
  EXPECT_TRUE(shard_folders(1000).empty());
  EXPECT_EQ(shard_folders(1500),
            (std::vector<std::string>{"shards-00000", "shards-00001"}));
  EXPECT_TRUE(is_member_name("shards-00001/shard-01003.h5"));
  for (const char* name : {"", ".", "..", "a/b", "/a", "shards-00001/", "shards-1/x.h5",
                           "shards-00001/../shard-00001.h5", "shards-/../shard-1.h5",
                           "manifest.json", "index.bin"})
    EXPECT_FALSE(is_member_name(name)) << name;
}

// It would be refused on reading, when the numbers are lost.
TEST(CheckpointIndex, ANameWithASpaceIsNotWritten) {
  std::string path = std::filesystem::temp_directory_path() / "trireme-index-XXXXXX";
  ASSERT_NE(::mkdtemp(path.data()), nullptr);
  const Directory folder(path);
  std::uint8_t byte = 0;
  const TensorBox box{
      "folder/my notes.json", {1}, {0}, TensorView(&byte, DType::u8, {1})};
  try {
    write_shard(folder, "shard-00000.h5", {box});
    ADD_FAILURE() << "a name with a space was written";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("'folder/my notes.json'"), std::string::npos)
        << error.what();
  }
  EXPECT_FALSE(folder.has("shard-00000.h5"));
  std::filesystem::remove_all(path);
}

}  // namespace
}  // namespace trireme::io
