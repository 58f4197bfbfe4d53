// Runs a grid block by block: which thread goes on, and where it waits.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda_emulation/block.hpp"

#include <numeric>

#include "kernels/cuda_emulation/fail.hpp"
#include "kernels/cuda_emulation/sanitizer.hpp"

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace trireme::cuda_emulation {

Engine& Engine::get() {
  static Engine& engine =
      *new Engine;  // never destroyed: threads may outlive static objects
  return engine;
}

void Engine::set_threads(dim3 block) {
  threads_ = block.x * block.y * block.z;
  unsigned i = 0;
  for (unsigned z = 0; z < block.z; ++z) {
    for (unsigned y = 0; y < block.y; ++y) {
      for (unsigned x = 0; x < block.x; ++x, ++i) {
        thread_[i].index = {x, y, z};
        thread_[i].warp = i / 32;
        thread_[i].lane = i % 32;
      }
    }
  }
}

void Engine::run(const Kernel& kernel, dim3 grid, dim3 block, std::size_t shared_bytes) {
  if (running()) fail("a kernel was launched while another ran");
  kernel_ = &kernel;
  chooser_.set(settings().order, launches_++);
  blockDim = block;
  gridDim = grid;
  shared_bytes_ = shared_bytes;
  set_threads(block);

  // Block `index` of a random order is (step * i + first) modulo the count.
  const auto count = std::uint64_t{grid.x} * grid.y * grid.z;
  const bool shuffled = chooser_.kind() == Order::Kind::shuffle;
  std::uint64_t step = shuffled ? chooser_.next() % count : 1;
  while (std::gcd(step, count) != 1) ++step;
  std::uint64_t index = shuffled ? chooser_.next() % count : 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto at = chooser_.kind() == Order::Kind::reverse ? count - 1 - index : index;
    blockIdx.x = static_cast<unsigned>(at % grid.x);
    blockIdx.y = static_cast<unsigned>(at / grid.x % grid.y);
    blockIdx.z = static_cast<unsigned>(at / grid.x / grid.y);
    run_block();
    index = (index + step) % count;  // a grid has fewer than 2^63 blocks
  }
  kernel_ = nullptr;
}

void Engine::begin_block() {
  alive_ = threads_;
  arrived_ = nonzero_ = 0;
  ready_warps_ = 0;
  for (unsigned w = 0; w * 32 < threads_; ++w) {
    const unsigned lanes = threads_ - w * 32;
    Warp& warp = warp_[w];
    warp.alive = warp.ready = lanes >= 32 ? all_lanes : (1u << lanes) - 1;
    warp.started = warp.at_barrier = 0;
    warp.meetings = 0;
    ready_warps_ |= 1u << w;
  }
}

void Engine::run_block() {
  begin_block();
  shared_.begin_block(shared_bytes_);
  Thread& first = pick();
  start(first, stacks_.take());
  enter(first);
  from_host_ = true;
  start_switch(&host_fake_stack_, first.stack->bottom, first.stack->bytes());
  switch_context(host_, first.context);
  finish_switch(host_fake_stack_, nullptr, nullptr);
  current_ = nullptr;
  shared_.end_block();
}

Thread& Engine::pick() {
  if (ready_warps_ == 0) fail_deadlock();
  const unsigned w = chooser_.choose(ready_warps_);
  Warp& warp = warp_[w];
  const unsigned lane = chooser_.choose(warp.ready);
  warp.ready &= ~(1u << lane);
  if (warp.ready == 0) ready_warps_ &= ~(1u << w);
  return thread_[w * 32 + lane];
}

void Engine::start(Thread& thread, Stack* stack) {
  warp_[thread.warp].started |= 1u << thread.lane;
  thread.stack = stack;
  thread.fake_stack = nullptr;
  thread.context = make_context(stack->bottom, stack->top, &Engine::worker);
}

void Engine::enter(Thread& thread) {
  current_ = &thread;
  threadIdx = thread.index;
}

// Stops the running thread until it is picked again.
void Engine::wait() {
  Thread& self = *current_;
  Thread& next = pick();
  if (&next == &self) return;
  if ((warp_[next.warp].started >> next.lane & 1u) == 0) start(next, stacks_.take());
  enter(next);
  start_switch(&self.fake_stack, next.stack->bottom, next.stack->bytes());
  switch_context(self.context, next.context);
  finish_switch(self.fake_stack, nullptr, nullptr);
}

// Leaves a stack whose thread has ended. Its frames are no longer to be touched, so what
// is stopped here, for good, is noted elsewhere.
void Engine::leave_for(Context& to, const Stack* stack) {
  if (stack != nullptr) {
    start_switch(nullptr, stack->bottom, stack->bytes());
  } else {
    start_switch(nullptr, host_bottom_, host_bytes_);
  }
  left_ = {};
  switch_context(left_, to);
}

// Each stack runs threads one after another as long as the next has not begun elsewhere,
// so a kernel that never waits needs one stack and no switch between its threads.
void Engine::worker() noexcept {
  Engine& engine = get();
  const void* bottom = nullptr;
  std::size_t bytes = 0;
  finish_switch(nullptr, &bottom, &bytes);
  if (engine.from_host_) {
    engine.host_bottom_ = bottom;
    engine.host_bytes_ = bytes;
    engine.from_host_ = false;
  }
  do {
    engine.kernel_->call(engine.kernel_->function, engine.kernel_->arguments.get());
    engine.end_thread();
  } while (engine.next_on_this_stack());
}

// False never returns to the caller: the stack has been left.
bool Engine::next_on_this_stack() {
  Stack* const stack = current_->stack;
  if (alive_ == 0) {
    stacks_.give(stack);
    leave_for(host_, nullptr);
    return false;
  }
  Thread& next = pick();
  if ((warp_[next.warp].started >> next.lane & 1u) == 0) {
    warp_[next.warp].started |= 1u << next.lane;
    next.stack = stack;
    next.fake_stack = nullptr;
    next.context = current_->context;
    enter(next);
    return true;
  }
  stacks_.give(stack);
  enter(next);
  leave_for(next.context, next.stack);
  return false;
}

void Engine::wake(unsigned warp, unsigned lanes) {
  warp_[warp].ready |= lanes;
  ready_warps_ |= 1u << warp;
}

}  // namespace trireme::cuda_emulation
