// Collectives that a graph of a GPU holds: each launch counts and traces them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "base/device.hpp"

namespace trireme::comm {

// Whose work is in a graph, and who sees that a launch of it is over.
class RecordedWork {
 public:
  virtual ~RecordedWork() = default;
  // A launch was queued on `stream`, whose entries in the trace are `traces`: they end
  // when the stream has come this far.
  virtual void launched(Stream& stream, std::vector<std::int64_t> traces) = 0;
};

// The calls of groups while a graph was recorded. They are neither counted nor traced
// then, because nothing runs.
class RecordedCalls {
 public:
  // Counts a call once more, and enters it in the trace; returns its entry.
  using Enter = std::function<std::int64_t()>;

  void add(Enter enter) { calls_.push_back({std::move(enter), nullptr}); }
  // Of the call that was added last. Without it the call cannot be recorded.
  void set_work(RecordedWork& work) { calls_.back().work = &work; }

  bool empty() const { return calls_.empty(); }
  // After the graph was launched on `stream`.
  void replay(Stream& stream) const;

 private:
  struct Call {
    Enter enter;
    RecordedWork* work;  // lives longer than the graph
  };
  std::vector<Call> calls_;
};

// While one lives, collectives that this thread starts become part of `calls`.
class RecordingScope {
 public:
  explicit RecordingScope(RecordedCalls& calls);
  ~RecordingScope();
  RecordingScope(const RecordingScope&) = delete;
  RecordingScope& operator=(const RecordingScope&) = delete;
};

// Of this thread; null: nothing is recorded.
RecordedCalls* recorded_calls();

}  // namespace trireme::comm
