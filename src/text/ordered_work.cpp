// Jobs in a queue: the thread that is free first takes the next one.
// SPDX-License-Identifier: Apache-2.0
#include "text/ordered_work.hpp"

#include <algorithm>
#include <system_error>
#include <utility>

namespace trireme::text {
namespace {

// Of a thread: enough that none waits while turns are taken.
constexpr std::size_t least_bytes = std::size_t{1} << 20;

}  // namespace

OrderedWork::OrderedWork(int threads) {
  if (threads <= 1) return;
  try {
    for (std::size_t thread = 0; thread < static_cast<std::size_t>(threads); ++thread)
      threads_.emplace_back([this, thread] { run(thread); });
  } catch (const std::system_error&) {
    // The system starts no more: those that run do all the work, or else the caller's.
  }
}

OrderedWork::~OrderedWork() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  more_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

// A thread's life.
void OrderedWork::run(std::size_t thread) {
  std::unique_lock lock(mutex_);
  while (true) {
    more_.wait(lock, [this] { return stopping_ || next_ < under_way_.size(); });
    if (stopping_) return;
    Job& job = *under_way_[next_++];
    lock.unlock();
    try {
      job.turn = job.work(thread);
    } catch (...) {
      job.error = std::current_exception();
    }
    lock.lock();
    job.done = true;
    done_.notify_one();
  }
}

// While a thread is at the largest, which keeps the turns of all behind it waiting, the
// others work through as much each: twice as much keeps them busy, with a job in hand.
std::size_t OrderedWork::most_bytes() const {
  return threads_.size() * std::clamp(2 * largest_, least_bytes, most_bytes_of_a_thread);
}

void OrderedWork::add(std::size_t bytes, Work work) {
  if (threads_.empty()) {
    take([&] { work(0)(); });
    return;
  }
  auto job = std::make_unique<Job>();
  job->bytes = bytes + sizeof(Job);
  job->work = std::move(work);
  largest_ = std::max(largest_, job->bytes);
  const std::size_t most = most_bytes();
  take_done(most - std::min(most, job->bytes));
  {
    const std::lock_guard lock(mutex_);
    bytes_ += job->bytes;
    under_way_.push_back(std::move(job));
  }
  more_.notify_one();
}

void OrderedWork::finish() {
  if (!failed_) take_done(0);
}

void OrderedWork::take_done(std::size_t most) {
  std::unique_lock lock(mutex_);
  while (!under_way_.empty()) {
    if (bytes_ > most) done_.wait(lock, [this] { return under_way_.front()->done; });
    if (!under_way_.front()->done) return;
    const std::unique_ptr<Job> job = std::move(under_way_.front());
    under_way_.pop_front();
    bytes_ -= job->bytes;
    --next_;
    lock.unlock();
    take([&] {
      if (job->error) std::rethrow_exception(job->error);
      job->turn();
    });
    lock.lock();
  }
}

void OrderedWork::take(const Turn& turn) {
  try {
    turn();
  } catch (...) {
    failed_ = true;
    throw;
  }
}

}  // namespace trireme::text
