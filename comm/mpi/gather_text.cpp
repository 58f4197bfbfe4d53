// World::gather_text: texts of different lengths to one rank.
// SPDX-License-Identifier: Apache-2.0
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

}  // namespace trireme::comm
