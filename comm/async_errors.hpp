// Watches for what GPUs do by themselves while the host does other work.
// SPDX-License-Identifier: Apache-2.0
// That is collectives that end, and errors that no call returns.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

namespace trireme::comm {

// A set of communicators whose work goes on without the host. Any thread may call.
class AsyncSource {
 public:
  virtual ~AsyncSource() = default;
  // Ends the trace's entries of what has passed. Throws Error(transport) naming group,
  // collective and sequence number when something has failed.
  virtual void look() = 0;
};

// The sources of this process.
class AsyncErrors {
 public:
  void add(AsyncSource* source);
  void remove(AsyncSource* source);
  // Looks at all. The first error is thrown once; later ones are its consequences.
  void look();

 private:
  std::mutex mutex_;
  std::vector<AsyncSource*> sources_;
  bool thrown_ = false;
};

AsyncErrors& async_errors();

}  // namespace trireme::comm
