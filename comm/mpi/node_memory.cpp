// NodeMemory: one window, which lies with the first rank of the node.
// SPDX-License-Identifier: Apache-2.0
#include "comm/mpi/node_memory.hpp"

#include <algorithm>
#include <cstddef>

#include "comm/mpi/communicator.hpp"

namespace trireme::comm {

namespace {

// The memory of `window`, which lies with the first rank; nothing if it is not there.
std::span<std::uint64_t> words_of(MPI_Win window, std::size_t count) {
  void* base = nullptr;
  MPI_Aint bytes = 0;
  int unit = 0;
  MPI_Win_set_errhandler(window, MPI_ERRORS_RETURN);
  if (MPI_Win_shared_query(window, 0, &bytes, &unit, static_cast<void*>(&base)) !=
          MPI_SUCCESS ||
      bytes < static_cast<MPI_Aint>(count * sizeof(std::uint64_t)))
    return {};
  return {static_cast<std::uint64_t*>(base), count};
}

}  // namespace

NodeMemory::NodeMemory(MPI_Comm node, int words_of_each,
                       const std::function<int(int)>& lowest) {
  int rank = 0, size = 1;
  check_mpi(MPI_Comm_rank(node, &rank), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(node, &size), "MPI_Comm_size");
  if (size == 1) return;  // nobody to share with
  const std::size_t count =
      1 + static_cast<std::size_t>(size) * static_cast<std::size_t>(words_of_each);
  constexpr int word = sizeof(std::uint64_t);
  void* own = nullptr;
  const int made =
      MPI_Win_allocate_shared(rank == 0 ? static_cast<MPI_Aint>(count * word) : 0, word,
                              MPI_INFO_NULL, node, static_cast<void*>(&own), &window_);
  if (made == MPI_SUCCESS) words_ = words_of(window_, count);
  if (rank == 0) std::fill(words_.begin(), words_.end(), 0);
  if (lowest(words_.empty() ? 0 : 1) == 1) return;
  words_ = {};
  window_ = MPI_WIN_NULL;  // some rank may have none, and freeing it is collective
}

NodeMemory::~NodeMemory() {
  if (window_ != MPI_WIN_NULL) MPI_Win_free(&window_);
}

}  // namespace trireme::comm
