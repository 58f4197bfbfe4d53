// OutOfMemory: an allocation that failed, and what the program knows to say about it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include "base/error.hpp"

namespace trireme {

// Of Status::resources. Its message names what was to be allocated.
class OutOfMemory : public Error {
 public:
  explicit OutOfMemory(const std::string& message,
                       std::source_location at = std::source_location::current())
      : Error(Status::resources, message, at) {}
};

// From here on `advice` is what users read beside the message of an allocation that
// failed: of OutOfMemory and of std::bad_alloc. It may allocate small amounts, and may
// throw: then it says nothing.
void advise_on_memory(std::function<std::string()> advice);

// The advice, on lines of its own; empty where there is none.
std::string out_of_memory_advice() noexcept;

}  // namespace trireme
