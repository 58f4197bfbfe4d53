// StartWatch: ends a job whose ranks do not all come through MPI's start.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace trireme::comm {

// Lives while MPI starts. A thread of its own, which calls no MPI but MPI_Abort, ends the
// process with Status::hang when that takes longer than start_seconds(), and with it the
// job. It says what the rank waits in, and which ranks of this host have not started the
// program, or are stopped. The first rank of a host that knows of such speaks first, the
// others later, so that the launcher has mostly ended them before. None for a process
// without a launcher.
class StartWatch {
 public:
  StartWatch();
  ~StartWatch();
  StartWatch(const StartWatch&) = delete;
  StartWatch& operator=(const StartWatch&) = delete;

  // What is waited in from here on; a text that lives.
  void enter(const char* place) { place_ = place; }

 private:
  bool is_over(std::chrono::duration<double> wait);
  void run();

  double seconds_ = 0;
  std::atomic<const char*> place_{"MPI_Init"};
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace trireme::comm
