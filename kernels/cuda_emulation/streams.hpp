// Streams as queues of work that runs when the host asks for its end.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <unordered_set>
#include <vector>

#include "cuda_emulation/api_types.hpp"
#include "kernels/cuda_emulation/capture.hpp"

namespace trireme::cuda_emulation {

// A point in a stream's queue.
struct Record {
  CUstream_st* stream;  // alive until `done`
  std::uint64_t after;  // how many of the stream's items come before
  bool done = false;
  std::chrono::steady_clock::time_point time{};
};

struct Item {
  std::function<bool()> work;  // true when it has ended; else it is called again. Or
  std::shared_ptr<Record> waits_for;
};

}  // namespace trireme::cuda_emulation

struct CUstream_st {
  bool blocking = true;  // waits for the legacy default stream, and it for this one
  int priority = 0, device = 0;
  std::deque<trireme::cuda_emulation::Item> queue;
  std::uint64_t queued = 0, done = 0;  // items ever
  trireme::cuda_emulation::Recorded recorded;
};

struct CUevent_st {
  bool timed = true;
  std::shared_ptr<trireme::cuda_emulation::Record> record;  // the latest, if any
  trireme::cuda_emulation::Recorded recorded;  // instead, in a stream that records
};

namespace trireme::cuda_emulation {

class Streams {
 public:
  static Streams& get();

  CUstream_st* create(bool blocking, int priority);
  void destroy(CUstream_st* stream);
  // The stream of a handle: null and cudaStreamLegacy are the default stream. Null where
  // there is no such stream.
  CUstream_st* find(cudaStream_t handle);

  CUevent_st* create_event(bool timed);
  void destroy_event(CUevent_st* event);
  bool is_event(cudaEvent_t event) const { return events_.contains(event); }

  // Each returns why it may not be queued now, if so.
  cudaError_t add(CUstream_st& stream, std::function<void()> work);
  // A kernel that spins: `work` returns false as long as it waits for another process.
  cudaError_t add_spinning(CUstream_st& stream, std::function<bool()> work);
  cudaError_t add_record(CUstream_st& stream, CUevent_st& event);
  cudaError_t add_wait(CUstream_st& stream, const CUevent_st& event);

  // Why a call that waits, or allocates, may not be made now, if so: a stream records
  // that such calls might disturb. That recording is lost.
  cudaError_t refusal();
  // The same for calls that wait for all streams.
  cudaError_t refusal_of_device_wait();
  void leave(const Capture& capture);  // every stream that is part of it

  // Return when it has ended: all that is queued, and what it waits for. Meanwhile other
  // host threads may call.
  void run(CUstream_st& stream);
  void run_until(const Record& record);
  void run_all();
  // The same as far as it comes without waiting; true: it has ended.
  bool look(CUstream_st& stream);
  bool look(const Record& record);
  // Lets every stream come as far as it can, as a device does by itself.
  void move();
  // The host waits for `what`, if that has not ended: from now on, or as it already did;
  // and that its wait is over.
  void begin_wait(const void* what, bool has_ended);
  void end_wait() { waited_for_ = nullptr; }
  std::int64_t waits() const { return waits_; }
  // How often move() has run: what is ready has had its turn after two more.
  std::uint64_t rounds() const { return rounds_; }
  bool running() const { return running_; }  // whether an item runs now

 private:
  Streams() { all_.push_back(&default_); }
  void push(CUstream_st& stream, Item item);
  std::shared_ptr<Record> mark(CUstream_st& stream);
  void order_after_others(CUstream_st& stream);
  cudaError_t implicit_refusal(const CUstream_st& stream);
  cudaError_t record_wait(CUstream_st& stream, const CUevent_st& event);
  void run_if_due(CUstream_st& stream);
  bool advance(CUstream_st& stream, std::uint64_t until);
  void wait(const std::function<bool()>& has_ended);

  CUstream_st default_;
  std::vector<CUstream_st*> all_;  // in the order of creation
  std::unordered_set<CUevent_st*> events_;
  bool running_ = false;
  std::uint64_t rounds_ = 0;
  std::int64_t waits_ = 0;
  const void* waited_for_ = nullptr;  // in the wait that goes on
};

}  // namespace trireme::cuda_emulation
