// The world's own gathers.
// SPDX-License-Identifier: Apache-2.0
#include "comm/mpi/world_tree.hpp"

#include <algorithm>
#include <cstring>

#include "comm/gather_tree.hpp"
#include "comm/merge_up.hpp"

namespace trireme::comm {
namespace {

constexpr int tree_tag = 0;

// This rank's place, and its messages in the tree.
class GatherTreeMessages {
 public:
  GatherTreeMessages(WorldState& state, int root, const char* operation)
      : state_(state),
        tree_(root == 0 && state.hosts.hosts() > 0
                  ? host_tree(state.rank, state.hosts, state.size)
                  : binomial_tree(state.rank, root, state.size)),
        call_(state, operation) {}

  int ranks() const { return tree_.ranks; }
  bool is_root() const { return tree_.parent < 0; }
  const std::vector<GatherTree::Child>& children() const { return tree_.children; }

  void receive(void* to, std::size_t bytes, int from) {
    if (bytes == 0) return;
    MPI_Request request;
    check_mpi(MPI_Irecv(to, static_cast<int>(bytes), MPI_BYTE, from, tree_tag,
                        state_.world.get(), &request),
              "MPI_Irecv");
    call_.wait(request);
  }
  void send(const void* from, std::size_t bytes) {
    if (bytes == 0 || is_root()) return;
    MPI_Request request;
    check_mpi(MPI_Isend(from, static_cast<int>(bytes), MPI_BYTE, tree_.parent, tree_tag,
                        state_.world.get(), &request),
              "MPI_Isend");
    call_.wait(request);
  }

 private:
  WorldState& state_;
  GatherTree tree_;
  WorldCall call_;
};

}  // namespace

std::vector<std::byte> gather_rows(WorldState& state, const void* row, std::size_t bytes,
                                   int root, const char* operation) {
  GatherTreeMessages up(state, root, operation);
  std::vector<std::byte> rows(static_cast<std::size_t>(up.ranks()) * bytes);
  std::memcpy(rows.data(), row, bytes);
  for (const GatherTree::Child& child : up.children())
    up.receive(rows.data() + static_cast<std::size_t>(child.first) * bytes,
               static_cast<std::size_t>(child.ranks) * bytes, child.rank);
  up.send(rows.data(), rows.size());
  if (up.is_root() && root != 0)  // row 0 is the root's: rank order begins behind the end
    std::rotate(rows.begin(),
                rows.begin() + static_cast<std::ptrdiff_t>(
                                   static_cast<std::size_t>(state.size - root) * bytes),
                rows.end());
  return rows;
}

std::string gather_bytes(WorldState& state, const std::string& text,
                         const std::vector<std::byte>& lengths, int root,
                         const char* operation) {
  GatherTreeMessages up(state, root, operation);
  // The root's lengths are in rank order already.
  const auto length = [&](int position) {
    const int row = up.is_root() ? (position + root) % state.size : position;
    std::uint64_t bytes = 0;
    std::memcpy(&bytes, lengths.data() + static_cast<std::size_t>(row) * sizeof bytes,
                sizeof bytes);
    return static_cast<std::size_t>(bytes);
  };
  const auto bytes_of = [&](int first, int count) {
    std::size_t bytes = 0;
    for (int i = 0; i < count; ++i) bytes += length(first + i);
    return bytes;
  };
  std::string all = text;
  all.reserve(bytes_of(0, up.ranks()));
  for (const GatherTree::Child& child : up.children()) {
    const std::size_t bytes = bytes_of(child.first, child.ranks), at = all.size();
    all.resize(at + bytes);
    up.receive(all.data() + at, bytes, child.rank);
  }
  up.send(all.data(), all.size());
  if (up.is_root() && root != 0)
    std::rotate(all.begin(),
                all.begin() + static_cast<std::ptrdiff_t>(bytes_of(0, state.size - root)),
                all.end());
  return all;
}

std::string merge_up(
    const World& world, std::string mine,
    const std::function<void(std::string& so_far, const std::string& next)>& join) {
  GatherTreeMessages up(world.state(), 0, "merge_up");
  for (const GatherTree::Child& child : up.children()) {
    std::uint64_t bytes = 0;
    up.receive(&bytes, sizeof bytes, child.rank);
    std::string next(static_cast<std::size_t>(bytes), '\0');
    up.receive(next.data(), next.size(), child.rank);
    join(mine, next);
  }
  const std::uint64_t bytes = mine.size();
  require(bytes < (std::uint64_t{1} << 31), "a text of {} bytes is too long to send",
          bytes);
  up.send(&bytes, sizeof bytes);
  up.send(mine.data(), mine.size());
  return mine;
}

}  // namespace trireme::comm
