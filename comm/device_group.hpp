// DeviceGroup: a group whose tensors may lie on a GPU.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "comm/device_transport.hpp"

namespace trireme::comm {

// Stands before a group of the host: tensors of the host go to that, tensors of `device`
// to the transport, which may be built on the same group. Everything is checked, counted
// and entered in the trace once, here, so that a program on GPUs counts as on hosts.
class DeviceGroup final : public Group {
 public:
  // `transport` may be empty in a group of one rank.
  DeviceGroup(std::unique_ptr<Group> host, Device device,
              std::unique_ptr<DeviceTransport> transport);

  void progress() override { host_->progress(); }
  std::size_t staging_bytes() const override;

 private:
  Handle start(const Call& call, Stream& stream, const TensorView& from,
               const TensorView& to) override;
  void compare(const Call& call) override { compare_on(*host_, call); }

  std::unique_ptr<Group> host_;
  Device device_;
  std::unique_ptr<DeviceTransport> transport_;  // goes first: it may use the host group
};

}  // namespace trireme::comm
