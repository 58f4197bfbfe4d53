// Where threads of a block wait for each other: warp operations and the block's barrier.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "kernels/cuda_emulation/block.hpp"
#include "kernels/cuda_emulation/fail.hpp"
#include "kernels/cuda_emulation/names.hpp"

namespace trireme::cuda_emulation {

// Which meeting the running lane enters. Two lanes that wait for each other at different
// operations, or with different masks, would wait for ever; other overlaps may yet
// resolve.
Meeting& Engine::join(WarpOperation operation, unsigned mask, bool whole,
                      Complete complete, const Source& where) {
  Warp& warp = warp_[current_->warp];
  const unsigned lane = 1u << current_->lane;
  if ((mask & lane) == 0) fail_here("the mask does not name the lane itself", where);
  if ((mask & warp.at_barrier) != 0) {
    fail_disagreement(static_cast<unsigned>(std::countr_zero(mask & warp.at_barrier)),
                      describe(operation, mask), where);
  }
  for (int i = 0; i < warp.meetings; ++i) {
    Meeting& meeting = warp.meeting[static_cast<std::size_t>(i)];
    if (meeting.mask == mask && meeting.operation == operation) return meeting;
    if ((meeting.mask & lane) != 0 && (meeting.arrived & mask) != 0) {
      fail_disagreement(static_cast<unsigned>(std::countr_zero(meeting.arrived & mask)),
                        describe(operation, mask), where);
    }
  }
  Meeting& meeting = warp.meeting[static_cast<std::size_t>(warp.meetings++)];
  meeting = {mask, 0, operation, whole, complete};
  return meeting;
}

// Does what the lanes met for, if all are there, and lets them go on.
bool Engine::finish_if_complete(unsigned w, Meeting& meeting) {
  Warp& warp = warp_[w];
  if (meeting.arrived != (meeting.mask & warp.alive)) return false;
  if (meeting.complete != nullptr) {
    std::array<void*, 32> arguments{};
    for (unsigned bits = meeting.arrived; bits != 0; bits &= bits - 1) {
      const auto lane = static_cast<std::size_t>(std::countr_zero(bits));
      arguments[lane] = warp.arguments[lane];
    }
    meeting.complete(arguments.data());
  }
  wake(w, meeting.arrived);
  meeting = warp.meeting[static_cast<std::size_t>(--warp.meetings)];
  return true;
}

void Engine::meet(WarpOperation operation, unsigned mask, bool whole, void* argument,
                  Complete complete, const Source& where) {
  Warp& warp = warp_[current_->warp];
  if (whole && warp.alive != all_lanes) {
    fail_here(describe(operation, mask) + " needs all 32 lanes of the warp", where);
  }
  Meeting& meeting = join(operation, mask, whole, complete, where);
  meeting.arrived |= 1u << current_->lane;
  warp.arguments[current_->lane] = argument;
  warp.where[current_->lane] = where;
  finish_if_complete(current_->warp, meeting);
  wait();
}

int Engine::meet_block(BlockOperation operation, int predicate, const Source& where) {
  Warp& warp = warp_[current_->warp];
  const unsigned lane = 1u << current_->lane;
  for (int i = 0; i < warp.meetings; ++i) {
    const Meeting& meeting = warp.meeting[static_cast<std::size_t>(i)];
    if ((meeting.mask & lane) != 0) {
      fail_disagreement(static_cast<unsigned>(std::countr_zero(meeting.arrived)),
                        describe(operation), where);
    }
  }
  if (arrived_ == 0) {
    barrier_operation_ = operation;
    barrier_where_ = where;
  } else if (operation != barrier_operation_ || where.line() != barrier_where_.line() ||
             where.column() != barrier_where_.column()) {
    fail_here("threads of a block are at different barriers: " + describe(operation) +
                  " here, but " + describe(barrier_operation_) + " at " +
                  describe(barrier_where_),
              where);
  }
  ++arrived_;
  nonzero_ += predicate != 0 ? 1 : 0;
  warp.at_barrier |= lane;
  warp.where[current_->lane] = where;
  if (arrived_ == alive_) release_barrier();
  wait();
  return barrier_result_;
}

// No thread can come to the next barrier's end before all have read this one's result.
void Engine::release_barrier() {
  switch (barrier_operation_) {
    case BlockOperation::sync: break;
    case BlockOperation::sync_or: barrier_result_ = nonzero_ != 0; break;
    case BlockOperation::sync_and: barrier_result_ = nonzero_ == arrived_; break;
    case BlockOperation::sync_count: barrier_result_ = static_cast<int>(nonzero_); break;
  }
  arrived_ = nonzero_ = 0;
  for (unsigned w = 0; w * 32 < threads_; ++w) {
    warp_[w].at_barrier = 0;
    if (warp_[w].alive != 0) wake(w, warp_[w].alive);
  }
}

// Threads that have ended are not waited for.
void Engine::end_thread() {
  Warp& warp = warp_[current_->warp];
  const unsigned lane = 1u << current_->lane;
  warp.alive &= ~lane;
  --alive_;
  if (current_->pending.committed != 0 || !current_->pending.copies.empty()) {
    current_->pending.copies.clear();
    current_->pending.committed = 0;
  }
  for (int i = warp.meetings - 1; i >= 0; --i) {
    Meeting& meeting = warp.meeting[static_cast<std::size_t>(i)];
    if ((meeting.mask & lane) == 0) continue;
    if (meeting.whole) {
      fail_here("a lane ended while others wait for it at " +
                    describe(meeting.operation, meeting.mask),
                warp.where[static_cast<std::size_t>(std::countr_zero(meeting.arrived))]);
    }
    finish_if_complete(current_->warp, meeting);
  }
  if (alive_ != 0 && arrived_ == alive_) release_barrier();
}

void meet(WarpOperation operation, unsigned mask, void* argument, Complete complete,
          const Source& where) {
  Engine& engine = Engine::get();
  if (!engine.running())
    fail(describe(operation, mask) + " was called outside of a kernel");
  engine.meet(operation, mask, false, argument, complete, where);
}

void meet_whole_warp(WarpOperation operation, void* argument, Complete complete,
                     const Source& where) {
  Engine& engine = Engine::get();
  if (!engine.running()) {
    fail(describe(operation, all_lanes) + " was called outside of a kernel");
  }
  engine.meet(operation, all_lanes, true, argument, complete, where);
}

int meet_block(BlockOperation operation, int predicate, const Source& where) {
  Engine& engine = Engine::get();
  if (!engine.running()) fail(describe(operation) + " was called outside of a kernel");
  return engine.meet_block(operation, predicate, where);
}

unsigned lane_index() {
  if (!Engine::get().running()) fail("__activemask() was called outside of a kernel");
  return Engine::get().current().lane;
}

void fail_in_kernel(const char* message, const Source& where) {
  if (!Engine::get().running()) fail(message);
  Engine::get().fail_here(message, where);
}

}  // namespace trireme::cuda_emulation
