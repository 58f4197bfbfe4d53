// Group: the ranks of one mesh axis, and the collectives among them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "base/device.hpp"
#include "base/tensor_view.hpp"
#include "comm/collective.hpp"
#include "comm/rank_list.hpp"
#include "comm/traffic.hpp"

namespace trireme::comm {

// Work in flight. wait() returns when the result may be used; a handle may be waited on
// more than once, and is complete when default-constructed. Dropping a handle waits,
// except while an exception passes: then what does not end at once is abandoned, because
// the other ranks may never come. Staging memory is given back by wait() (not before), so
// that what is held depends on the order of calls alone.
class Handle {
 public:
  class Operation {
   public:
    virtual ~Operation() = default;
    // Moves the work on; true when complete. Never blocks.
    virtual bool progress() = 0;
    // Blocks until complete, then returns the operation to its pool.
    virtual void wait() = 0;
    // Tries to complete for a moment, then leaves the operation as it is.
    virtual void abandon() noexcept = 0;
  };

  Handle() = default;
  explicit Handle(Operation* operation) : operation_(operation) {}
  Handle(Handle&& other) noexcept;
  Handle& operator=(Handle&& other) noexcept;
  ~Handle();
  void wait();
  bool done();
  // Nothing was started, or it has been waited on.
  bool empty() const { return operation_ == nullptr; }

 private:
  Operation* operation_ = nullptr;  // owned by its group's pool
};

// Makes the result of a reduction from what each rank gave: a row a rank, in rank order.
// out may be the first row.
using CombineRows =
    std::function<void(const TensorView& rows_PN, const TensorView& out_N)>;

// All calls are collective over the group, in the same order on every rank. Tensors are
// dense and floating (f64, f32, bf16, f16) unless said otherwise, on the host or on the
// device of the group's mesh, which is then the stream's. A collective starts after what
// `stream` has queued; the tensors belong to it until the handle is waited on. For
// tensors on a GPU that wait makes the stream hold until the result is there: work queued
// after it may use the result and overwrite the source; the host must synchronize() to
// look. A sum is made in the accumulator dtype (f32; f64 for f64), in rank order, and
// rounded once, so that every rank gets the same bits and a repeated run gets them again.
// (NCCL sums in the tensor's dtype and in an order of its own: every rank gets the same
// bits.) Groups of one rank cost nothing; on the meta device nothing is sent.
//
// Errors: Error(internal) when shapes do not fit. What goes wrong in transit (the
// transport fails: Status::transport; ranks disagree about a size, or the time-out
// passes, then with operation, sequence number and late ranks: Status::hang) is reported
// once and ends the job at once, because memory that messages use must not go away under
// them.
class Group {
 public:
  virtual ~Group() = default;

  std::string_view name() const { return name_; }  // of the mesh axis
  int rank() const { return rank_; }
  int size() const { return size_; }

  // x = reduction of x over ranks, in place.
  Handle all_reduce(Stream& stream, const TensorView& x, Reduce reduce = Reduce::sum) {
    return collective(Collective::all_reduce, stream, x, x, 0, reduce);
  }
  // x = what `combine` makes of x of all ranks, in place: of a row of tree_row_bytes at
  // most, on the host. Among many ranks rank 0 alone calls it, among few each does, with
  // the same rows; never in a group of one, nor on meta. It lives until the handle was
  // waited on.
  Handle all_reduce(Stream& stream, const TensorView& x, const CombineRows& combine) {
    return collective(Collective::all_reduce, stream, x, x, 0, Reduce::sum, &combine);
  }
  // shard = part rank() of the sum of `full` over ranks; full.dim(0) = size() *
  // shard.dim(0). `full` is left undefined.
  Handle reduce_scatter(Stream& stream, const TensorView& full, const TensorView& shard) {
    return collective(Collective::reduce_scatter, stream, full, shard);
  }
  // full = the shards of all ranks along dim 0. shard may be part rank() of full. Any
  // dtype.
  Handle all_gather(Stream& stream, const TensorView& shard, const TensorView& full) {
    return collective(Collective::all_gather, stream, shard, full);
  }
  // x of `root` = reduction of x over ranks, in place; x of other ranks is left
  // undefined. The same bits as all_reduce, for half of its bytes.
  Handle reduce(Stream& stream, const TensorView& x, int root,
                Reduce reduce = Reduce::sum) {
    return collective(Collective::reduce, stream, x, x, root, reduce);
  }
  // x = x of `root`. Any dtype.
  Handle broadcast(Stream& stream, const TensorView& x, int root) {
    return collective(Collective::broadcast, stream, x, x, root);
  }
  // Part p of `from` goes to rank p; part p of `to` comes from rank p. Any dtype.
  Handle all_to_all(Stream& stream, const TensorView& from, const TensorView& to) {
    return collective(Collective::all_to_all, stream, from, to);
  }
  // Point to point; matched in order per pair of ranks. Any dtype.
  Handle send(Stream& stream, const TensorView& x, int destination) {
    return collective(Collective::send, stream, x, x, destination);
  }
  Handle receive(Stream& stream, const TensorView& x, int source) {
    return collective(Collective::receive, stream, x, x, source);
  }

  // Sends and receives while one lives are one exchange of all ranks of the group, none
  // of which has to come before another: a transport may start them together. Their
  // handles are waited on after it.
  class Exchange {
   public:
    explicit Exchange(Group& group) : group_(group) { group_.begin_exchange(); }
    ~Exchange() { group_.end_exchange(); }
    Exchange(const Exchange&) = delete;
    Exchange& operator=(const Exchange&) = delete;

   private:
    Group& group_;
  };

  // What send_through_host() leaves of the pinned memory that it took.
  enum class PinnedMemory : bool { free, keep };
  // Whether sends and receives of tensors on GPUs pass through memory of the host, so
  // that no kernel of a GPU waits for another rank, also where the transport goes from
  // GPU to GPU. Where it does not, nothing changes and the answer is false. Alike on all
  // ranks of the group, with no send or receive in flight and all that came in by them
  // in place. Whoever will ask for it again keeps the memory: to pin some is slow.
  virtual bool send_through_host(bool, PinnedMemory) { return false; }

  // Gives the transport a chance to move collectives in flight; cheap. Call it between
  // pieces of long local work.
  virtual void progress() = 0;

  // So many bytes of staging memory at most, 0: any number. A collective of tensors on
  // the host that would need more waits for the oldest one in flight, as all ranks do
  // that start collectives in one order. See StagingPool::set_limit().
  virtual void bound_staging(std::int64_t most) = 0;
  // Bytes of staging memory (MemoryClass::communication) that this group holds, or would
  // hold on meta. Grows on first use of a larger message, then stays.
  virtual std::size_t staging_bytes() const = 0;

  // What this rank has done so far, by kind. A collective that costs nothing (of one
  // rank, or of no elements) is not counted; meta groups count calls and bytes like real
  // ones.
  const TrafficByKind& traffic() const { return traffic_; }
  const Traffic& traffic(Collective kind) const {
    return traffic_[static_cast<std::size_t>(kind)];
  }
  // Bytes this rank has sent so far, and collectives it has started (sends and receives
  // are not counted as such).
  std::int64_t bytes_sent() const;
  std::int64_t collectives() const { return collectives_; }

  // A collective that has been checked, counted and entered in the trace.
  struct Call {
    Collective kind = Collective::all_reduce;
    DType dtype = DType::f32;
    int peer = 0;               // root, destination or source
    std::int64_t sequence = 0;  // on this group; of a send or receive, with this peer
    std::int64_t trace = 0;     // its entry in the trace
    CollectivePlan plan;
    Reduce reduce = Reduce::sum;
    const CombineRows* combine = nullptr;  // in place of `reduce`
  };

 protected:
  Group(std::string name, int rank, int size);

  // See Exchange.
  virtual void begin_exchange() {}
  virtual void end_exchange() noexcept {}

  // Starts `call`, from `from` to `to`: one tensor twice where there is only one.
  // Transports end the call's entry in the trace.
  virtual Handle start(const Call& call, Stream& stream, const TensorView& from,
                       const TensorView& to) = 0;

  // For a group that stands before another and hands calls on to it. What is counted is
  // counted here alone: the call goes to `inner` with this group's sequence number and
  // trace entry, and time that `inner` is held up is entered here once adopt() was
  // called.
  static void adopt(Group& outer, Group& inner) {
    inner.counted_in_ = &outer;
    outer.trace_group_ = inner.trace_group_;
  }
  static Handle forward_call(Group& inner, const Call& call, Stream& stream,
                             const TensorView& from, const TensorView& to) {
    return inner.start(call, stream, from, to);
  }
  // Tells the trace who is in this group: world ranks, in the group's order.
  void set_members(const RankList& world_ranks);
  // Compares `call` with what the other ranks of the group are about to start, before it
  // starts (check_collectives()). Collective over the group. Throws Error(hang) naming
  // the ranks that differ, and what each wants.
  virtual void compare(const Call&) {}
  static void compare_on(Group& inner, const Call& call) { inner.compare(call); }
  void add_exposed(Collective kind, double seconds) {
    counted_in_->traffic_[static_cast<std::size_t>(kind)].exposed_seconds += seconds;
  }

 private:
  // Checks, counts and starts the collective of a row of the table.
  Handle collective(Collective kind, Stream& stream, const TensorView& from,
                    const TensorView& to, int peer = 0, Reduce reduce = Reduce::sum,
                    const CombineRows* combine = nullptr);
  void check(Collective kind, const TensorView& from, const TensorView& to,
             int peer) const;
  Call begin(Collective kind, const TensorView& whole, int peer, Reduce reduce);

  std::string name_;
  int rank_ = 0, size_ = 1;
  TrafficByKind traffic_;
  std::int64_t collectives_ = 0;
  std::map<int, std::int64_t> sends_, receives_;  // by peer
  Group* counted_in_ = this;
  int trace_group_ = -1;
};

// Whether every collective of this process is compared over its group before it starts:
// for the search of a rank that is out of step. Set alike on all ranks. Sends and
// receives are not compared.
void check_collectives(bool wanted);

}  // namespace trireme::comm
