// Errors that carry an exit status and the place in the source where they were raised.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <source_location>
#include <stdexcept>
#include <string>

#include "base/format.hpp"

namespace trireme {

// Exit status of the program, after sysexits.h and our own from 80 on.
enum class Status : int {
  done = 0,
  command_line = 64,   // command line wrong
  bad_content = 65,    // deck, data or checkpoint content wrong
  missing_input = 66,  // an input file is missing or cannot be opened
  internal = 70,       // a bug in this program
  transport = 71,      // MPI, NCCL or CUDA failed
  cannot_create = 73,  // an output file or directory cannot be created
  io = 74,             // reading or writing failed
  run_again = 75,      // a checkpoint was written before a signal or time limit
  resources = 78,      // the ranks or devices at hand do not fit the deck
  diverged = 80,       // training diverged
  corruption = 81,     // suspected hardware corruption
  hang = 82,           // a collective or a step exceeded its deadline
};

// The one exception type: a message for the user, an exit status and the raising line.
class Error : public std::runtime_error {
 public:
  Error(Status status, const std::string& message,
        std::source_location at = std::source_location::current())
      : std::runtime_error(message), status_(status), at_(at) {}

  Status status() const { return status_; }
  const std::source_location& where() const { return at_; }

 private:
  Status status_;
  std::source_location at_;
};

// A format string that remembers where it was written. The location rides in the message
// type because a defaulted argument cannot follow a parameter pack.
struct Message {
  std::string_view text;
  std::source_location at;
  Message(const char* t, std::source_location l = std::source_location::current())
      : text(t), at(l) {}
};

// Throws Error(status) with `message`, whose "{}" are replaced by `args` in order.
template <class... Args>
[[noreturn]] void fail(Status status, Message message, const Args&... args) {
  throw Error(status, format(message.text, args...), message.at);
}

// Throws Error(status) unless `condition` holds.
template <class... Args>
void require(bool condition, Status status, Message message, const Args&... args) {
  if (!condition) [[unlikely]]
    fail(status, message, args...);
}

// Throws Error(Status::internal) unless `condition` holds: for invariants of our own
// code.
template <class... Args>
void require(bool condition, Message message, const Args&... args) {
  if (!condition) [[unlikely]]
    fail(Status::internal, message, args...);
}

}  // namespace trireme
