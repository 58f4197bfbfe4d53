// PartnerCopies::find: the newest step that nodes hold whole, brought together.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <exception>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string_view>
#include <utility>

#include "base/log.hpp"
#include "io/checkpoint_manifest_json.hpp"
#include "io/checkpoint_shard.hpp"
#include "io/index_gather.hpp"
#include "io/index_merge.hpp"
#include "io/run_status.hpp"
#include "train/partner_copies.hpp"
#include "train/shard_holders.hpp"

namespace trireme::train {
namespace {

// Numbers as words, for messages.
template <class Numbers>
std::string to_words(const Numbers& numbers) {
  std::string text;
  for (const auto number : numbers) text += std::to_string(number) + " ";
  return text;
}

std::vector<std::int64_t> numbers_in(const std::string& text) {
  std::vector<std::int64_t> numbers;
  std::istringstream words(text);
  for (std::int64_t number = 0; words >> number;) numbers.push_back(number);
  return numbers;
}

// The starts of the run in this directory that may have made copies, as rank 0 finds
// them, on every rank. Copies of others are of a run that somebody has removed since.
std::set<std::string> starts_of(comm::World& world, const std::string& directory) {
  std::string text;
  try {
    if (world.rank() == 0)
      if (const auto status = io::read_run_status(directory))
        for (const io::RunStart& start : status->starts)
          if (!start.name.empty()) text += start.name + "\n";
  } catch (const Error&) {  // RunRecord has warned of it
  }
  std::istringstream lines(world.broadcast(text));
  std::set<std::string> names;
  for (std::string name; std::getline(lines, name);) names.insert(name);
  return names;
}

// What this rank has found whole of a step: shards of its node, of which the ranks that
// share it look at some each.
struct Found {
  std::map<int, io::ShardCopies::Checked> shards;
  std::string wrong;  // the first that is not
};

Found look(const io::ShardCopies& copies, const std::set<std::string>& starts,
           std::int64_t step, int place, int on_node) {
  Found found;
  const std::vector<int> shards = copies.shards(step);
  for (std::size_t i = static_cast<std::size_t>(place); i < shards.size();
       i += static_cast<std::size_t>(on_node)) {
    try {
      io::ShardCopies::Checked checked = copies.check(step, shards[i]);
      if (starts.contains(checked.info.attempt))
        found.shards.emplace(shards[i], std::move(checked));
      else if (found.wrong.empty())
        found.wrong = "a start made them that status.toml of this run does not name";
    } catch (const Error& error) {
      if (found.wrong.empty()) found.wrong = error.what();
    }
  }
  return found;
}

// Who holds which shards of a step that one start of the run has made.
struct Holders {
  std::string attempt;
  std::vector<int> first;  // of each shard: the lowest rank that has found it; -1: nobody

  void add(int rank, std::size_t shards, const std::vector<std::int64_t>& held) {
    first.resize(std::max(first.size(), shards), -1);
    for (const std::int64_t shard : held)
      if (const auto at = static_cast<std::size_t>(shard); at < first.size())
        if (first[at] < 0) first[at] = rank;
  }
  // The first shard that nobody has; -1: it is whole.
  int missing() const {
    const auto at = std::find(first.begin(), first.end(), -1);
    return at == first.end() ? -1 : static_cast<int>(at - first.begin());
  }
};

// A line for each start that has made some of a rank's shards: its name, how many shards
// the step has, and these.
std::string lines_of(const Found& found) {
  std::map<std::string_view, std::string> lines;
  for (const auto& [shard, checked] : found.shards) {
    std::string& line = lines[checked.info.attempt];
    if (line.empty()) line = format("{} ", checked.info.mesh.size());
    line += format("{} ", shard);
  }
  std::string text;
  for (const auto& [attempt, line] : lines) text += format("{} {}\n", attempt, line);
  return text;
}

// `texts`: the lines of each rank. The newest start that has made every shard, or the
// newest of all; none: nothing was found.
std::optional<Holders> newest_whole(const std::vector<std::string>& texts, int& starts) {
  std::map<std::string, Holders> all;
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    std::istringstream lines(texts[rank]);
    for (std::string line; std::getline(lines, line);) {
      const std::string attempt = line.substr(0, line.find(' '));
      auto numbers = numbers_in(line.substr(attempt.size()));
      const auto shards = static_cast<std::size_t>(numbers.at(0));
      numbers.erase(numbers.begin());
      all[attempt].add(static_cast<int>(rank), shards, numbers);
    }
  }
  starts = static_cast<int>(all.size());
  if (all.empty()) return {};
  auto newest = all.rbegin();
  for (auto one = all.rbegin(); one != all.rend(); ++one)
    if (one->second.missing() < 0) {
      newest = one;
      break;
    }
  newest->second.attempt = newest->first;
  return std::move(newest->second);
}

// The steps in this range that any node has copies of, newest first.
std::vector<std::int64_t> candidates(comm::World& world, const io::ShardCopies& copies,
                                     int place, std::int64_t after, std::int64_t last) {
  std::set<std::int64_t> steps;
  const auto own = copies.steps();
  for (const std::string& text : world.gather_text(place == 0 ? to_words(own) : ""))
    for (const std::int64_t step : numbers_in(text))
      if (step > after && step <= last) steps.insert(step);
  auto all = numbers_in(world.broadcast(to_words(steps)));
  std::reverse(all.begin(), all.end());
  return all;
}

// Why a step is passed over. `wrongs`: of each rank, what it has found damaged.
std::string why_not_whole(const std::optional<Holders>& newest, int starts,
                          const std::vector<std::string>& wrongs) {
  const auto wrong = std::find_if(wrongs.begin(), wrongs.end(),
                                  [](const auto& text) { return !text.empty(); });
  if (wrong != wrongs.end()) return *wrong;
  if (!newest) return "no shard of it was finished";
  return format("no node that is left has shard {} of {}{}", newest->missing(),
                newest->first.size(),
                starts < 2 ? std::string()
                           : format(" (of what the last of {} starts of the run has "
                                    "copied, and no other is whole)",
                                    starts));
}

// Who holds each shard of a step, the same on every rank; of what this rank has found
// only shards of the start that has made these are left. None where one is missing, of
// which there is a warning.
ShardHolders whole_step(comm::World& world, std::int64_t step, Found& found) {
  int starts = 0;
  std::optional<Holders> newest =
      newest_whole(world.gather_text(lines_of(found)), starts);
  const bool whole = newest && newest->missing() < 0;
  const auto wrongs = world.gather_text(found.wrong);
  const std::string attempt = world.broadcast(whole ? newest->attempt : "");
  if (attempt.empty()) {
    if (world.rank() == 0)
      log::warn("step {}: the copies in the nodes' memory are not whole: {}; passed over",
                step, why_not_whole(newest, starts, wrongs));
    return {};
  }
  std::erase_if(found.shards,
                [&](const auto& one) { return one.second.info.attempt != attempt; });
  return ShardHolders::from_text(
      world.broadcast(whole ? ShardHolders(newest->first).text() : ""));
}

// All shards as one checkpoint, whose files are those of this rank's node. Rank 0 alone
// holds what says where all of it lies.
std::shared_ptr<io::CheckpointReader> open(comm::World& world, const std::string& folder,
                                           const ShardHolders& holders,
                                           const Found& found) {
  // 1. the holder of each shard sends its index; rank 0 puts them together
  std::map<int, std::string> mine;
  for (const int shard : holders.held_by(world.rank()))
    mine[shard] = found.shards.at(shard).texts.index;
  const std::vector<std::string> parts = io::gather_indices(world, std::move(mine));
  std::string index;
  world.agree([&] {
    if (world.rank() == 0) index = io::IndexMerge({parts.begin(), parts.end()}).text();
  });
  // 2. attributes are alike in all of them
  const bool has = holders.of(0) == world.rank();
  const std::string attributes =
      world.broadcast(has ? found.shards.at(0).texts.manifest : "", holders.of(0));
  io::CheckpointInfo info;
  world.agree([&] { info = io::parse_manifest(folder, attributes).manifest.info; });
  return std::make_shared<io::CheckpointReader>(world, folder, info, index);
}

// The shards that hold what this rank reads.
std::set<int> wanted_shards(const io::CheckpointReader& reader, int rank,
                            const std::vector<io::TensorBox>& boxes) {
  std::set<std::string> files;
  for (const io::TensorBox& box : boxes)
    for (std::string& file : reader.files_of(box)) files.insert(std::move(file));
  const int shards = reader.info().mesh.size();
  std::set<int> wanted;
  // Files of the folder that the model came from: rank 0 has written them.
  if (rank == 0) wanted.insert(0);
  for (int shard = 0; shard < shards && !files.empty(); ++shard)
    if (files.erase(io::shard_path(shard, shards)) > 0) wanted.insert(shard);
  return wanted;
}

// `wanted`: of each rank, what it reads; `found`: of each rank, what it has looked at and
// found whole on its node. The same on every rank, in an order in which each can do its
// own.
std::vector<Transfer> transfers(comm::World& world, const NodePlaces& places,
                                const ShardHolders& holders, const std::set<int>& wanted,
                                const Found& found) {
  std::vector<int> have;
  for (const auto& [shard, checked] : found.shards) have.push_back(shard);
  const auto all_wanted = world.gather_text(to_words(wanted));
  const auto all_have = world.gather_text(to_words(have));
  std::string text;
  if (world.rank() == 0) {
    std::map<std::string, std::set<std::int64_t>> on_node;
    for (std::size_t rank = 0; rank < all_have.size(); ++rank)
      for (const std::int64_t shard : numbers_in(all_have[rank]))
        on_node[places.node_of(static_cast<int>(rank))].insert(shard);
    std::map<int, std::vector<int>> receivers;
    for (std::size_t rank = 0; rank < all_wanted.size(); ++rank)
      for (const std::int64_t shard : numbers_in(all_wanted[rank]))
        if (on_node[places.node_of(static_cast<int>(rank))].insert(shard).second)
          receivers[static_cast<int>(shard)].push_back(static_cast<int>(rank));
    for (const auto& [from, to, shard] : in_rounds(holders, receivers))
      text += format("{} {} {} ", from, to, shard);
  }
  std::vector<Transfer> all;
  const auto numbers = numbers_in(world.broadcast(text));
  for (std::size_t i = 0; i + 2 < numbers.size(); i += 3)
    all.push_back({static_cast<int>(numbers[i]), static_cast<int>(numbers[i + 1]),
                   static_cast<int>(numbers[i + 2])});
  return all;
}

void send(comm::Group& everyone, int to, std::int64_t step, int shard, int shards,
          const io::ShardCopies& copies) {
  std::optional<io::ShardCopies::Content> content;
  try {
    content = copies.read(step, shard);
  } catch (const Error&) {
    SentCopy(everyone, to).advance(true);  // the other rank waits
    throw;
  }
  SentCopy(everyone, to, step, shard, shards, std::move(*content)).advance(true);
}

// Each rank does its own one after the other. What fails is kept for the end, for others
// wait.
void carry_out(comm::World& world, comm::Group& everyone, const io::ShardCopies& copies,
               std::int64_t step, int shards, const std::vector<Transfer>& all) {
  std::exception_ptr failure;
  for (const auto& [from, to, shard] : all) {
    try {
      if (world.rank() == from) {
        send(everyone, to, step, shard, shards, copies);
      } else if (world.rank() == to) {
        ReceivedCopy received(everyone, from, copies);
        received.advance(true);
        received.finish();
        copies.check(step, shard);
      }
    } catch (const comm::Agreed&) {
      throw;
    } catch (const Error&) {
      failure = std::current_exception();
    }
  }
  world.agree([&] {
    if (failure) std::rethrow_exception(failure);
  });
}

}  // namespace

ChosenCheckpoint PartnerCopies::find(std::int64_t after, std::int64_t last,
                                     const std::vector<io::TensorBox>& boxes) {
  const std::set<std::string> starts = starts_of(world_, run_directory_);
  if (starts.empty()) return {};
  const int place = places_->place();
  for (const std::int64_t step : candidates(world_, copies_, place, after, last)) {
    Found found = look(copies_, starts, step, place, places_->on_node());
    const ShardHolders holders = whole_step(world_, step, found);
    if (holders.shards() == 0) continue;
    const std::string folder = copies_.folder_of(step);
    try {
      world_.agree([&] { copies_.make(step); });  // a node that had none
      auto reader = open(world_, folder, holders, found);
      reader->fetch(world_, boxes);
      const std::set<int> wanted = wanted_shards(*reader, world_.rank(), boxes);
      const auto moves = transfers(world_, *places_, holders, wanted, found);
      carry_out(world_, mesh_.everyone(), copies_, step, holders.shards(), moves);
      log::info(
          "copies    of step {} are whole in the nodes' memory; {} of {} shards were "
          "brought to nodes that read them",
          step, moves.size(), holders.shards());
      return {folder, std::move(reader), true};
    } catch (
        const comm::Agreed& error) {  // of all ranks alike, and no message is under way
      log::warn(
          "the copies of step {} cannot be brought together, and are left alone: {}",
          step, error.what());
    }
  }
  return {};
}

}  // namespace trireme::train
