// Runs a grid block by block, each CUDA thread as a fiber.
// SPDX-License-Identifier: Apache-2.0
// A fiber goes on until it must wait.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <string>
#include <vector>

#include "cuda_emulation/launch.hpp"
#include "cuda_emulation/thread.hpp"
#include "kernels/cuda_emulation/context.hpp"
#include "kernels/cuda_emulation/settings.hpp"
#include "kernels/cuda_emulation/shared_memory.hpp"
#include "kernels/cuda_emulation/stacks.hpp"

namespace trireme::cuda_emulation {

inline constexpr unsigned most_threads = 1024;  // of a block
inline constexpr unsigned all_lanes = 0xffffffffu;

// Copies that cp.async began and whose data has not arrived.
struct PendingCopies {
  struct Copy {
    void* to;
    const void* from;  // null: zeros
    unsigned group;
  };
  std::vector<Copy> copies;
  unsigned committed = 0;  // groups
};

struct Thread {
  Context context;
  Stack* stack = nullptr;
  void* fake_stack = nullptr;  // the address sanitizer's
  uint3 index{};
  unsigned warp = 0, lane = 0;
  PendingCopies pending;
};

// Lanes that wait for each other at one operation.
struct Meeting {
  unsigned mask, arrived;
  WarpOperation operation;
  bool whole;  // needs all 32 lanes alive
  Complete complete;
};

// A bit per lane. Every lane that is alive is ready, waits in a meeting, waits at the
// block's barrier, or is the one that runs.
struct Warp {
  unsigned alive, ready, started, at_barrier;
  int meetings;
  std::array<Meeting, 32> meeting;
  std::array<void*, 32> arguments;
  std::array<Source, 32> where;
};

// Picks one of the set bits, by the order in force.
class Chooser {
 public:
  void set(Order order, std::uint64_t launch) {
    kind_ = order.kind;
    random_ = (order.seed + 1) * 0x9e3779b97f4a7c15u ^ launch * 0xbf58476d1ce4e5b9u;
    if (random_ == 0) random_ = 1;
  }
  unsigned choose(unsigned bits) {
    if (kind_ == Order::Kind::forward)
      return static_cast<unsigned>(std::countr_zero(bits));
    if (kind_ == Order::Kind::reverse) {
      return 31u - static_cast<unsigned>(std::countl_zero(bits));
    }
    const auto turn = static_cast<unsigned>(next() >> 32) & 31u;
    return (static_cast<unsigned>(
                std::countr_zero(std::rotr(bits, static_cast<int>(turn)))) +
            turn) &
           31u;
  }
  std::uint64_t next() {
    random_ ^= random_ << 13;
    random_ ^= random_ >> 7;
    random_ ^= random_ << 17;
    return random_;
  }
  Order::Kind kind() const { return kind_; }

 private:
  Order::Kind kind_ = Order::Kind::forward;
  std::uint64_t random_ = 1;
};

// One for the process; the caller sees to it that one host thread at a time uses it.
class Engine {
 public:
  static Engine& get();

  void run(const Kernel& kernel, dim3 grid, dim3 block, std::size_t shared_bytes);

  bool running() const { return current_ != nullptr; }
  Thread& current() { return *current_; }
  SharedMemory& shared() { return shared_; }
  std::size_t shared_bytes() const { return shared_bytes_; }

  // Of the running thread: see thread.hpp.
  void meet(WarpOperation operation, unsigned mask, bool whole, void* argument,
            Complete complete, const Source& where);
  int meet_block(BlockOperation operation, int predicate, const Source& where);
  [[noreturn]] void fail_here(const std::string& message, const Source& where);

 private:
  static void worker() noexcept;
  void set_threads(dim3 block);
  void begin_block();
  void run_block();
  void end_thread();
  bool next_on_this_stack();
  Thread& pick();
  void wait();
  void start(Thread& thread, Stack* stack);
  void enter(Thread& thread);
  void leave_for(Context& to, const Stack* stack);
  void wake(unsigned warp, unsigned lanes);
  Meeting& join(WarpOperation operation, unsigned mask, bool whole, Complete complete,
                const Source& where);
  bool finish_if_complete(unsigned warp, Meeting& meeting);
  void release_barrier();
  [[noreturn]] void fail_disagreement(unsigned lane, const std::string& operation,
                                      const Source& where);
  [[noreturn]] void fail_deadlock();
  std::string place() const;
  std::string lane_state(unsigned warp, unsigned lane) const;

  const Kernel* kernel_ = nullptr;
  std::uint64_t launches_ = 0;
  Chooser chooser_;
  Stacks stacks_;
  SharedMemory shared_;
  std::size_t shared_bytes_ = 0;

  Context host_, left_;
  void* host_fake_stack_ = nullptr;
  const void* host_bottom_ = nullptr;
  std::size_t host_bytes_ = 0;
  bool from_host_ = false;

  unsigned threads_ = 0;  // of a block
  unsigned alive_ = 0;
  unsigned ready_warps_ = 0;
  Thread* current_ = nullptr;
  std::array<Thread, most_threads> thread_;
  std::array<Warp, most_threads / 32> warp_;

  // The block's barrier.
  unsigned arrived_ = 0, nonzero_ = 0;
  BlockOperation barrier_operation_{};
  Source barrier_where_;
  int barrier_result_ = 0;
};

}  // namespace trireme::cuda_emulation
