// What every function of the emulated runtime does first and last.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mutex>

#include "cuda_emulation/api_types.hpp"
#include "cuda_emulation/control.hpp"
#include "kernels/cuda_emulation/devices.hpp"
#include "kernels/cuda_emulation/loading.hpp"
#include "kernels/cuda_emulation/stall.hpp"
#include "kernels/cuda_emulation/streams.hpp"

namespace trireme::cuda_emulation {

std::recursive_mutex& api_mutex();
Calls& counted_calls();                   // under that mutex
cudaError_t remember(cudaError_t error);  // for cudaGetLastError, if it is one

// Runs `body` alone among host threads. Work in a stream may not call the runtime. A
// question only asks, so that a host that does nothing else waits.
enum class Asks : bool { no, yes };
template <class Body>
cudaError_t call(Body body, Asks asks = Asks::no) {
  const std::lock_guard lock(api_mutex());
  if (Streams::get().running()) return remember(cudaErrorNotPermitted);
  note_first_call();
  note_context();
  if (asks == Asks::no) note_progress();
  return remember(body());
}

// The same for what may not be called while a stream records: it waits or allocates.
template <class Body>
cudaError_t guarded_call(Body body) {
  return call([&] {
    const cudaError_t error = Streams::get().refusal();
    return error == cudaSuccess ? body() : error;
  });
}

}  // namespace trireme::cuda_emulation
