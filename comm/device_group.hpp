// DeviceGroup: a group whose tensors may lie on a GPU.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>

#include "comm/device_transport.hpp"

namespace trireme::comm {

// Stands before a group of the host: tensors of the host go to that, tensors of `device`
// to the transport, which may be built on the same group. Everything is checked, counted
// and entered in the trace once, here, so that a program on GPUs counts as on hosts.
class DeviceGroup final : public Group {
 public:
  using MakeTransport = std::function<std::unique_ptr<DeviceTransport>()>;
  // `transport` may be empty in a group of one rank. `through_host` makes what carries
  // sends and receives while send_through_host() says so, once that is first wanted;
  // empty where `transport` does.
  DeviceGroup(std::unique_ptr<Group> host, Device device,
              std::unique_ptr<DeviceTransport> transport,
              MakeTransport through_host = {});

  bool send_through_host(bool wanted, PinnedMemory after) override;
  void progress() override { host_->progress(); }
  void bound_staging(std::int64_t most) override { host_->bound_staging(most); }
  std::size_t staging_bytes() const override;

 private:
  void begin_exchange() override;
  void end_exchange() noexcept override;
  Handle start(const Call& call, Stream& stream, const TensorView& from,
               const TensorView& to) override;
  void compare(const Call& call) override { compare_on(*host_, call); }

  std::unique_ptr<Group> host_;
  Device device_;
  MakeTransport make_through_host_;
  // These go first: they may use the host group.
  std::unique_ptr<DeviceTransport> transport_, through_host_;
  bool sends_through_host_ = false;  // through_host_ may be kept while it is not used
};

}  // namespace trireme::comm
