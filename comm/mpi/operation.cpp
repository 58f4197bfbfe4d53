// MpiOperation: runs a collective's phases as its messages arrive.
// SPDX-License-Identifier: Apache-2.0
#include "comm/mpi/operation.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "base/stopwatch.hpp"
#include "base/timeline.hpp"
#include "base/trace_range.hpp"
#include "comm/abort.hpp"
#include "comm/mpi/claim.hpp"
#include "comm/mpi/mpi_group.hpp"
#include "comm/mpi/spin_wait.hpp"
#include "comm/trace.hpp"
#include "kernels/elementwise.hpp"

namespace trireme::comm {

using Clock = std::chrono::steady_clock;

Phase MpiOperation::phase_of(int lane) const {
  const auto phases = phases_of(call_.kind, call_.plan.route);
  const auto at = static_cast<std::size_t>(lanes_[static_cast<std::size_t>(lane)].phase);
  return phases[call_.plan.route == Route::bruck ? 0 : at];
}

void MpiOperation::prepare(const Group::Call& call, std::byte* from, std::byte* to) {
  call_ = call;
  from_ = from;
  to_ = to;
  block_ = group_.staging().acquire(call_.plan.staging_bytes());
}

void MpiOperation::post() try {
  lanes_active_ = call_.plan.lanes;
  const bool down_a_tree = row_of(call_.kind).has(Phase::to_children);
  slots_ = most_messages(down_a_tree ? Route::tree : call_.plan.route, group_.size());
  phases_ = count_phases(call_.kind, call_.plan.route, group_.size());
  const std::size_t size = slots() * static_cast<std::size_t>(lanes_active_);
  requests_.assign(size, MPI_REQUEST_NULL);
  peers_.resize(size);
  expected_.resize(size);
  for (int lane = 0; lane < call_.plan.lanes; ++lane) {
    lanes_[static_cast<std::size_t>(lane)] = {.chunk = lane};
    post(lane);
    run(lane);
  }
  if (lanes_active_ > 0)
    group_.state().active.push_back(this);
  else
    trace().end(call_.trace);
} catch (...) {
  end_job(std::current_exception());
}

bool MpiOperation::advance() try {
  if (lanes_active_ == 0) return true;
  WorldState& state = group_.state();
  if (state.testsome.indices.size() < requests_.size()) {
    state.testsome.indices.resize(requests_.size());
    state.testsome.statuses.resize(requests_.size());
  }
  int passed = 0;
  const int code =
      MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &passed,
                   state.testsome.indices.data(), state.testsome.statuses.data());
  if (code != MPI_SUCCESS && code != MPI_ERR_IN_STATUS) check_mpi(code, "MPI_Testsome");
  if (passed == MPI_UNDEFINED) return lanes_active_ == 0;
  // All are counted before any lane runs: run() posts new requests in these slots.
  for (int i = 0; i < passed; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const auto slot = static_cast<std::size_t>(state.testsome.indices[at]);
    check(slot, state.testsome.statuses[at], code);
    --lanes_[slot / slots()].outstanding;
  }
  if (passed == 0) return false;
  for (int lane = 0; lane < call_.plan.lanes; ++lane) run(lane);
  if (lanes_active_ > 0) return false;
  trace().end(call_.trace);
  return true;
} catch (...) {
  end_job(std::current_exception());
}

bool MpiOperation::progress() {
  if (lanes_active_ == 0) return true;
  if (!advance()) return false;
  auto& active = group_.state().active;
  active.erase(std::find(active.begin(), active.end(), this));
  return true;
}

void MpiOperation::wait() {
  complete();
  release();
}

void MpiOperation::complete() {
  if (lanes_active_ == 0) return;
  const TraceRange range("wait");
  Timeline::note("operation", name_of(call_.kind).data());
  Timeline::note_group(group_.name());
  const auto start = Clock::now();
  finish();
  group_.held_up(call_.kind, seconds_since(start));
}

void MpiOperation::finish() {
  if (!progress()) {
    SpinWait spin_wait(group_.state(), [this] { return awaited(); });
    while (true) {
      group_.state().progress();
      if (lanes_active_ == 0) break;
      spin_wait.idle();
    }
  }
}

void MpiOperation::abandon() noexcept {
  const auto end = Clock::now() + std::chrono::milliseconds(200);
  WorldState& state = group_.state();
  while (lanes_active_ > 0 && Clock::now() < end) state.progress();
  if (lanes_active_ == 0) return release();
  // The memory that others read goes away now. Whatever they see then, this rank reports.
  announce_failure(state);
  state.abandoned = true;
}

void MpiOperation::hold_staging() { group_.staging().hold(block_, *this); }

void MpiOperation::finish_and_release() {
  complete();
  group_.staging().release(std::exchange(block_, StagingPool::none));
}

void MpiOperation::release() {
  group_.staging().release(std::exchange(block_, StagingPool::none));
  group_.recycle(this);
}

void MpiOperation::run(int lane) {
  Lane& at = lanes_[static_cast<std::size_t>(lane)];
  while (!at.done && at.outstanding == 0) {
    finish_phase(lane);
    if (++at.phase == phases_) {
      at.phase = 0;
      at.chunk += call_.plan.lanes;
    }
    if (at.chunk >= call_.plan.chunks) {
      at.done = true;
      --lanes_active_;
    } else {
      post(lane);
    }
  }
}

void MpiOperation::finish_phase(int lane) {
  switch (phase_of(lane)) {
    case Phase::summed_parts: return sum(lane);
    case Phase::from_children: return sum_rows(lane);
    case Phase::from_previous: return add_own(lane);
    case Phase::to_previous:
      if (row_of(call_.kind).to.extent == Extent::part)
        keep_own_part(call_.plan.chunk(0, lanes_[static_cast<std::size_t>(lane)].chunk));
      return;
    default: return;
  }
}

void MpiOperation::post(int lane) {
  Lane& at = lanes_[static_cast<std::size_t>(lane)];
  at.posted = 0;
  const Range whole = call_.plan.chunk(0, at.chunk);  // where there is one part only
  switch (phase_of(lane)) {
    case Phase::parts:
    case Phase::summed_parts: return post_parts(lane);
    case Phase::own_part: return post_own_part(lane);
    case Phase::from_parent:
    case Phase::to_children: return post_tree(lane);
    case Phase::from_children:
    case Phase::to_parent: return post_rows(lane);
    case Phase::from_previous:
    case Phase::to_next:
    case Phase::from_next:
    case Phase::to_previous:
    case Phase::to_root: return post_chain(lane);
    case Phase::blocks: return post_blocks(lane);
    case Phase::to_peer: return send(lane, call_.peer, from_, whole);
    case Phase::from_peer: return receive(lane, call_.peer, to_, whole);
    case Phase::none: return;
  }
}

// Peers in an order that starts behind this rank, so that not all ranks send to rank 0
// first.
void MpiOperation::post_parts(int lane) {
  const int rank = group_.rank(), size = group_.size();
  const std::int64_t chunk = lanes_[static_cast<std::size_t>(lane)].chunk;
  const CollectivePlan& plan = call_.plan;
  const Range own = plan.chunk(rank, chunk);
  for (int i = 1; i < size; ++i) {
    const int peer = (rank + size - i) % size;
    if (phase_of(lane) == Phase::parts)
      receive(lane, peer, to_, plan.chunk(peer, chunk));
    else
      receive(lane, peer, staging(lane, peer, own.count()), {0, own.count()});
  }
  for (int i = 1; i < size; ++i) {
    const int peer = (rank + i) % size;
    send(lane, peer, from_, plan.chunk(peer, chunk));
  }
  if (phase_of(lane) != Phase::parts) return;
  const auto width = size_of(call_.dtype);
  const auto at = static_cast<std::size_t>(own.begin) * width;
  std::memcpy(to_ + at, from_ + at, static_cast<std::size_t>(own.count()) * width);
}

void MpiOperation::post_own_part(int lane) {
  const int rank = group_.rank(), size = group_.size();
  const std::int64_t chunk = lanes_[static_cast<std::size_t>(lane)].chunk;
  const CollectivePlan& plan = call_.plan;
  const Side& result = row_of(call_.kind).to;
  for (int i = 1; i < size && result.has(rank, call_.peer); ++i) {
    const int peer = (rank + size - i) % size;
    receive(lane, peer, to_, plan.chunk(peer, chunk));
  }
  const Range own = plan.chunk(rank, chunk);
  std::byte* const sent =
      to_ + static_cast<std::size_t>(own.begin) * size_of(call_.dtype);
  if (row_of(call_.kind).from.extent == Extent::part) {
    const Range in_shard = {own.begin - plan.part(rank).begin,
                            own.end - plan.part(rank).begin};
    const std::byte* from =
        from_ + static_cast<std::size_t>(in_shard.begin) * size_of(call_.dtype);
    if (from != sent)
      std::memcpy(sent, from,
                  static_cast<std::size_t>(own.count()) * size_of(call_.dtype));
  }
  for (int i = 1; i < size; ++i) {
    const int peer = (rank + i) % size;
    if (result.has(peer, call_.peer)) send(lane, peer, to_, own);
  }
}

void MpiOperation::post_tree(int lane) {
  const Lane& at = lanes_[static_cast<std::size_t>(lane)];
  const int size = group_.size();
  const BinomialNode place = binomial_node(group_.rank(), call_.peer, size);
  const Range range = call_.plan.chunk(0, at.chunk);
  if (phase_of(lane) == Phase::from_parent) {
    if (place.parent >= 0) receive(lane, place.parent, to_, range);
    return;
  }
  for_each_child(place, size, ChildOrder::farthest_first, [&](int distance, int) {
    send(lane, (group_.rank() + distance) % size, from_, range);
  });
}

MPI_Request& MpiOperation::new_request(int lane, int peer, int bytes_expected) {
  Lane& at = lanes_[static_cast<std::size_t>(lane)];
  const std::size_t slot =
      static_cast<std::size_t>(lane) * slots() + static_cast<std::size_t>(at.posted++);
  ++at.outstanding;
  peers_[slot] = peer;
  expected_[slot] = bytes_expected;
  return requests_[slot];
}

void MpiOperation::send(int lane, int peer, const std::byte* base, Range elements) {
  const auto width = static_cast<std::int64_t>(size_of(call_.dtype));
  send_bytes(lane, peer, base + elements.begin * width, elements.count() * width);
}

void MpiOperation::receive(int lane, int peer, std::byte* base, Range elements) {
  const auto width = static_cast<std::int64_t>(size_of(call_.dtype));
  receive_bytes(lane, peer, base + elements.begin * width, elements.count() * width);
}

void MpiOperation::send_bytes(int lane, int peer, const std::byte* from,
                              std::int64_t bytes) {
  if (bytes == 0) return;
  check_mpi(
      MPI_Isend(from, static_cast<int>(bytes), MPI_BYTE, group_.members().rank(peer),
                tag(lane), group_.comm(), &new_request(lane, peer, -1)),
      "MPI_Isend");
}

void MpiOperation::receive_bytes(int lane, int peer, std::byte* to, std::int64_t bytes) {
  if (bytes == 0) return;
  const int due = static_cast<int>(bytes);
  check_mpi(MPI_Irecv(to, due, MPI_BYTE, group_.members().rank(peer), tag(lane),
                      group_.comm(), &new_request(lane, peer, due)),
            "MPI_Irecv");
}

// Different for all collectives, lanes and phases in flight, so that messages cannot be
// taken for each other's. The kind is in it so that ranks which disagree about what comes
// next wait for each other, and are reported, rather than exchange the wrong data.
int MpiOperation::tag(int lane) const {
  const int kind = std::min(static_cast<int>(call_.kind),
                            static_cast<int>(Collective::send));  // receive matches send
  constexpr int kinds = static_cast<int>(Collective::send) + 1;
  constexpr int per_collective = 2 * max_lanes;
  const GroupTags& tags = group_.tags();
  const int rounds = tags.count / (kinds * per_collective);
  const int round = static_cast<int>(call_.sequence % rounds);
  // Elsewhere what one rank sends in one phase another receives in a different one, and
  // no rank sends another two things that could be taken for each other.
  const bool alike =
      call_.plan.route == Route::pairwise && !row_of(call_.kind).has(Phase::to_children);
  const int phase = alike ? lanes_[static_cast<std::size_t>(lane)].phase : 0;
  return tags.first + (round * kinds + kind) * per_collective + 2 * lane + phase;
}

std::byte* MpiOperation::staging(int lane, int row, std::int64_t elements) const {
  return group_.staging().data(block_) + lane * call_.plan.lane_bytes +
         row * elements * static_cast<std::int64_t>(size_of(call_.dtype));
}

void MpiOperation::sum(int lane) {
  const std::int64_t chunk = lanes_[static_cast<std::size_t>(lane)].chunk;
  const Range own = call_.plan.chunk(group_.rank(), chunk);
  if (own.count() == 0) return;
  const auto width = static_cast<std::int64_t>(size_of(call_.dtype));
  std::memcpy(staging(lane, group_.rank(), own.count()), from_ + own.begin * width,
              static_cast<std::size_t>(own.count() * width));
  const std::int64_t shift = row_of(call_.kind).to.extent == Extent::part
                                 ? call_.plan.part(group_.rank()).begin
                                 : 0;
  const TensorView parts(staging(lane, 0, own.count()), call_.dtype,
                         {group_.size(), own.count()});
  reduce_parts(parts, {to_ + (own.begin - shift) * width, call_.dtype, {own.count()}});
}

void MpiOperation::reduce_parts(const TensorView& parts, const TensorView& out) const {
  Stream stream;
  if (call_.combine != nullptr)
    (*call_.combine)(parts, out);
  else if (call_.reduce == Reduce::max)
    kernels::max_parts(stream, parts, out);
  else
    kernels::sum_parts(stream, parts, out);
}

void MpiOperation::check(std::size_t slot, const MPI_Status& status, int code) const {
  const int world_rank = group_.members().rank(peers_[slot]);
  if (code == MPI_ERR_IN_STATUS && status.MPI_ERROR != MPI_SUCCESS) {
    int kind = 0;
    MPI_Error_class(status.MPI_ERROR, &kind);
    require(kind != MPI_ERR_TRUNCATE, Status::hang,
            "{}: rank {} sent more than the {} bytes due here: the ranks disagree about "
            "the size",
            text(), world_rank, expected_[slot]);
    fail(Status::transport, "{}: the message {} rank {} failed: {}", text(),
         expected_[slot] < 0 ? "to" : "from", world_rank,
         mpi_error_text(status.MPI_ERROR));
  }
  if (expected_[slot] < 0) return;
  int bytes = 0;
  check_mpi(MPI_Get_count(&status, MPI_BYTE, &bytes), "MPI_Get_count");
  require(bytes == expected_[slot], Status::hang,
          "{}: rank {} sent {} bytes where {} are due: the ranks disagree about the size",
          text(), world_rank, bytes, expected_[slot]);
}

std::string MpiOperation::text() const {
  return format("{} #{} {} on axis '{}'", name_of(call_.kind), call_.sequence,
                tensor_text(call_.dtype, call_.plan.elements), group_.name());
}

Awaited MpiOperation::awaited() const {
  std::string operation(name_of(call_.kind));
  if (row_of(call_.kind).peer == Peer::other)
    operation += format(call_.kind == Collective::send ? " to rank {}" : " from rank {}",
                        group_.members().rank(call_.peer));
  return {.group = std::string(group_.name()),
          .operation = operation,
          .tensor = tensor_text(call_.dtype, call_.plan.elements),
          .sequence = call_.sequence,
          .members = group_.members(),
          .absent = [this](int rank) { return awaits_first_from(rank); }};
}

bool MpiOperation::awaits_first_from(int world_rank) const {
  for (std::size_t slot = 0; slot < requests_.size(); ++slot) {
    const bool pending = requests_[slot] != MPI_REQUEST_NULL;
    if (pending && lanes_[slot / slots()].phase == 0 &&
        group_.members().rank(peers_[slot]) == world_rank)
      return true;
  }
  return false;
}

}  // namespace trireme::comm
