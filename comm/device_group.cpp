// DeviceGroup: collectives of a group whose tensors lie on GPUs.
// SPDX-License-Identifier: Apache-2.0
#include "comm/device_group.hpp"

#include <string>
#include <utility>

#include "comm/recording.hpp"

namespace trireme::comm {

DeviceGroup::DeviceGroup(std::unique_ptr<Group> host, Device device,
                         std::unique_ptr<DeviceTransport> transport,
                         MakeTransport through_host)
    : Group(std::string(host->name()), host->rank(), host->size()),
      host_(std::move(host)),
      device_(device),
      make_through_host_(std::move(through_host)),
      transport_(std::move(transport)) {
  adopt(*this, *host_);
}

void DeviceGroup::begin_exchange() {
  if (transport_ && !sends_through_host_) transport_->begin_exchange();
}

void DeviceGroup::end_exchange() noexcept {
  if (transport_ && !sends_through_host_) transport_->end_exchange();
}

bool DeviceGroup::send_through_host(bool wanted, PinnedMemory after) {
  if (!make_through_host_ || wanted == sends_through_host_) return false;
  if (wanted && through_host_ == nullptr) through_host_ = make_through_host_();
  if (!wanted && after == PinnedMemory::free) through_host_.reset();
  sends_through_host_ = wanted;
  return true;
}

std::size_t DeviceGroup::staging_bytes() const {
  return host_->staging_bytes() + (transport_ ? transport_->staging_bytes() : 0) +
         (through_host_ ? through_host_->staging_bytes() : 0);
}

Handle DeviceGroup::start(const Call& call, Stream& stream, const TensorView& from,
                          const TensorView& to) {
  if (!from.device().is_cuda() && !to.device().is_cuda())
    return forward_call(*host_, call, stream, from, to);
  require(
      from.device() == device_ && to.device() == device_ && stream.device() == device_,
      "{} on axis '{}': both tensors and the stream must be on GPU {}, the mesh's",
      name_of(call.kind), name(), device_.index);
  const bool is_message =
      call.kind == Collective::send || call.kind == Collective::receive;
  DeviceTransport* const transport =
      is_message && sends_through_host_ ? through_host_.get() : transport_.get();
  require(transport != nullptr,
          "{} on axis '{}': the mesh was made without this group's tensors on GPUs",
          name_of(call.kind), name());
  require(recorded_calls() == nullptr || transport->can_be_recorded(),
          "{} on axis '{}' cannot be recorded in a graph: it does not go by NCCL",
          name_of(call.kind), name());
  return transport->start(call, stream, from, to);
}

}  // namespace trireme::comm
