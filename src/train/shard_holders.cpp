// ShardHolders: runs of shards on runs of ranks.
// SPDX-License-Identifier: Apache-2.0
#include "train/shard_holders.hpp"

#include <algorithm>
#include <sstream>

#include "base/error.hpp"

namespace trireme::train {

ShardHolders::ShardHolders(const std::vector<int>& holders)
    : shards_(static_cast<int>(holders.size())) {
  for (int shard = 0; shard < shards_; ++shard) {
    const int holder = holders[static_cast<std::size_t>(shard)];
    if (runs_.empty() || holder != runs_.back().holder + shard - runs_.back().first)
      runs_.push_back({shard, holder});
  }
}

int ShardHolders::of(int shard) const {
  require(shard >= 0 && shard < shards_, "shard {} of {}", shard, shards_);
  const auto next = std::upper_bound(runs_.begin(), runs_.end(), shard,
                                     [](int s, const Run& run) { return s < run.first; });
  const Run& run = *(next - 1);
  return run.holder + shard - run.first;
}

std::vector<int> ShardHolders::held_by(int rank) const {
  std::vector<int> held;
  for (std::size_t i = 0; i < runs_.size(); ++i) {
    const int end = i + 1 < runs_.size() ? runs_[i + 1].first : shards_;
    const int shard = runs_[i].first + rank - runs_[i].holder;
    if (rank >= runs_[i].holder && shard < end) held.push_back(shard);
  }
  return held;
}

std::string ShardHolders::text() const {
  std::string text = format("{}", shards_);
  for (const Run& run : runs_) text += format(" {} {}", run.first, run.holder);
  return text;
}

ShardHolders ShardHolders::from_text(const std::string& text) {
  ShardHolders holders;
  std::istringstream words(text);
  require(!(words >> holders.shards_).fail() && holders.shards_ >= 0,
          "'{}' is no list of shards", text);
  int before = -1;
  for (Run run; words >> run.first >> run.holder; before = run.first) {
    require(run.first > before && (before >= 0 || run.first == 0) &&
                run.first < holders.shards_ && run.holder >= 0,
            "'{}' is no list of shards", text);
    holders.runs_.push_back(run);
  }
  require(words.eof() && holders.runs_.empty() == (holders.shards_ == 0),
          "'{}' is no list of shards", text);
  return holders;
}

std::vector<Transfer> in_rounds(const ShardHolders& holders,
                                const std::map<int, std::vector<int>>& receivers) {
  std::vector<Transfer> all;
  bool more = true;
  for (std::size_t have = 1; more; have *= 2) {  // ranks that have each shard, at most
    more = false;
    for (const auto& [shard, ranks] : receivers) {
      const std::size_t end = std::min(ranks.size(), 2 * have - 1);
      for (std::size_t i = have - 1; i < end; ++i) {
        const std::size_t giver = i - (have - 1);
        all.push_back(
            {giver == 0 ? holders.of(shard) : ranks[giver - 1], ranks[i], shard});
      }
      more = more || ranks.size() > end;
    }
  }
  return all;
}

}  // namespace trireme::train
