// The emulated runtime: streams and events.
// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime_api.h>

#include <utility>

#include "cuda_emulation/control.hpp"
#include "kernels/cuda_emulation/api_call.hpp"
#include "kernels/cuda_emulation/device_memory.hpp"

using namespace trireme::cuda_emulation;

namespace trireme::cuda_emulation {
namespace {

// Calls `body` with the stream of a handle.
template <class Body>
cudaError_t with_stream(cudaStream_t handle, Body body, Asks asks = Asks::no) {
  return call(
      [&] {
        CUstream_st* stream = Streams::get().find(handle);
        if (stream == nullptr) return cudaErrorInvalidResourceHandle;
        return body(*stream);
      },
      asks);
}

template <class Body>
cudaError_t with_event(cudaEvent_t event, Body body, Asks asks = Asks::no) {
  return call(
      [&] {
        if (!Streams::get().is_event(event)) return cudaErrorInvalidResourceHandle;
        return body(*event);
      },
      asks);
}

// Whether what has been asked for has ended. The host may ask until it has, so that every
// stream comes on by each question.
cudaError_t answer(bool ended) {
  if (ended) return cudaSuccess;
  Streams::get().move();
  note_vain_look();
  return cudaErrorNotReady;
}

cudaError_t finish(cudaStream_t handle, Asks asks) {
  return with_stream(
      handle,
      [asks](CUstream_st& stream) {
        if (stream.recorded.capture != nullptr)
          return stream.recorded.capture->invalidate(cudaErrorStreamCaptureUnsupported);
        if (const cudaError_t error = Streams::get().refusal()) return error;
        Streams::get().begin_wait(&stream, stream.done == stream.queued);
        const bool ended = asks == Asks::no || Streams::get().look(stream);
        if (ended) Streams::get().end_wait();
        if (asks == Asks::yes) return answer(ended);
        Streams::get().run(stream);
        return cudaSuccess;
      },
      asks);
}

cudaError_t finish(cudaEvent_t handle, Asks asks) {
  return with_event(
      handle,
      [asks](CUevent_st& event) {
        if (event.recorded.capture != nullptr)
          return event.recorded.capture->invalidate(cudaErrorCapturedEvent);
        if (const cudaError_t error = Streams::get().refusal()) return error;
        const std::shared_ptr<Record> record = event.record;
        if (record == nullptr) return cudaSuccess;
        if (asks == Asks::yes) return answer(Streams::get().look(*record));
        Streams::get().begin_wait(&event, record->done);
        Streams::get().end_wait();
        Streams::get().run_until(*record);
        return cudaSuccess;
      },
      asks);
}

}  // namespace

std::int64_t host_waits() {
  const std::lock_guard lock(api_mutex());
  return Streams::get().waits();
}

Calls& counted_calls() {
  static Calls calls;
  return calls;
}

Calls calls() {
  const std::lock_guard lock(api_mutex());
  return counted_calls();
}

cudaError_t enqueue(cudaStream_t handle, std::function<void()> work) {
  return with_stream(handle, [&](CUstream_st& stream) {
    return Streams::get().add(stream, std::move(work));
  });
}

}  // namespace trireme::cuda_emulation

cudaError_t cudaDeviceSynchronize() {
  return call([] {
    if (const cudaError_t error = Streams::get().refusal_of_device_wait()) return error;
    Streams::get().run_all();
    const OpenMemory open;
    DeviceMemory::get().check();
    return cudaSuccess;
  });
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags,
                                         int priority) {
  return call([&] {
    if (stream == nullptr || flags > cudaStreamNonBlocking) return cudaErrorInvalidValue;
    *stream = Streams::get().create(flags == cudaStreamDefault, priority);
    return cudaSuccess;
  });
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}
cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return cudaStreamCreateWithPriority(stream, cudaStreamDefault, 0);
}

cudaError_t cudaStreamGetPriority(cudaStream_t handle, int* priority) {
  return with_stream(handle, [&](CUstream_st& stream) {
    if (priority == nullptr) return cudaErrorInvalidValue;
    *priority = stream.priority;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  return with_stream(handle, [&](CUstream_st& stream) {
    if (&stream != handle) return cudaErrorInvalidResourceHandle;  // the default stream
    if (stream.recorded.capture != nullptr)
      return stream.recorded.capture->invalidate(cudaErrorStreamCaptureUnsupported);
    Streams::get().destroy(&stream);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return finish(stream, Asks::no);
}
cudaError_t cudaStreamQuery(cudaStream_t stream) { return finish(stream, Asks::yes); }

cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event, unsigned flags) {
  return with_stream(handle, [&](CUstream_st& stream) {
    if (!Streams::get().is_event(event)) return cudaErrorInvalidResourceHandle;
    if (flags != cudaEventWaitDefault) return cudaErrorInvalidValue;
    ++counted_calls().event_waits;
    return Streams::get().add_wait(stream, *event);
  });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return call([&] {
    if (event == nullptr) return cudaErrorInvalidValue;
    if ((flags & ~(cudaEventBlockingSync | cudaEventDisableTiming)) != 0) {
      return cudaErrorNotSupported;
    }
    *event = Streams::get().create_event((flags & cudaEventDisableTiming) == 0);
    return cudaSuccess;
  });
}
cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t handle) {
  return with_event(handle, [](CUevent_st& event) {
    Streams::get().destroy_event(&event);
    return cudaSuccess;
  });
}

cudaError_t cudaEventRecord(cudaEvent_t handle, cudaStream_t stream_handle) {
  return with_event(handle, [&](CUevent_st& event) {
    CUstream_st* stream = Streams::get().find(stream_handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    ++counted_calls().event_records;
    return Streams::get().add_record(*stream, event);
  });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) { return finish(event, Asks::no); }
cudaError_t cudaEventQuery(cudaEvent_t event) { return finish(event, Asks::yes); }

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start,
                                 cudaEvent_t end) {
  return call([&] {
    if (milliseconds == nullptr) return cudaErrorInvalidValue;
    for (const cudaEvent_t event : {start, end}) {
      if (Streams::get().is_event(event) && event->recorded.capture != nullptr)
        return event->recorded.capture->invalidate(cudaErrorCapturedEvent);
      if (!Streams::get().is_event(event) || !event->timed || event->record == nullptr) {
        return cudaErrorInvalidResourceHandle;
      }
    }
    if (!start->record->done || !end->record->done) return cudaErrorNotReady;
    const std::chrono::duration<float, std::milli> elapsed =
        end->record->time - start->record->time;
    *milliseconds = elapsed.count();
    return cudaSuccess;
  });
}
