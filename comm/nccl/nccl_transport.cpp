// NcclTransport: the collectives of one group, by NCCL.
// SPDX-License-Identifier: Apache-2.0
//
// Why this cannot deadlock where the same program on hosts does not:
//
// 1. Making communicators blocks until all their ranks do it. A mesh makes its groups in
//    one order on all ranks, a group its communicator first, with all ranks of the world,
//    and then its links, pair by pair in the order of ring_links(). So there is one order
//    of all communicators that every rank keeps: the first that is not finished has all
//    its ranks at it. Pairs without a common rank are linked at the same time.
// 2. NCCL makes connections at first use, and waits for the peers in that. So they are
//    made here: NCCL_RUNTIME_CONNECT = 0 connects what collectives use, each link sends
//    once, and experts exchange once. The other exchange, of Ulysses, connects in the
//    first forward, to which all ranks of its group come in the same order; messages of a
//    pipeline pass through the host then (Executor::execute), so that nobody waits for
//    one on a GPU. Later calls find everything connected and do not block.
// 3. Work of one communicator runs in the order of the calls. For collectives all ranks
//    of the group have the same order, so that this adds nothing. Sends and receives have
//    no such order: in 1F1B both neighbours send at once, and may have posted receives
//    before or after that. On one queue, a send in front of a receive on both sides waits
//    for ever. So each pair of ranks has a link for each direction, a communicator of two
//    with a queue of its own, which sees sends on one side and receives on the other,
//    matched in order as Group demands. A kernel thus waits for what its call would wait
//    for on hosts, and for nothing else. The exchange of experts is one call of all
//    ranks, a collective like others.
// 4. Kernels that wait hold multiprocessors. Links get few blocks each (link_ctas), so
//    that all links of a rank and its groups' kernels fit on a GPU together.
//
// While a graph is recorded (comm/recording.hpp) calls become part of it: events order
// the streams there as they do outside, but are never asked, and a call is over for the
// host at once. A launch of the graph is one flight: an event behind it ends the entries
// that its calls have in the trace. NCCL wants all ranks of a communicator to record and
// to launch alike, which engine/action_graphs.hpp sees to.
#include "comm/nccl_transport.hpp"

#include <cstdlib>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/memory.hpp"
#include "base/use_device.hpp"
#include "comm/abort.hpp"
#include "comm/async_errors.hpp"
#include "comm/mpi/claim.hpp"
#include "comm/mpi/device_patience.hpp"
#include "comm/mpi/mpi_group.hpp"
#include "comm/nccl/communicator.hpp"
#include "comm/nccl/communicators.hpp"
#include "comm/nccl/issue.hpp"
#include "comm/recording.hpp"
#include "comm/ring_links.hpp"
#include "comm/trace.hpp"

namespace trireme::comm {
namespace {

// Blocks that a message holds on the GPU while it waits for its peer: few, because what
// is posted ahead of need takes them from the products.
constexpr int link_ctas = 4;

class NcclTransport;

class NcclOperation final : public Handle::Operation {
 public:
  NcclOperation(NcclTransport& transport, Device device)
      : transport_(transport), stream_(device), done_(device) {}

  bool progress() override;
  void wait() override;  // the host does not block: the stream holds
  void abandon() noexcept override;

 private:
  friend class NcclTransport;

  NcclTransport& transport_;
  Group::Call call_;
  NcclCommunicator* communicator_ = nullptr;
  Stream stream_;  // of the program
  Event done_;
  bool passed_ = false;
  // Messages of an exchange are one kernel and end together: the first one stands for
  // all. Its event is recorded, and held for once; all are used again when it has passed
  // and the last one was waited on.
  NcclOperation* first_ = this;
  std::vector<NcclOperation*> together_;  // of the first: all of them
  std::size_t unwaited_ = 0;              // of these
  bool held_ = false;
  std::vector<std::int64_t> launched_;  // of a graph: traces of its calls
};

class NcclTransport final : public DeviceTransport,
                            public AsyncSource,
                            public RecordedWork {
 public:
  NcclTransport(MpiGroup& group, Device device, Links links,
                std::shared_ptr<NcclCommunicator> all);
  ~NcclTransport() override;

  Handle start(const Group::Call& call, Stream& stream, const TensorView& from,
               const TensorView& to) override;
  void begin_exchange() override;
  void end_exchange() noexcept override;
  std::size_t staging_bytes() const override { return 0; }
  bool can_be_recorded() const override { return true; }
  void launched(Stream& stream, std::vector<std::int64_t> traces) override;
  void look() override;

 private:
  friend class NcclOperation;

  void make_links(Links links);
  void make_link(const Link& link);
  void connect(NcclCommunicator& communicator, Collective kind);
  NcclCommunicator& communicator_of(const Group::Call& call);
  void take_off(std::span<NcclOperation* const> together);
  NcclOperation& take();
  bool has_passed(NcclOperation& operation);
  void use_again(NcclOperation& first);
  std::string error_of(const NcclOperation& operation) const;

  MpiGroup& group_;
  Device device_;
  Event started_;
  DevicePatience patience_;
  std::shared_ptr<NcclCommunicator> all_;  // of this group's ranks, if it is used
  std::map<Link, std::unique_ptr<NcclCommunicator>> links_;
  std::optional<std::vector<NcclOperation*>> exchange_;  // between begin and end
  std::mutex mutex_;  // of what follows: the watchdog's thread looks, too
  std::vector<std::unique_ptr<NcclOperation>> operations_;
  std::vector<NcclOperation*> free_, flying_;
};

bool NcclOperation::progress() try {
  async_errors().look();
  const std::lock_guard lock(transport_.mutex_);
  return first_->passed_;
} catch (...) {
  end_job(std::current_exception());
}

void NcclOperation::wait() {
  NcclOperation& first = *first_;
  if (!std::exchange(first.held_, true)) first.done_.hold(stream_);
  const std::lock_guard lock(transport_.mutex_);
  --first.unwaited_;
  if (first.passed_) transport_.use_again(first);
}

// The tensors go away now. Nothing that frees memory waits for the kernels that still
// read them while an exception passes, and they end with the process.
void NcclOperation::abandon() noexcept {
  WorldState& state = transport_.group_.state();
  announce_failure(state);
  state.abandoned = true;
}

NcclTransport::NcclTransport(MpiGroup& group, Device device, Links links,
                             std::shared_ptr<NcclCommunicator> all)
    : group_(group),
      device_(device),
      started_(device),
      patience_(group.state()),
      all_(std::move(all)) {
  make_links(links);
  async_errors().add(this);
}

NcclTransport::~NcclTransport() { async_errors().remove(this); }

// Links between neighbours, and what is exchanged between all pairs.
void NcclTransport::make_links(Links links) {
  if (links == Links::all) connect(*all_, Collective::all_to_all);
  if (links != Links::ring) return;
  for (const Link& link : ring_links(group_.rank(), group_.size())) make_link(link);
}

void NcclTransport::make_link(const Link& link) {
  const auto [source, destination] = link;
  const bool sends = group_.rank() == source;
  ncclUniqueId id{};
  const auto there = [&](int rank) { return group_.members().rank(rank); };
  const int tag = group_.tags().first + group_.tags().count - 1;
  MPI_Request request;
  if (sends) {
    check_nccl(ncclGetUniqueId(&id), "ncclGetUniqueId", std::string(group_.name()));
    check_mpi(MPI_Isend(&id, sizeof id, MPI_BYTE, there(destination), tag, group_.comm(),
                        &request),
              "MPI_Isend");
  } else {
    check_mpi(
        MPI_Irecv(&id, sizeof id, MPI_BYTE, there(source), tag, group_.comm(), &request),
        "MPI_Irecv");
  }
  group_.state().wait(request, "exchange of ncclUniqueId");
  auto& communicator = links_[link] = std::make_unique<NcclCommunicator>(
      group_.state(), id, sends ? 0 : 1, 2, device_,
      format("{}, rank {} to {}", group_.name(), source, destination),
      NcclCommunicator::Options{.max_ctas = link_ctas});
  connect(*communicator, sends ? Collective::send : Collective::receive);
}

// Sends a byte to each rank, so that connections are made now.
void NcclTransport::connect(NcclCommunicator& communicator, Collective kind) {
  Group::Call call;
  call.kind = kind;
  call.dtype = DType::u8;
  const Buffer from(device_, DType::u8, {group_.size()}, MemoryClass::communication,
                    "first messages of NCCL");
  const Buffer to(device_, DType::u8, {group_.size()}, MemoryClass::communication,
                  "first messages of NCCL");
  communicator.enqueue("first messages", [&](ncclComm_t comm, cudaStream_t queue) {
    return issue(call, from.view(), to.view(), group_.size(), peer_on_link(kind), comm,
                 queue);
  });
  communicator.stream().synchronize();
}

NcclCommunicator& NcclTransport::communicator_of(const Group::Call& call) {
  const bool sends = call.kind == Collective::send;
  if ((!sends && call.kind != Collective::receive) || exchange_) {
    require(all_ != nullptr, "{} on axis '{}': no communicator was made for it",
            name_of(call.kind), group_.name());
    return *all_;
  }
  const Link link =
      sends ? Link{group_.rank(), call.peer} : Link{call.peer, group_.rank()};
  const auto found = links_.find(link);
  require(found != links_.end(),
          "{} between ranks {} and {} on axis '{}': no link was made", name_of(call.kind),
          link.first, link.second, group_.name());
  return *found->second;
}

NcclOperation& NcclTransport::take() {
  const auto none_is_free = [&] {
    const std::lock_guard lock(mutex_);
    return free_.empty();
  };
  // Nobody may have looked at what has passed. A recording allows no look.
  if (none_is_free() && recorded_calls() == nullptr) look();
  const std::lock_guard lock(mutex_);
  if (free_.empty()) {
    operations_.push_back(std::make_unique<NcclOperation>(*this, device_));
    free_.push_back(operations_.back().get());
  }
  NcclOperation* operation = free_.back();
  free_.pop_back();
  return *operation;
}

Handle NcclTransport::start(const Group::Call& call, Stream& stream,
                            const TensorView& from, const TensorView& to) try {
  NcclOperation& operation = take();
  NcclCommunicator& communicator = communicator_of(call);
  operation.call_ = call;
  operation.communicator_ = &communicator;
  operation.stream_ = stream;
  operation.launched_.clear();
  operation.first_ = &operation;
  operation.passed_ = false;
  if (RecordedCalls* const calls = recorded_calls())
    calls->set_work(*this);
  else
    trace().carried_by_device(call.trace);
  if (!exchange_ || exchange_->empty()) {
    started_.record(stream);
    started_.hold(communicator.stream());
  } else {
    require(stream.native() == exchange_->front()->stream_.native(),
            "messages of an exchange on axis '{}' are on two streams", group_.name());
  }
  const int peer = exchange_ ? call.peer : peer_on_link(call.kind);
  communicator.enqueue(name_of(call.kind).data(),
                       [&](ncclComm_t comm, cudaStream_t queue) {
                         return issue(call, from, to, group_.size(), peer, comm, queue);
                       });
  NcclOperation* const alone = &operation;
  if (exchange_)
    exchange_->push_back(&operation);
  else
    take_off({&alone, 1});
  return Handle(&operation);
} catch (...) {
  end_job(std::current_exception());  // peers may wait in kernels for this rank
}

// What ends together is on its communicator's stream.
void NcclTransport::take_off(std::span<NcclOperation* const> together) {
  NcclOperation& first = *together.front();
  first.done_.record(first.communicator_->stream());
  const std::lock_guard lock(mutex_);
  for (NcclOperation* operation : together) operation->first_ = &first;
  first.unwaited_ = together.size();
  first.together_.assign(together.begin(), together.end());
  first.held_ = false;
  first.passed_ = recorded_calls() != nullptr;
  if (!first.passed_) flying_.push_back(&first);
}

void NcclTransport::use_again(NcclOperation& first) {
  if (first.unwaited_ > 0) return;
  free_.insert(free_.end(), first.together_.begin(), first.together_.end());
}

void NcclTransport::launched(Stream& stream, std::vector<std::int64_t> traces) {
  NcclOperation& operation = take();
  operation.call_ = {};
  operation.communicator_ = nullptr;
  for (const std::int64_t entry : traces) trace().carried_by_device(entry);
  operation.launched_ = std::move(traces);
  operation.done_.record(stream);
  const std::lock_guard lock(mutex_);
  operation.first_ = &operation;
  operation.together_.assign(1, &operation);
  operation.unwaited_ = 0;  // the graph's own order is what waits
  operation.passed_ = false;
  flying_.push_back(&operation);
}

// One kernel sends to all and receives from all, on the communicator of all: links, and a
// call for each of them, are for messages that come one by one.
void NcclTransport::begin_exchange() {
  exchange_.emplace();
  all_->enqueue("ncclGroupStart",
                [](ncclComm_t, cudaStream_t) { return ncclGroupStart(); });
}

void NcclTransport::end_exchange() noexcept try {
  all_->enqueue("ncclGroupEnd", [](ncclComm_t, cudaStream_t) { return ncclGroupEnd(); });
  const std::vector<NcclOperation*> started = std::move(*exchange_);
  exchange_.reset();
  if (!started.empty()) take_off(started);
} catch (...) {
  end_job(std::current_exception());
}

// Of its communicator; of a launched graph, of any.
std::string NcclTransport::error_of(const NcclOperation& operation) const {
  if (operation.communicator_ != nullptr) return operation.communicator_->error();
  std::string error = all_ ? all_->error() : "";
  for (const auto& [link, communicator] : links_)
    if (error.empty()) error = communicator->error();
  return error;
}

bool NcclTransport::has_passed(NcclOperation& operation) {
  const std::string error = error_of(operation);
  const bool is_graph = !operation.launched_.empty();
  require(
      error.empty(), Status::transport, "{} on axis '{}' failed: {}",
      is_graph
          ? "a launched graph"
          : format("{} #{} {}", name_of(operation.call_.kind), operation.call_.sequence,
                   tensor_text(operation.call_.dtype, operation.call_.plan.elements)),
      group_.name(), error);
  if (!operation.done_.passed()) return false;
  if (!is_graph)
    for (const NcclOperation* one : operation.together_) trace().end(one->call_.trace);
  for (const std::int64_t entry : operation.launched_) trace().end(entry);
  operation.passed_ = true;
  use_again(operation);
  return true;
}

// The watchdog's thread looks, too: without this it would make a context on GPU 0.
void NcclTransport::look() {
  use_device(device_);
  const std::lock_guard lock(mutex_);
  std::erase_if(flying_,
                [&](NcclOperation* operation) { return has_passed(*operation); });
}

}  // namespace

bool nccl_is_built() { return true; }

std::unique_ptr<DeviceTransport> make_nccl_transport(MpiGroup& group, Device device,
                                                     Links links, bool collectives) {
  ::setenv("NCCL_RUNTIME_CONNECT", "0", 0);  // unless the user has set it
  auto all = collectives ? nccl_communicator(group, device) : nullptr;
  if (all == nullptr && (group.size() == 1 || links != Links::ring)) return nullptr;
  return std::make_unique<NcclTransport>(group, device, links, std::move(all));
}

}  // namespace trireme::comm
