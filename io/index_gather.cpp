// The indices of all ranks' shards on rank 0, in rounds of bounded size.
// SPDX-License-Identifier: Apache-2.0
#include "io/index_gather.hpp"

#include <algorithm>
#include <limits>
#include <sstream>
#include <utility>

#include "io/index_merge.hpp"

namespace trireme::io {

IndexGather::IndexGather(comm::World& world, std::map<int, std::string> mine,
                         std::int64_t most)
    : world_(world), mine_(std::move(mine)) {
  std::string own;
  for (const auto& [number, index] : mine_) own += format("{} {} ", number, index.size());
  const std::vector<std::string> all = world.gather_text(own);
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    std::istringstream words(all[rank]);
    for (Shard shard{0, static_cast<int>(rank)}; words >> shard.number >> shard.bytes;)
      shards_.push_back(shard);
  }
  std::sort(shards_.begin(), shards_.end(),
            [](const Shard& a, const Shard& b) { return a.number < b.number; });
  std::istringstream words(world.broadcast(world.rank() == 0 ? rounds(most) : ""));
  for (int first = 0; words >> first;) first_shards_.push_back(first);
}

// The first shard of each round, as words.
std::string IndexGather::rounds(std::int64_t most) const {
  const auto limit = static_cast<std::size_t>(most);
  std::string firsts;
  std::size_t sum = 0;
  for (const Shard& shard : shards_) {
    if (firsts.empty() || sum + shard.bytes > limit) {
      firsts += format("{} ", shard.number);
      sum = 0;
    }
    sum += shard.bytes;
  }
  return firsts;
}

void IndexGather::gather_next() {
  const std::size_t next = round_ + 1;
  const int end =
      next < first_shards_.size() ? first_shards_[next] : std::numeric_limits<int>::max();
  std::string own;
  while (!mine_.empty() && mine_.begin()->first < end) {
    std::string index = std::move(mine_.begin()->second);
    mine_.erase(mine_.begin());
    own = own.empty() ? std::move(index) : own + index;
  }
  gathered_ = world_.gather_text(own);
  round_ = next;
}

void IndexGather::merge() {
  // 1. the round's shards in order, each where its rank's text has come to
  const std::vector<std::string> texts = std::exchange(gathered_, {});
  const int first = first_shards_[round_ - 1];
  std::vector<std::size_t> at(texts.size());
  std::vector<std::string_view> parts;
  for (const Shard& shard : shards_) {
    if (shard.number < first || (!done() && shard.number >= first_shards_[round_]))
      continue;
    const auto rank = static_cast<std::size_t>(shard.rank);
    parts.push_back(std::string_view(texts[rank]).substr(at[rank], shard.bytes));
    at[rank] += shard.bytes;
  }
  // 2. one of them, or themselves where no round follows or was before
  if (first_shards_.size() == 1)
    merged_.assign(parts.begin(), parts.end());
  else
    merged_.push_back(IndexMerge(parts).text());
}

std::vector<std::string> gather_indices(comm::World& world,
                                        std::map<int, std::string> mine) {
  IndexGather indices(world, std::move(mine));
  while (!indices.done()) {
    indices.gather_next();
    world.agree([&] {
      if (world.rank() == 0) indices.merge();
    });
  }
  return indices.take();
}

}  // namespace trireme::io
