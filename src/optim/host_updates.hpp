// HostUpdates: updates that the host makes, beside copies from and to the device.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "base/event.hpp"
#include "base/memory.hpp"
#include "base/work_meter.hpp"
#include "optim/store_context.hpp"

namespace trireme::optim {

// A few elements at a time: while the host updates some, the gradients of the next come,
// and the weights of those before go back, each in one of two places in turn.
class HostUpdates {
 public:
  // Makes the new weights from a gradient on the host, at `weight` there, or where they
  // are kept. Returns where on the device they go to from `weight`; empty: they stay.
  using Update =
      std::function<TensorView(const TensorView& gradient_N, const TensorView& weight_N)>;

  HostUpdates() = default;  // none
  HostUpdates(StoreContext& context, Device device);

  // Elements of one update at most.
  std::int64_t most() const { return most_; }
  // gradient_N, on the device and complete for the stream, begins to come. The update
  // added before is made.
  void add(const TensorView& gradient_N, Update update);
  // Makes the last one. The weights are where they go once the stream has come this far.
  void finish();
  // Memory for weights on their way, between passes; empty where none go.
  const TensorView& weights() const { return weights_.view(); }

  std::size_t bytes() const { return gradients_.bytes() + weights_.bytes(); }

 private:
  struct Place {
    Event arrived, left;
    MessageFlight coming, going;  // on a plan's clock
    TensorView gradient_N;        // on the host
    Update update;
  };

  void make(std::size_t place);
  TensorView part_of(const Buffer& memory, std::size_t place, std::int64_t count) const;

  StoreContext* context_ = nullptr;
  std::int64_t most_ = 0;
  Buffer gradients_, weights_;  // two halves each, on the host
  std::unique_ptr<SideStream> incoming_;
  Event complete_;
  std::array<Place, 2> places_;
  std::size_t next_ = 0;
  bool pending_ = false;  // the place before next_ has an update to make
};

}  // namespace trireme::optim
