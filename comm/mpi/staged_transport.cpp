// StagedTransport: collectives of GPUs by MPI, through pinned memory of the host.
// SPDX-License-Identifier: Apache-2.0
#include "comm/mpi/staged_transport.hpp"

#include <sched.h>

#include <chrono>
#include <string>
#include <thread>

#include "base/device_memory.hpp"
#include "comm/abort.hpp"
#include "comm/mpi/claim.hpp"
#include "comm/recording.hpp"

namespace trireme::comm {
namespace {

using Clock = std::chrono::steady_clock;

TensorView flat(const TensorView& x) { return x.reshape({x.elements()}); }

// Looks in vain at the own device: offers the core, later for longer.
void idle(Clock::time_point start) {
  ::sched_yield();
  if (Clock::now() - start > std::chrono::milliseconds(20))
    std::this_thread::sleep_for(std::chrono::microseconds(20));
}

}  // namespace

StagedOperation::StagedOperation(StagedTransport& transport)
    : transport_(transport),
      stream_(transport.device_),
      started_(transport.device_),
      out_done_(transport.device_) {}

// What only receives may start when its block is free.
bool StagedOperation::copied_out() const {
  return copies_out_ ? out_done_.passed()
                     : transport_.copied_in_[static_cast<std::size_t>(block_)].passed();
}

void StagedOperation::copy_in() {
  state_ = State::copying_in;
  if (target_.empty()) return;
  Stream& in = transport_.in_.stream();
  started_.hold(in);  // the program's stream may still use what is overwritten
  copy_bytes(in, source_, target_);
  transport_.copied_in_[static_cast<std::size_t>(block_)].record(in);
}

void StagedOperation::finish() {
  message_->wait();  // complete: gives its staging memory back
  if (!target_.empty())
    transport_.copied_in_[static_cast<std::size_t>(block_)].hold(stream_);
  transport_.pool_.release(block_);
  transport_.free_.push_back(this);
}

bool StagedOperation::progress() {
  transport_.progress();
  return state_ == State::copying_in;
}

void StagedOperation::wait() try {
  const auto start = Clock::now();
  while (state_ == State::copying_out) {
    transport_.group_.progress();
    if (state_ == State::copying_out) idle(start);
  }
  if (state_ == State::in_flight) {
    // Not moved by others meanwhile: the message is this wait's, which reports a hang.
    transport_.forget(this);
    message_->complete();
    copy_in();
  }
  finish();
} catch (...) {
  end_job(std::current_exception());
}

void StagedOperation::abandon() noexcept {
  WorldState& state = transport_.group_.state();
  const auto end = Clock::now() + std::chrono::milliseconds(200);
  while (state_ != State::copying_in && Clock::now() < end) state.progress();
  if (state_ == State::copying_in) return wait();
  // The tensors go away now.
  transport_.forget(this);
  announce_failure(state);
  state.abandoned = true;
}

StagedTransport::StagedTransport(MpiGroup& group, Device device)
    : group_(group),
      device_(device),
      out_(device),
      in_(device),
      pool_(Device::host(), std::string(group.name()) + " (pinned)",
            StagingPool::Memory::pinned) {
  group_.state().progress_sources.push_back(this);
}

StagedTransport::~StagedTransport() {
  // A mesh that outlives the world, as a static object does, only frees its memory.
  if (WorldState* state = current_state())
    std::erase(state->progress_sources, static_cast<ProgressSource*>(this));
}

StagedOperation& StagedTransport::take() {
  if (free_.empty()) {
    operations_.push_back(std::make_unique<StagedOperation>(*this));
    free_.push_back(operations_.back().get());
  }
  StagedOperation* operation = free_.back();
  free_.pop_back();
  return *operation;
}

StagedTransport::Staged StagedTransport::stage(const Group::Call& call,
                                               const TensorView& to, int block) const {
  const CollectiveRow& row = row_of(call.kind);
  const int rank = group_.rank();
  const auto view = [&](const Side& side, std::size_t offset) {
    const TensorView whole(pool_.data(block) + offset, call.dtype, {call.plan.elements});
    if (side.extent == Extent::whole) return whole;
    const std::int64_t elements = call.plan.elements / group_.size();
    return whole.rows(rank * elements, elements);
  };
  const TensorView sent = view(row.from, 0);
  const TensorView come = view(row.to, row.exchange ? to.bytes() : 0);
  return {sent, come, row.from.has(rank, call.peer) ? sent : TensorView(),
          row.to.has(rank, call.peer) ? come : TensorView()};
}

void StagedTransport::copy_out(StagedOperation& operation, const TensorView& from,
                               const TensorView& place) {
  Stream& out = out_.stream();
  // Also after the block's last copy in: the program's stream held for that in wait().
  operation.started_.hold(out);
  copy_bytes_later(out, flat(from), place);
  operation.out_done_.record(out);
}

Handle StagedTransport::start(const Group::Call& call, Stream& stream,
                              const TensorView& from, const TensorView& to) {
  const auto whole = static_cast<std::int64_t>(
      static_cast<std::size_t>(call.plan.elements) * size_of(call.dtype));
  StagedOperation& operation = take();
  operation.stream_ = stream;
  operation.state_ = StagedOperation::State::copying_out;
  operation.block_ = pool_.acquire(row_of(call.kind).exchange ? 2 * whole : whole);
  while (copied_in_.size() <= static_cast<std::size_t>(operation.block_))
    copied_in_.emplace_back(device_);
  const Staged staged = stage(call, to, operation.block_);
  operation.message_ = &group_.prepare(call, staged.from, staged.to);
  operation.copies_out_ = !staged.sent.empty();
  operation.source_ = staged.come;
  operation.target_ = staged.come.empty() ? TensorView() : flat(to);
  operation.started_.record(stream);
  if (operation.copies_out_) copy_out(operation, from, staged.sent);
  queue_.push_back(&operation);
  progress();
  return Handle(&operation);
}

// A thread that records a graph may ask its GPU nothing.
void StagedTransport::progress() try {
  if (recorded_calls() != nullptr) return;
  while (!queue_.empty() && queue_.front()->copied_out()) {
    StagedOperation* operation = queue_.front();
    queue_.erase(queue_.begin());
    operation->state_ = StagedOperation::State::in_flight;
    flying_.push_back(operation);
    operation->message_->post();
  }
  for (std::size_t i = 0; i < flying_.size();) {
    if (!flying_[i]->message_->progress()) {
      ++i;
      continue;
    }
    flying_[i]->copy_in();
    flying_.erase(flying_.begin() + static_cast<std::ptrdiff_t>(i));
  }
} catch (...) {
  end_job(std::current_exception());
}

void StagedTransport::forget(const StagedOperation* operation) {
  std::erase(queue_, operation);
  std::erase(flying_, operation);
}

}  // namespace trireme::comm
