// Threads that take the next piece of work.
// SPDX-License-Identifier: Apache-2.0
#include "base/side_by_side.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <system_error>
#include <thread>
#include <vector>

namespace trireme {
namespace {

void add_thread(std::vector<std::jthread>& threads, const std::function<void()>& run) {
  try {
    threads.emplace_back(run);
  } catch (const std::system_error&) {  // a limit of the system: the others do its work
  }
}

}  // namespace

void side_by_side(std::size_t count, std::size_t threads,
                  const std::function<void(std::size_t)>& work) {
  std::vector<std::exception_ptr> errors(count);
  std::atomic<std::size_t> next{0};
  const auto run = [&] {
    for (std::size_t i = next++; i < count; i = next++) try {
        work(i);
      } catch (...) {
        errors[i] = std::current_exception();
        return;
      }
  };
  {
    std::vector<std::jthread> others;
    others.reserve(threads);
    for (std::size_t i = 1; i < std::min(threads, count); ++i) add_thread(others, run);
    run();
  }
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
}

}  // namespace trireme
