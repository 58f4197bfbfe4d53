// The world's own gathers.
// SPDX-License-Identifier: Apache-2.0
#include "comm/mpi/world_tree.hpp"

#include <algorithm>
#include <cstring>

#include "comm/collective.hpp"
#include "comm/merge_up.hpp"

namespace trireme::comm {
namespace {

constexpr int tree_tag = 0;

// This rank's place, and its messages in the tree.
class Up {
 public:
  Up(WorldState& state, int root, const char* operation)
      : state_(state),
        root_(root),
        place_(tree_place(state.rank, root, state.size)),
        call_(state, operation) {}

  int ranks() const { return subtree(place_, state_.size); }
  bool is_root() const { return place_.parent < 0; }

  // f(first row of the child's subtree, its rows, rank) for each child, nearest first.
  template <class F>
  void for_children(const F& f) const {
    for (int m = 1; m <= place_.first_child && place_.position + m < state_.size; m *= 2)
      f(m, std::min(m, state_.size - place_.position - m),
        (place_.position + m + root_) % state_.size);
  }
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
    check_mpi(MPI_Isend(from, static_cast<int>(bytes), MPI_BYTE, place_.parent, tree_tag,
                        state_.world.get(), &request),
              "MPI_Isend");
    call_.wait(request);
  }

 private:
  WorldState& state_;
  int root_;
  TreePlace place_;
  WorldCall call_;
};

}  // namespace

std::vector<std::byte> gather_rows(WorldState& state, const void* row, std::size_t bytes,
                                   int root, const char* operation) {
  Up up(state, root, operation);
  std::vector<std::byte> rows(static_cast<std::size_t>(up.ranks()) * bytes);
  std::memcpy(rows.data(), row, bytes);
  up.for_children([&](int first, int count, int child) {
    up.receive(rows.data() + static_cast<std::size_t>(first) * bytes,
               static_cast<std::size_t>(count) * bytes, child);
  });
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
  Up up(state, root, operation);
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
  up.for_children([&](int first, int count, int child) {
    const std::size_t bytes = bytes_of(first, count), at = all.size();
    all.resize(at + bytes);
    up.receive(all.data() + at, bytes, child);
  });
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
  Up up(world.state(), 0, "merge_up");
  up.for_children([&](int, int, int child) {
    std::uint64_t bytes = 0;
    up.receive(&bytes, sizeof bytes, child);
    std::string next(static_cast<std::size_t>(bytes), '\0');
    up.receive(next.data(), next.size(), child);
    join(mine, next);
  });
  const std::uint64_t bytes = mine.size();
  require(bytes < (std::uint64_t{1} << 31), "a text of {} bytes is too long to send",
          bytes);
  up.send(&bytes, sizeof bytes);
  up.send(mine.data(), mine.size());
  return mine;
}

}  // namespace trireme::comm
