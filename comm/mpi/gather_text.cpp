// World: texts of different lengths to one rank, and between the ranks of a node.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <limits>

#include "comm/mpi/world_tree.hpp"
#include "comm/world.hpp"

namespace trireme::comm {

std::vector<std::string> World::gather_text(const std::string& text, int root) {
  require(root >= 0 && root < size_, "gather_text on rank {} of {}", root, size_);
  const std::uint64_t bytes = text.size();
  const auto lengths = gather_rows(*state_, &bytes, sizeof bytes, root, "gather_text");
  // MPI counts in int: what does not fit is known on every rank before anything is sent.
  const double most = std::numeric_limits<int>::max();
  require(sum(static_cast<double>(bytes)) <= most,
          "gather_text of more than {} bytes together", most);
  const std::string joined = gather_bytes(*state_, text, lengths, root, "gather_text");
  if (rank_ != root) return {};
  std::vector<std::string> texts(static_cast<std::size_t>(size_));
  std::size_t at = 0;
  for (std::size_t r = 0; r < texts.size(); ++r) {
    std::uint64_t length = 0;
    std::memcpy(&length, lengths.data() + r * sizeof length, sizeof length);
    texts[r] = joined.substr(at, static_cast<std::size_t>(length));
    at += static_cast<std::size_t>(length);
  }
  return texts;
}

std::vector<std::string> World::gather_on_node(const std::string& text) {
  using Place = std::array<char, 256>;  // ends with a zero
  require(text.size() < sizeof(Place), "gather_on_node of {} bytes", text.size());
  if (state_->alone()) return {text};
  Place mine{};
  std::copy(text.begin(), text.end(), mine.begin());
  std::vector<Place> all(static_cast<std::size_t>(ranks_on_node_));
  MPI_Request request;
  check_mpi(MPI_Iallgather(mine.data(), sizeof(Place), MPI_BYTE, all.data(),
                           sizeof(Place), MPI_BYTE, state_->node.get(), &request),
            "MPI_Iallgather");
  state_->wait(request, "gather_on_node");
  std::vector<std::string> texts;
  for (const Place& place : all) texts.emplace_back(place.data());
  return texts;
}

}  // namespace trireme::comm
