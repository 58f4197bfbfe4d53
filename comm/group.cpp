// Group: the checks, counts and short cuts that every transport shares; Handle.
// SPDX-License-Identifier: Apache-2.0
#include "comm/group.hpp"

#include <exception>
#include <utility>

#include "base/device_memory.hpp"
#include "comm/abort.hpp"
#include "comm/trace.hpp"

namespace trireme::comm {
namespace {

// What a destructor does with work that nobody waited for.
void settle(Handle::Operation* operation) noexcept {
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

bool is_floating(DType dtype) {
  return dtype == DType::f64 || dtype == DType::f32 || dtype == DType::bf16 ||
         dtype == DType::f16;
}

void check_tensor(const TensorView& x, Collective kind, std::string_view group) {
  require(!x.empty() && x.is_dense(), "{} on axis '{}': the tensor {} is not dense",
          name_of(kind), group, x.shape());
}

void check_floating(const TensorView& x, Collective kind, std::string_view group) {
  require(is_floating(x.dtype()), "{} on axis '{}': {} cannot be reduced", name_of(kind),
          group, name_of(x.dtype()));
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
    settle(std::exchange(operation_, std::exchange(other.operation_, nullptr)));
  return *this;
}

Handle::~Handle() { settle(operation_); }

void Handle::wait() {
  if (Operation* operation = std::exchange(operation_, nullptr)) operation->wait();
}

bool Handle::done() { return operation_ == nullptr || operation_->progress(); }

Group::Group(std::string name, int rank, int size)
    : name_(std::move(name)),
      rank_(rank),
      size_(size),
      sends_(static_cast<std::size_t>(size)),
      receives_(static_cast<std::size_t>(size)) {
  require(size >= 1 && rank >= 0 && rank < size, "rank {} in group '{}' of {}", rank,
          name_, size);
}

void check_collectives(bool wanted) { compares = wanted; }

void Group::set_members(std::span<const int> world_ranks) {
  trace_group_ = trace().add_group(name_, world_ranks);
}

Group::Call Group::begin(Collective kind, const TensorView& whole, int peer,
                         Reduce reduce) {
  const auto at = static_cast<std::size_t>(peer);
  std::int64_t& counter = kind == Collective::send      ? sends_[at]
                          : kind == Collective::receive ? receives_[at]
                                                        : collectives_;
  Call call;
  call.kind = kind;
  call.dtype = whole.dtype();
  call.peer = peer;
  call.sequence = ++counter;
  call.plan = plan_collective(kind, whole.dtype(), whole.elements(), rank_, size_, peer);
  call.reduce = reduce;
  call.trace = trace().begin(name_, kind, call.sequence, whole.dtype(), whole.elements(),
                             trace_group_);
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

Handle Group::all_reduce(Stream& stream, const TensorView& x, Reduce reduce) {
  check_tensor(x, Collective::all_reduce, name_);
  check_floating(x, Collective::all_reduce, name_);
  if (size_ == 1 || x.elements() == 0) return {};
  return start(begin(Collective::all_reduce, x, 0, reduce), stream, x, x);
}

Handle Group::reduce_scatter(Stream& stream, const TensorView& full,
                             const TensorView& shard) {
  check_parts(full, shard, Collective::reduce_scatter, name_, size_);
  check_floating(full, Collective::reduce_scatter, name_);
  if (size_ == 1) copy(stream, full, shard);
  if (size_ == 1 || full.elements() == 0) return {};
  return start(begin(Collective::reduce_scatter, full), stream, full, shard);
}

Handle Group::all_gather(Stream& stream, const TensorView& shard,
                         const TensorView& full) {
  check_parts(full, shard, Collective::all_gather, name_, size_);
  if (size_ == 1) copy(stream, shard, full);
  if (size_ == 1 || full.elements() == 0) return {};
  return start(begin(Collective::all_gather, full), stream, shard, full);
}

Handle Group::broadcast(Stream& stream, const TensorView& x, int root) {
  check_tensor(x, Collective::broadcast, name_);
  require(root >= 0 && root < size_, "broadcast on axis '{}' of {} ranks: root is {}",
          name_, size_, root);
  if (size_ == 1 || x.elements() == 0) return {};
  return start(begin(Collective::broadcast, x, root), stream, x, x);
}

Handle Group::all_to_all(Stream& stream, const TensorView& from, const TensorView& to) {
  check_tensor(from, Collective::all_to_all, name_);
  check_tensor(to, Collective::all_to_all, name_);
  require(from.shape() == to.shape() && from.dtype() == to.dtype() &&
              from.dim(0) % size_ == 0,
          "all_to_all on axis '{}' of {} ranks: {}{} to {}{}", name_, size_,
          name_of(from.dtype()), from.shape(), name_of(to.dtype()), to.shape());
  if (size_ == 1) copy(stream, from, to);
  if (size_ == 1 || from.elements() == 0) return {};
  require(from.raw() != to.raw() || from.device().is_meta(),
          "all_to_all on axis '{}' cannot work in place", name_);
  return start(begin(Collective::all_to_all, from), stream, from, to);
}

Handle Group::send(Stream& stream, const TensorView& x, int destination) {
  check_tensor(x, Collective::send, name_);
  require(destination >= 0 && destination < size_ && destination != rank_,
          "rank {} of {} on axis '{}' cannot send to {}", rank_, size_, name_,
          destination);
  if (x.elements() == 0) return {};
  return start(begin(Collective::send, x, destination), stream, x, x);
}

Handle Group::receive(Stream& stream, const TensorView& x, int source) {
  check_tensor(x, Collective::receive, name_);
  require(source >= 0 && source < size_ && source != rank_,
          "rank {} of {} on axis '{}' cannot receive from {}", rank_, size_, name_,
          source);
  if (x.elements() == 0) return {};
  return start(begin(Collective::receive, x, source), stream, x, x);
}

}  // namespace trireme::comm
