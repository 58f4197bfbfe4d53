// Streams as queues of work that runs when the host asks for its end.
// SPDX-License-Identifier: Apache-2.0
#include "streams.hpp"

#include <algorithm>
#include <utility>

#include "device_memory.hpp"
#include "settings.hpp"

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
  if (!settings().lazy_streams || stream.queue.size() > longest_queue) run(stream);
}

void Streams::add(CUstream_st& stream, std::function<void()> work) {
  order_after_others(stream);
  push(stream, {std::move(work), nullptr});
  run_if_due(stream);
}

std::shared_ptr<Record> Streams::add_record(CUstream_st& stream) {
  order_after_others(stream);
  auto record = mark(stream);
  run_if_due(stream);
  return record;
}

void Streams::add_wait(CUstream_st& stream, std::shared_ptr<Record> record) {
  if (record == nullptr || record->done) return;
  order_after_others(stream);
  push(stream, {nullptr, std::move(record)});
  run_if_due(stream);
}

// What an item waits for was queued before it, so this ends.
void Streams::run_items(CUstream_st& stream, std::uint64_t until) {
  while (stream.done < until) {
    const Item item = std::move(stream.queue.front());
    stream.queue.pop_front();
    if (item.waits_for != nullptr) {
      if (!item.waits_for->done)
        run_items(*item.waits_for->stream, item.waits_for->after);
    } else {
      running_ = true;
      item.work();
      running_ = false;
    }
    ++stream.done;
  }
}

void Streams::run(CUstream_st& stream) {
  if (stream.queue.empty()) return;
  const OpenMemory open;
  run_items(stream, stream.queued);
}

void Streams::run_until(const Record& record) {
  if (record.done) return;
  const OpenMemory open;
  run_items(*record.stream, record.after);
}

void Streams::run_all() {
  for (CUstream_st* stream : all_) run(*stream);
}

}  // namespace trireme::cuda_emulation
