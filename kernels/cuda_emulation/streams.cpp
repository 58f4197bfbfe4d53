// Streams as queues of work that runs when the host asks for its end.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda_emulation/streams.hpp"

#include <algorithm>
#include <utility>

#include "kernels/cuda_emulation/api_call.hpp"
#include "kernels/cuda_emulation/device_memory.hpp"
#include "kernels/cuda_emulation/devices.hpp"
#include "kernels/cuda_emulation/settings.hpp"
#include "kernels/cuda_emulation/stall.hpp"

namespace trireme::cuda_emulation {
namespace {

constexpr std::size_t longest_queue = 4096;

}  // namespace

Streams& Streams::get() {
  static Streams& streams = *new Streams;
  return streams;
}

CUstream_st* Streams::create(bool blocking, int priority) {
  auto* stream = new CUstream_st;
  stream->blocking = blocking;
  stream->priority = priority;
  stream->device = current_device();
  all_.push_back(stream);
  return stream;
}

void Streams::destroy(CUstream_st* stream) {
  run(*stream);
  std::erase(all_, stream);
  delete stream;
}

CUstream_st* Streams::find(cudaStream_t handle) {
  if (handle == nullptr || handle == cudaStreamLegacy) return &default_;
  return std::find(all_.begin() + 1, all_.end(), handle) != all_.end() ? handle : nullptr;
}

CUevent_st* Streams::create_event(bool timed) {
  auto* event = new CUevent_st;
  event->timed = timed;
  events_.insert(event);
  return event;
}

void Streams::destroy_event(CUevent_st* event) {
  events_.erase(event);
  delete event;
}

void Streams::push(CUstream_st& stream, Item item) {
  stream.queue.push_back(std::move(item));
  ++stream.queued;
}

// A record at the end of the queue.
std::shared_ptr<Record> Streams::mark(CUstream_st& stream) {
  auto record = std::make_shared<Record>(Record{&stream, stream.queued + 1});
  push(stream, {[record] {
                  record->done = true;
                  record->time = std::chrono::steady_clock::now();
                  return true;
                },
                nullptr});
  return record;
}

// What the legacy default stream begins waits for all blocking streams, and they for it.
void Streams::order_after_others(CUstream_st& stream) {
  if (!stream.blocking) return;
  for (CUstream_st* other : all_) {
    if (other == &stream || !other->blocking || other->queue.empty()) continue;
    if (&stream != &default_ && other != &default_) continue;
    push(stream, {nullptr, mark(*other)});
  }
}

void Streams::run_if_due(CUstream_st& stream) {
  if (!settings().lazy_streams || stream.queue.size() > longest_queue) look(stream);
}

// A stream that records would depend on the legacy default stream.
cudaError_t Streams::implicit_refusal(const CUstream_st& stream) {
  if (&stream != &default_) return cudaSuccess;
  for (CUstream_st* other : all_) {
    if (other->blocking && other->recorded.capture != nullptr)
      return other->recorded.capture->invalidate(cudaErrorStreamCaptureImplicit);
  }
  return cudaSuccess;
}

cudaError_t Streams::add(CUstream_st& stream, std::function<void()> work) {
  if (stream.recorded.capture != nullptr)
    return stream.recorded.capture->add(stream, std::move(work));
  return add_spinning(stream, [work = std::move(work)] {
    work();
    return true;
  });
}

cudaError_t Streams::add_spinning(CUstream_st& stream, std::function<bool()> work) {
  if (stream.recorded.capture != nullptr)
    return stream.recorded.capture->invalidate(cudaErrorStreamCaptureUnsupported);
  if (const cudaError_t error = implicit_refusal(stream)) return error;
  order_after_others(stream);
  push(stream, {std::move(work), nullptr});
  run_if_due(stream);
  return cudaSuccess;
}

cudaError_t Streams::add_record(CUstream_st& stream, CUevent_st& event) {
  if (stream.recorded.capture != nullptr) {
    if (!stream.recorded.capture->is_valid()) return cudaErrorStreamCaptureInvalidated;
    event.recorded = stream.recorded;
    event.record = nullptr;
    return cudaSuccess;
  }
  if (const cudaError_t error = implicit_refusal(stream)) return error;
  order_after_others(stream);
  event.recorded = {};
  event.record = mark(stream);
  run_if_due(stream);
  return cudaSuccess;
}

cudaError_t Streams::add_wait(CUstream_st& stream, const CUevent_st& event) {
  if (stream.recorded.capture != nullptr || event.recorded.capture != nullptr)
    return record_wait(stream, event);
  if (event.record == nullptr || event.record->done) return cudaSuccess;
  if (const cudaError_t error = implicit_refusal(stream)) return error;
  order_after_others(stream);
  push(stream, {nullptr, event.record});
  run_if_due(stream);
  return cudaSuccess;
}

// A wait of, or for, a stream that records: it stays inside of one recording.
cudaError_t Streams::record_wait(CUstream_st& stream, const CUevent_st& event) {
  const auto& mine = stream.recorded.capture;
  const auto& others = event.recorded.capture;
  if (mine != nullptr && !mine->is_valid()) return cudaErrorStreamCaptureInvalidated;
  if (others == nullptr)
    return event.record == nullptr ? cudaSuccess
                                   : mine->invalidate(cudaErrorStreamCaptureIsolation);
  if (others->has_ended()) return cudaErrorCapturedEvent;
  if (!others->is_valid()) return cudaErrorStreamCaptureInvalidated;
  if (&stream == &default_) return others->invalidate(cudaErrorStreamCaptureImplicit);
  if (mine != nullptr && mine != others) {
    mine->invalidate(cudaErrorStreamCaptureMerge);
    return others->invalidate(cudaErrorStreamCaptureMerge);
  }
  stream.recorded.capture = others;
  auto& last = stream.recorded.last;
  last.insert(last.end(), event.recorded.last.begin(), event.recorded.last.end());
  return cudaSuccess;
}

cudaError_t Streams::refusal() {
  for (CUstream_st* stream : all_) {
    Capture* const capture = stream->recorded.capture.get();
    if (capture != nullptr && capture->is_guarded())
      return capture->invalidate(cudaErrorStreamCaptureUnsupported);
  }
  return cudaSuccess;
}

cudaError_t Streams::refusal_of_device_wait() {
  for (CUstream_st* stream : all_) {
    if (stream->recorded.capture != nullptr)
      return stream->recorded.capture->invalidate(cudaErrorStreamCaptureUnsupported);
  }
  return cudaSuccess;
}

void Streams::leave(const Capture& capture) {
  for (CUstream_st* stream : all_) {
    if (stream->recorded.capture.get() == &capture) stream->recorded = {};
  }
}

// What an item waits for was queued before it, so this comes to an end; to the right one
// unless a kernel spins.
bool Streams::advance(CUstream_st& stream, std::uint64_t until) {
  while (stream.done < until) {
    const Item& item = stream.queue.front();
    if (item.waits_for != nullptr) {
      if (!item.waits_for->done &&
          !advance(*item.waits_for->stream, item.waits_for->after))
        return false;
    } else {
      running_ = true;
      const bool ended = item.work();
      running_ = false;
      if (!ended) return false;
    }
    stream.queue.pop_front();
    ++stream.done;
    note_progress();
  }
  return true;
}

// The mutex is free for a moment between two looks, as the device of a host that waits in
// one thread serves the others.
void Streams::wait(const std::function<bool()>& has_ended) {
  while (!has_ended()) {
    move();
    api_mutex().unlock();
    note_vain_look();
    api_mutex().lock();
  }
}

void Streams::begin_wait(const void* what, bool has_ended) {
  if (has_ended || waited_for_ == what) return;
  waited_for_ = what;
  ++waits_;
}

void Streams::move() {
  const OpenMemory open;
  ++rounds_;
  for (CUstream_st* stream : all_) advance(*stream, stream->queued);
}

bool Streams::look(CUstream_st& stream) {
  if (stream.queue.empty()) return true;
  const OpenMemory open;
  return advance(stream, stream.queued);
}

bool Streams::look(const Record& record) {
  if (record.done) return true;
  const OpenMemory open;
  return advance(*record.stream, record.after);
}

void Streams::run(CUstream_st& stream) {
  const std::uint64_t until = stream.queued;
  wait([&] {
    if (stream.done >= until) return true;
    const OpenMemory open;
    return advance(stream, until);
  });
}

void Streams::run_until(const Record& record) {
  wait([&] { return look(record); });
}

void Streams::run_all() {
  for (CUstream_st* stream : std::vector(all_)) run(*stream);
}

}  // namespace trireme::cuda_emulation
