// Which ranks share the memory of a node, and whose copy each rank keeps.
// SPDX-License-Identifier: Apache-2.0
#include "train/node_places.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <optional>
#include <sstream>
#include <utility>

#include "base/descriptor.hpp"
#include "base/error.hpp"
#include "base/format.hpp"
#include "base/system_reason.hpp"
#include "base/temporary_files.hpp"
#include "io/files.hpp"

namespace trireme::train {
namespace {

// Alike where two ranks see one folder of one host.
std::string name_of_folder(const std::string& folder, const std::string& host) {
  struct stat status {};
  require(::stat(folder.c_str(), &status) == 0, Status::cannot_create,
          "{}: there is no such folder on host {}", folder, host);
  return format("{} {} {}", host, static_cast<std::uint64_t>(status.st_dev),
                static_cast<std::uint64_t>(status.st_ino));
}

// Of a folder's name.
std::string host_in(const std::string& name) { return name.substr(0, name.find(' ')); }

std::string both(const std::string& one, const std::string& other) {
  return format("{} and {}", std::min(one, other), std::max(one, other));
}

// A file that only one of those who see a folder can make: it says who, while `claim`
// lives. False where another has been first.
bool put_claim(const std::string& path, const std::string& name,
               std::optional<TemporaryFile>& claim) {
  Descriptor file(uninterrupted([&] {
    return ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
                  0600);
  }));
  if (!file.is_open() && errno == EEXIST) return false;
  if (file.is_open()) claim.emplace(path);
  require(file.is_open() && write_all(file.get(), name) && file.close(),
          Status::cannot_create, "{}: cannot be written on host {}: {}", path,
          host_in(name), system_reason(errno));
  return true;
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

// `names`: of each rank's folder, on rank 0, which numbers the nodes; as numbers in order
// they take no room in the table.
void NodePlaces::number(comm::World& world, const std::vector<std::string>& names) {
  std::string text;
  if (world.rank() == 0) {
    std::map<std::string, int> numbers;
    std::vector<int> nodes;
    comm::HostTable table;
    for (const std::string& name : names) {
      nodes.push_back(
          numbers.emplace(name, static_cast<int>(numbers.size())).first->second);
      table.add(std::to_string(nodes.back()));
    }
    text = format("{} ", partner_shift(nodes)) + table.text();
  }
  text = world.broadcast(text);
  const auto blank = text.find(' ');
  std::istringstream(text.substr(0, blank)) >> shift_;
  nodes_ = comm::HostTable::from_text(text.substr(blank + 1));
  const std::string own = nodes_.host(world.rank());
  place_ = on_node_ = 0;
  for (int rank = 0; rank < world.size(); ++rank) {
    if (nodes_.host(rank) != own) continue;
    if (rank < world.rank()) ++place_;
    ++on_node_;
  }
}

NodePlaces::NodePlaces(comm::World& world, const std::string& folder,
                       const std::string& host, const std::string& claim) {
  // 1. by what each rank sees, which on a network is another device for each host
  std::string name;
  world.agree([&] { name = name_of_folder(folder, host); });
  std::vector<std::string> names = world.gather_text(name);
  number(world, names);
  // 2. the first rank of each node asks for the folder; who is not the first sees by whom
  const std::string path = folder + "/" + claim;
  std::string owner;
  bool first = false;
  std::optional<TemporaryFile> own_claim;
  world.agree([&] { first = place_ == 0 && put_claim(path, name, own_claim); });
  world.agree([&] {
    if (place_ == 0 && !first) owner = io::read_text(path, 1 << 16);
  });
  world.barrier();
  own_claim.reset();
  if (world.max(owner.empty() ? 0 : 1) == 0) return;
  // 3. nodes with one owner are one
  const auto owners = world.gather_text(owner);
  if (world.rank() == 0) {
    std::map<std::string, std::string> owner_of;  // by the name of what it owns
    for (std::size_t rank = 0; rank < owners.size(); ++rank)
      if (!owners[rank].empty()) owner_of[names[rank]] = owners[rank];
    for (std::string& one : names)
      if (const auto found = owner_of.find(one); found != owner_of.end()) {
        if (shared_.empty()) shared_ = both(host_in(found->second), host_in(one));
        one = found->second;
      }
  }
  shared_ = world.broadcast(shared_);
  number(world, names);
}

}  // namespace trireme::train
