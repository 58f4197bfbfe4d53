// Which ranks share the memory of a node, and whose copy each rank keeps.
// SPDX-License-Identifier: Apache-2.0
#include "train/node_places.hpp"

#include <sys/stat.h>

#include <map>
#include <sstream>

#include "base/error.hpp"
#include "base/format.hpp"

namespace trireme::train {
namespace {

// Alike where two ranks see one folder of one host.
std::string name_of_folder(const comm::World& world, const std::string& folder) {
  struct stat status {};
  require(::stat(folder.c_str(), &status) == 0, Status::cannot_create,
          "{}: there is no such folder on host {}", folder, world.host());
  return format("{} {} {}", world.host(), static_cast<std::uint64_t>(status.st_dev),
                static_cast<std::uint64_t>(status.st_ino));
}

}  // namespace

int partner_shift(const std::vector<int>& nodes) {
  const std::size_t ranks = nodes.size();
  for (std::size_t shift = 1; shift < ranks; ++shift) {
    std::size_t r = 0;
    while (r < ranks && nodes[r] != nodes[(r + shift) % ranks]) ++r;
    if (r == ranks) return static_cast<int>(shift);
  }
  return 0;
}

NodePlaces::NodePlaces(comm::World& world, const std::string& folder) {
  std::string name;
  world.agree([&] { name = name_of_folder(world, folder); });
  // Rank 0 numbers the nodes; as numbers in order they take no room in the table.
  std::string text;
  std::map<std::string, int> numbers;
  std::vector<int> nodes;
  for (const std::string& node : world.gather_text(name))
    nodes.push_back(
        numbers.emplace(node, static_cast<int>(numbers.size())).first->second);
  if (world.rank() == 0) {
    comm::HostTable table;
    for (const int node : nodes) table.add(std::to_string(node));
    text = format("{} ", partner_shift(nodes)) + table.text();
  }
  text = world.broadcast(text);
  const auto blank = text.find(' ');
  std::istringstream(text.substr(0, blank)) >> shift_;
  nodes_ = comm::HostTable::from_text(text.substr(blank + 1));
  const std::string own = nodes_.of(world.rank());
  on_node_ = 0;
  for (int rank = 0; rank < world.size(); ++rank) {
    if (nodes_.of(rank) != own) continue;
    if (rank < world.rank()) ++place_;
    ++on_node_;
  }
}

}  // namespace trireme::train
