// Group: the checks, counts and short cuts that every transport shares; Handle.
// SPDX-License-Identifier: Apache-2.0
#include "comm/group.hpp"

#include <exception>
#include <utility>

#include "base/device_memory.hpp"
#include "base/timeline.hpp"
#include "base/trace_range.hpp"
#include "comm/abort.hpp"
#include "comm/recording.hpp"
#include "comm/trace.hpp"

namespace trireme::comm {
namespace {

// What a destructor does with work that nobody waited for.
void wait_or_abandon(Handle::Operation* operation) noexcept {
  if (operation == nullptr) return;
  if (std::uncaught_exceptions() > 0) {
    operation->abandon();
    return;
  }
  try {
    operation->wait();
  } catch (...) {
    end_job(std::current_exception());
  }
}

bool compares = false;

void check_tensor(const TensorView& x, Collective kind, std::string_view group) {
  require(!x.empty() && x.is_dense(), "{} on axis '{}': the tensor {} is not dense",
          name_of(kind), group, x.shape());
}

// full = `size` times shard along dim 0.
void check_parts(const TensorView& full, const TensorView& shard, Collective kind,
                 std::string_view group, int size) {
  check_tensor(full, kind, group);
  check_tensor(shard, kind, group);
  require(full.dtype() == shard.dtype() && full.dim(0) == size * shard.dim(0) &&
              full.elements() == size * shard.elements(),
          "{} on axis '{}' of {} ranks: {}{} is not {} times {}{}", name_of(kind), group,
          size, name_of(full.dtype()), full.shape(), size, name_of(shard.dtype()),
          shard.shape());
}

// What a collective of one rank does.
void copy(Stream& stream, const TensorView& from, const TensorView& to) {
  const Shape flat{from.elements()};
  copy_bytes(stream, from.reshape(flat), to.reshape(flat));
}

}  // namespace

Handle::Handle(Handle&& other) noexcept
    : operation_(std::exchange(other.operation_, nullptr)) {}

Handle& Handle::operator=(Handle&& other) noexcept {
  if (this != &other)
    wait_or_abandon(std::exchange(operation_, std::exchange(other.operation_, nullptr)));
  return *this;
}

Handle::~Handle() { wait_or_abandon(operation_); }

void Handle::wait() {
  if (Operation* operation = std::exchange(operation_, nullptr)) operation->wait();
}

bool Handle::done() { return operation_ == nullptr || operation_->progress(); }

Group::Group(std::string name, int rank, int size)
    : name_(std::move(name)), rank_(rank), size_(size) {
  require(size >= 1 && rank >= 0 && rank < size, "rank {} in group '{}' of {}", rank,
          name_, size);
}

void check_collectives(bool wanted) { compares = wanted; }

void Group::set_members(const RankList& world_ranks) {
  trace_group_ = trace().add_group(name_, world_ranks);
}

Group::Call Group::begin(Collective kind, const TensorView& whole, int peer,
                         Reduce reduce) {
  std::int64_t& counter = kind == Collective::send      ? sends_[peer]
                          : kind == Collective::receive ? receives_[peer]
                                                        : collectives_;
  Call call;
  call.kind = kind;
  call.dtype = whole.dtype();
  call.peer = peer;
  call.sequence = ++counter;
  call.plan =
      plan_collective(kind, whole.dtype(), whole.elements(), rank_, size_, peer, reduce);
  call.reduce = reduce;
  call.trace = whole.device().is_meta()
                   ? Trace::none
                   : trace().begin(name_, kind, call.sequence, whole.dtype(),
                                   whole.elements(), trace_group_);
  if (compares && kind != Collective::send && kind != Collective::receive) compare(call);
  Traffic& traffic = traffic_[static_cast<std::size_t>(kind)];
  ++traffic.calls;
  traffic.bytes += call.plan.bytes_sent;
  return call;
}

std::int64_t Group::bytes_sent() const {
  std::int64_t sum = 0;
  for (const Traffic& traffic : traffic_) sum += traffic.bytes;
  return sum;
}

void Group::check(Collective kind, const TensorView& from, const TensorView& to,
                  int peer) const {
  const CollectiveRow& row = row_of(kind);
  check_tensor(from, kind, name_);
  check_tensor(to, kind, name_);
  if (row.from.extent != row.to.extent) {
    const bool gathers = row.to.extent == Extent::whole;
    check_parts(gathers ? to : from, gathers ? from : to, kind, name_, size_);
  }
  require(!row.reduces() || is_floating(from.dtype()),
          "{} on axis '{}': {} cannot be reduced", row.name, name_,
          name_of(from.dtype()));
  require(row.peer != Peer::root || (peer >= 0 && peer < size_),
          "{} on axis '{}' of {} ranks: root is {}", row.name, name_, size_, peer);
  require(row.peer != Peer::other || (peer >= 0 && peer < size_ && peer != rank_),
          "rank {} of {} on axis '{}' cannot {} {} {}", rank_, size_, name_, row.name,
          row.has(Phase::to_peer) ? "to" : "from", peer);
  if (!row.exchange) return;
  require(from.shape() == to.shape() && from.dtype() == to.dtype() &&
              from.dim(0) % size_ == 0,
          "{} on axis '{}' of {} ranks: {}{} to {}{}", row.name, name_, size_,
          name_of(from.dtype()), from.shape(), name_of(to.dtype()), to.shape());
  require(size_ == 1 || from.elements() == 0 || from.raw() != to.raw() ||
              from.device().is_meta(),
          "{} on axis '{}' cannot work in place", row.name, name_);
}

Handle Group::collective(Collective kind, Stream& stream, const TensorView& from,
                         const TensorView& to, int peer, Reduce reduce,
                         const CombineRows* combine) {
  check(kind, from, to, peer);
  require(combine == nullptr ||
              (!from.device().is_cuda() &&
               from.elements() * static_cast<std::int64_t>(size_of(from.dtype())) <=
                   tree_row_bytes),
          "all_reduce on axis '{}': {}{} is no row to combine", name_,
          name_of(from.dtype()), from.shape());
  const CollectiveRow& row = row_of(kind);
  if (size_ == 1 && !row.one_tensor) copy(stream, from, to);
  if (size_ == 1 || from.elements() == 0) return {};
  const TensorView& whole = row.from.extent == Extent::whole ? from : to;
  const TraceRange range(row.name.data());
  Timeline::note_group(name_);
  Timeline::note("bytes", static_cast<std::int64_t>(whole.bytes()));
  if (row.peer == Peer::other) Timeline::note("peer", std::int64_t{peer});
  if (RecordedCalls* const calls = recorded_calls()) {
    calls->add([this, kind, whole, peer, reduce] {
      return begin(kind, whole, peer, reduce).trace;
    });
    Call call;
    call.kind = kind;
    call.dtype = whole.dtype();
    call.peer = peer;
    call.reduce = reduce;
    call.plan = plan_collective(kind, whole.dtype(), whole.elements(), rank_, size_, peer,
                                reduce);
    return start(call, stream, from, to);
  }
  Call call = begin(kind, whole, peer, reduce);
  call.combine = combine;
  return start(call, stream, from, to);
}

}  // namespace trireme::comm
