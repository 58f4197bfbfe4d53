// World::gather_text: texts of different lengths to one rank.
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <limits>

#include "comm/mpi/state.hpp"
#include "comm/world.hpp"

namespace trireme::comm {

std::vector<std::string> World::gather_text(const std::string& text, int root) {
  require(root >= 0 && root < size_, "gather_text on rank {} of {}", root, size_);
  const bool is_root = rank_ == root;
  const auto ranks = is_root ? static_cast<std::size_t>(size_) : 0;
  const std::uint64_t bytes = text.size();
  std::vector<std::uint64_t> all_bytes(ranks);
  MPI_Request request;
  check_mpi(MPI_Igather(&bytes, 1, MPI_UINT64_T, all_bytes.data(), 1, MPI_UINT64_T, root,
                        state_->world.get(), &request),
            "MPI_Igather");
  state_->wait(request, "gather_text");

  // MPI counts in int: what does not fit is known on every rank before anything is sent.
  std::uint64_t total = 0;
  std::vector<int> counts(ranks), offsets(ranks);
  for (std::size_t r = 0; r < ranks; ++r) {
    offsets[r] = static_cast<int>(total);
    counts[r] = static_cast<int>(all_bytes[r]);
    total += all_bytes[r];
  }
  const double most = std::numeric_limits<int>::max();
  require(sum(static_cast<double>(bytes)) <= most,
          "gather_text of more than {} bytes together", most);
  std::string joined(is_root ? total : 0, '\0');
  check_mpi(MPI_Igatherv(text.data(), static_cast<int>(bytes), MPI_CHAR, joined.data(),
                         counts.data(), offsets.data(), MPI_CHAR, root,
                         state_->world.get(), &request),
            "MPI_Igatherv");
  state_->wait(request, "gather_text");

  std::vector<std::string> texts(ranks);
  for (std::size_t r = 0; r < ranks; ++r)
    texts[r] = joined.substr(static_cast<std::size_t>(offsets[r]),
                             static_cast<std::size_t>(counts[r]));
  return texts;
}

}  // namespace trireme::comm
