// A group that sends nothing.
// SPDX-License-Identifier: Apache-2.0
#include "comm/meta_group.hpp"

#include <utility>
#include <vector>

#include "base/work_meter.hpp"
#include "comm/staging.hpp"

namespace trireme::comm {
namespace {

class MetaGroup final : public Group {
 public:
  // What tensors that do not lie on the host need beside the messages' staging.
  enum class Way { host, pinned, direct };

  MetaGroup(std::string name, int rank, int size, Way way = Way::host)
      : Group(std::move(name), rank, size),
        way_(way),
        staging_(Device::meta(), std::string(this->name())),
        pinned_(Device::meta(), std::string(this->name())) {}

  void forbid_collectives() { collectives_ = false; }

  // Counted where it stays: what is freed after the first run is not there later.
  bool send_through_host(bool wanted, PinnedMemory after) override {
    if (way_ != Way::direct || size() == 1 || after == PinnedMemory::free ||
        wanted == sends_through_host_)
      return false;
    sends_through_host_ = wanted;
    return true;
  }
  void progress() override {}
  void bound_staging(std::int64_t most) override { staging_.set_limit(most); }
  std::size_t staging_bytes() const override {
    return staging_.bytes() + pinned_.bytes();
  }

 private:
  // Holds its staging block until it is waited on, as on a real transport.
  class Operation final : public Handle::Operation, private StagingPool::Holder {
   public:
    explicit Operation(MetaGroup& group) : group_(group) {}
    void start(int block, int pinned, Way way) {
      block_ = block;
      pinned_ = pinned;
      metered_ = false;
      if (way == Way::host) group_.staging_.hold(block, *this);
    }
    // A plan that keeps time: the message is on its way.
    void fly(Collective kind, const MessageFlight& flight) {
      metered_ = true;
      kind_ = kind;
      flight_ = flight;
    }
    bool progress() override { return true; }
    void wait() override {
      finish_and_release();
      group_.pinned_.release(pinned_);
      group_.free_.push_back(this);
    }
    void abandon() noexcept override { wait(); }

   private:
    void finish_and_release() override {
      WorkMeter* const meter = work_meter();
      if (std::exchange(metered_, false) && meter != nullptr)
        group_.add_exposed(kind_, meter->wait_for(flight_));
      group_.staging_.release(std::exchange(block_, StagingPool::none));
    }

    MetaGroup& group_;
    int block_ = StagingPool::none, pinned_ = StagingPool::none;
    bool metered_ = false;
    Collective kind_ = Collective::all_reduce;
    MessageFlight flight_;
  };

  // As StagedTransport: the whole tensor, of an exchange both.
  static std::int64_t pinned_bytes(const Call& call) {
    const auto whole =
        call.plan.elements * static_cast<std::int64_t>(size_of(call.dtype));
    return row_of(call.kind).exchange ? 2 * whole : whole;
  }

  Way way_of(const Call& call, const TensorView& from) const {
    if (from.device() == planned_host) return Way::host;
    return sends_through_host_ && row_of(call.kind).peer == Peer::other ? Way::pinned
                                                                        : way_;
  }

  Handle start(const Call& call, Stream&, const TensorView& from,
               const TensorView&) override {
    if (free_.empty()) {
      operations_.push_back(std::make_unique<Operation>(*this));
      free_.reserve(operations_.size());
      free_.push_back(operations_.back().get());
    }
    Operation* operation = free_.back();
    free_.pop_back();
    const Way way = way_of(call, from);
    require(collectives_ || way != Way::direct || row_of(call.kind).peer == Peer::other,
            "{} on axis '{}': no communicator is made for it", row_of(call.kind).name,
            name());
    operation->start(staging_.acquire(way == Way::direct ? 0 : call.plan.staging_bytes()),
                     pinned_.acquire(way == Way::pinned ? pinned_bytes(call) : 0), way);
    if (WorkMeter* meter = work_meter())
      operation->fly(
          call.kind,
          meter->message({.group = name(),
                          .ranks = size(),
                          .to_one = row_of(call.kind).peer == Peer::other,
                          .bytes = static_cast<double>(call.plan.bytes_sent)}));
    return Handle(operation);
  }

  Way way_;
  bool collectives_ = true, sends_through_host_ = false;
  StagingPool staging_, pinned_;
  std::vector<std::unique_ptr<Operation>> operations_;
  std::vector<Operation*> free_;
};

}  // namespace

std::unique_ptr<Group> make_meta_group(std::string name, int rank, int size) {
  return std::make_unique<MetaGroup>(std::move(name), rank, size);
}

std::unique_ptr<Group> make_planned_group(std::string name, int rank, int size,
                                          Transport transport) {
  return std::make_unique<MetaGroup>(
      std::move(name), rank, size,
      transport == Transport::nccl ? MetaGroup::Way::direct : MetaGroup::Way::pinned);
}

void forbid_collectives(Group& group) {
  dynamic_cast<MetaGroup&>(group).forbid_collectives();
}

}  // namespace trireme::comm
