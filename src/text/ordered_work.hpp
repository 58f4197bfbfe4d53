// OrderedWork: work on several threads, whose results are taken in the order of the work.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace trireme::text {

// One thread works on the caller's. More work beside it, while the caller adds further
// work and takes what is done; as many as the system starts, if these are fewer.
class OrderedWork {
 public:
  using Turn = std::function<void()>;
  // `thread`, below the number of threads, does nothing else at the time.
  using Work = std::function<Turn(std::size_t thread)>;

  // What is under way at once may have, for each thread.
  static constexpr std::size_t most_bytes_of_a_thread = std::size_t{128} << 20;

  explicit OrderedWork(int threads);
  OrderedWork(const OrderedWork&) = delete;
  OrderedWork& operator=(const OrderedWork&) = delete;
  // Waits for the work that has begun; what is left is not done.
  ~OrderedWork();

  // Runs `work` on some thread, and what it returns on the caller's: in add() or
  // finish(), in the order in which work was added. Waits first until what is under way
  // has no more than its `bytes` allow, or nothing is under way. Throws what the first
  // work, or turn, throws that does, behind the turns before it; nothing can be added
  // then, and finish() does nothing.
  void add(std::size_t bytes, Work work);
  // The turns that are left.
  void finish();

 private:
  struct Job {
    std::size_t bytes = 0;
    Work work;
    Turn turn;
    std::exception_ptr error;  // what the work throws
    bool done = false;         // under mutex_
  };

  void run(std::size_t thread);
  std::size_t most_bytes() const;
  // Takes jobs that are done, in their order, and waits for the first as long as more
  // than `most` bytes are under way.
  void take_done(std::size_t most);
  // Runs `turn`, or work and turn: nothing is taken after one that throws.
  void take(const Turn& turn);

  std::size_t largest_ = 0;  // bytes of a job so far
  bool failed_ = false;
  std::mutex mutex_;
  std::condition_variable more_, done_;
  std::deque<std::unique_ptr<Job>> under_way_;  // under mutex_
  std::size_t bytes_ = 0;                       // of them
  std::size_t next_ = 0;                        // of them that nobody works on yet
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace trireme::text
