// run_chunks() on OpenMP threads, for a Kokkos whose host space has no OpenMP.
// SPDX-License-Identifier: Apache-2.0
#include <omp.h>

#include <exception>

#include "kernels/host/parallel.hpp"
#include "kernels/runtime/runtime.hpp"

namespace trireme::kernels {

void run_chunks(const char* /*label*/, std::int64_t chunks, const ChunkBody& body) {
  if (chunks <= 1 || threads() == 1 || omp_in_parallel()) {
    for (std::int64_t i = 0; i < chunks; ++i) body(i);
    return;
  }
  // An exception may not leave a parallel region: the first is kept and rethrown.
  std::exception_ptr failure;
#pragma omp parallel for schedule(static) num_threads(threads())
  for (std::int64_t i = 0; i < chunks; ++i) {
    try {
      body(i);
    } catch (...) {
#pragma omp critical(trireme_chunk_failure)
      if (!failure) failure = std::current_exception();
    }
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace trireme::kernels
