// DeviceGroup: collectives of a group whose tensors lie on GPUs.
// SPDX-License-Identifier: Apache-2.0
#include "comm/device_group.hpp"

#include <string>
#include <utility>

namespace trireme::comm {

DeviceGroup::DeviceGroup(std::unique_ptr<Group> host, Device device,
                         std::unique_ptr<DeviceTransport> transport)
    : Group(std::string(host->name()), host->rank(), host->size()),
      host_(std::move(host)),
      device_(device),
      transport_(std::move(transport)) {
  adopt(*this, *host_);
}

std::size_t DeviceGroup::staging_bytes() const {
  return host_->staging_bytes() + (transport_ ? transport_->staging_bytes() : 0);
}

Handle DeviceGroup::start(const Call& call, Stream& stream, const TensorView& from,
                          const TensorView& to) {
  if (!from.device().is_cuda() && !to.device().is_cuda())
    return hand_on(*host_, call, stream, from, to);
  require(
      from.device() == device_ && to.device() == device_ && stream.device() == device_,
      "{} on axis '{}': both tensors and the stream must be on GPU {}, the mesh's",
      name_of(call.kind), name(), device_.index);
  return transport_->start(call, stream, from, to);
}

}  // namespace trireme::comm
