// run_chunks() on Kokkos's OpenMP host space.
// SPDX-License-Identifier: Apache-2.0
#include <Kokkos_Core.hpp>
#include <exception>
#include <mutex>

#include "kernels/host/parallel.hpp"
#include "kernels/runtime/runtime.hpp"

namespace trireme::kernels {
namespace {
thread_local bool inside_chunk = false;
}

void run_chunks(const char* label, std::int64_t chunks, const ChunkBody& body) {
  if (chunks <= 1 || threads() == 1 || inside_chunk) {
    for (std::int64_t i = 0; i < chunks; ++i) body(i);
    return;
  }
  // An exception may not leave a parallel region: the first is kept and rethrown.
  std::exception_ptr failure;
  std::mutex failure_mutex;
  using Policy = Kokkos::RangePolicy<Kokkos::DefaultHostExecutionSpace,
                                     Kokkos::Schedule<Kokkos::Static>,
                                     Kokkos::IndexType<std::int64_t>>;
  Kokkos::parallel_for(label, Policy(0, chunks), [&](std::int64_t i) {
    inside_chunk = true;
    try {
      body(i);
    } catch (...) {
      const std::lock_guard lock(failure_mutex);
      if (!failure) failure = std::current_exception();
    }
    inside_chunk = false;
  });
  Kokkos::DefaultHostExecutionSpace().fence();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace trireme::kernels
