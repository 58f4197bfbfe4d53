// The indices of all ranks' shards on rank 0, in rounds of bounded size.
// SPDX-License-Identifier: Apache-2.0
#include "io/index_gather.hpp"

#include <cstring>
#include <sstream>
#include <utility>

#include "io/index_merge.hpp"

namespace trireme::io {
namespace {

// The first rank of each round, as words.
std::string rounds_of(const std::vector<double>& sizes, std::int64_t most) {
  const auto limit = static_cast<double>(most);
  std::string firsts;
  double sum = 0;
  for (std::size_t rank = 0; rank < sizes.size(); ++rank) {
    if (rank == 0 || (sizes[rank] > 0 && sum + sizes[rank] > limit)) {
      firsts += format("{} ", rank);
      sum = 0;
    }
    sum += sizes[rank];
  }
  return firsts;
}

}  // namespace

IndexGather::IndexGather(comm::World& world, std::string mine, std::int64_t most)
    : world_(world), mine_(std::move(mine)) {
  const std::vector<double> sizes = world.gather(static_cast<double>(mine_.size()));
  std::istringstream words(
      world.broadcast(world.rank() == 0 ? rounds_of(sizes, most) : ""));
  for (int first = 0; words >> first;) first_ranks_.push_back(first);
}

void IndexGather::gather_next() {
  const std::size_t next = round_ + 1;
  const int begin = first_ranks_[round_];
  const int end = next < first_ranks_.size() ? first_ranks_[next] : world_.size();
  const bool sends = world_.rank() >= begin && world_.rank() < end;
  gathered_ = world_.gather_text(sends ? std::exchange(mine_, {}) : std::string());
  if (world_.rank() == 0) {
    gathered_.resize(static_cast<std::size_t>(end));
    gathered_.erase(gathered_.begin(), gathered_.begin() + begin);
  }
  round_ = next;
}

void IndexGather::merge() {
  std::vector<std::string> shards = std::exchange(gathered_, {});
  std::erase(shards, "");  // of ranks that have none
  if (first_ranks_.size() == 1)
    merged_ = std::move(shards);
  else
    merged_.push_back(IndexMerge({shards.begin(), shards.end()}).text());
}

}  // namespace trireme::io
