// NodeMemory: one window, which lies with the first rank of the node.
// SPDX-License-Identifier: Apache-2.0
#include "comm/mpi/node_memory.hpp"

#include <algorithm>

namespace trireme::comm {

NodeMemory::NodeMemory(MPI_Comm node, int words_of_each) {
  int rank = 0, size = 1;
  MPI_Comm_rank(node, &rank);
  MPI_Comm_size(node, &size);
  if (size == 1) return;  // nobody to share with
  const std::size_t count =
      1 + static_cast<std::size_t>(size) * static_cast<std::size_t>(words_of_each);
  constexpr int word = sizeof(std::uint64_t);
  void* base = nullptr;
  if (MPI_Win_allocate_shared(rank == 0 ? static_cast<MPI_Aint>(count * word) : 0, word,
                              MPI_INFO_NULL, node, static_cast<void*>(&base),
                              &window_) != MPI_SUCCESS) {
    window_ = MPI_WIN_NULL;
    return;
  }
  MPI_Win_set_errhandler(window_, MPI_ERRORS_RETURN);
  MPI_Aint bytes = 0;
  int unit = 0;
  if (MPI_Win_shared_query(window_, 0, &bytes, &unit, static_cast<void*>(&base)) ==
          MPI_SUCCESS &&
      bytes >= static_cast<MPI_Aint>(count * word))
    words_ = {static_cast<std::uint64_t*>(base), count};
  if (rank == 0) std::fill(words_.begin(), words_.end(), 0);
  MPI_Barrier(node);
}

NodeMemory::~NodeMemory() {
  if (window_ != MPI_WIN_NULL) MPI_Win_free(&window_);
}

}  // namespace trireme::comm
