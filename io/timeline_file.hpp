// TimelineFile: a rank's timeline as a trace that Perfetto and chrome://tracing open.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/descriptor.hpp"
#include "base/directory.hpp"
#include "base/temporary_files.hpp"
#include "base/timeline.hpp"

namespace trireme::io {

// An object of the Trace Event Format (Google, 2016). A rank is a process: pid. A range
// of a thread is a complete event ("X") in the row of that thread: tid. A collective in
// flight is an async event ("b" and "e"), because those of one rank overlap. Times are in
// microseconds, to the nanosecond.
class TimelineFile {
 public:
  struct Process {
    int rank = 0, ranks = 1;
    std::string host;
    std::int64_t zero_ns = 0;  // of Timeline::now(): time 0 of the file
    std::string zero;          // what that moment is, in words
  };

  // A new file, under a temporary name until close(). Throws Error(cannot_create).
  TimelineFile(const Directory& folder, std::string name, Process process);

  // Throws Error(io), as close() does.
  void write(const Timeline::Event& event);
  // The rows' names, and how many events were dropped for want of room. The file gets its
  // name, in the place of one that bore it.
  void close(std::int64_t dropped);

 private:
  void add(const std::string& object);
  void metadata(const std::string& name, int thread, const std::string& arguments);
  void flush();
  std::string microseconds(std::int64_t nanoseconds) const;

  Directory folder_;
  std::string name_, draft_;
  Process process_;
  std::unique_ptr<TemporaryFile> unfinished_;
  Descriptor file_;
  std::string text_;
  bool has_events_ = false;
  int last_thread_ = 0;
};

}  // namespace trireme::io
