// Tensors for tests of collectives, on the device of the test.
// SPDX-License-Identifier: Apache-2.0
// They are written and read from the host.
#pragma once

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/device_memory.hpp"
#include "base/memory.hpp"
#include "comm/group.hpp"
#include "support/device.hpp"

namespace trireme::test {

inline Buffer buffer(DType dtype, std::int64_t elements, Device device = test_device()) {
  return Buffer(device, dtype, {elements}, MemoryClass::workspace, "test");
}

// A vector's elements as they are now: a tensor of the host itself, or a copy of a
// GPU's. The copy is not in the ledger of memory.
class OnHost {
 public:
  explicit OnHost(const TensorView& x) : view_(x) {
    if (x.device().is_host()) return;
    make_room(x);
    Stream stream(x.device());
    copy_bytes(stream, x, view_);
  }
  const TensorView& view() const { return view_; }

 protected:
  struct Empty {};
  OnHost(const TensorView& x, Empty) : view_(x) {
    if (!x.device().is_host()) make_room(x);
  }

 private:
  void make_room(const TensorView& x) {
    bytes_.resize(x.bytes() + 1);
    view_ = TensorView(bytes_.data(), x.dtype(), x.shape());
  }

  std::vector<std::byte> bytes_;
  TensorView view_;
};

// What is written in view() is on the device when this ends.
class ToDevice : public OnHost {
 public:
  explicit ToDevice(const TensorView& x) : OnHost(x, Empty()), target_(x) {}
  ~ToDevice() {
    if (target_.device().is_host()) return;
    Stream stream(target_.device());
    copy_bytes(stream, view(), target_);
  }
  ToDevice(const ToDevice&) = delete;
  ToDevice& operator=(const ToDevice&) = delete;

 private:
  TensorView target_;
};

// x[i] = f(i)
template <class T, class F>
void write(const TensorView& x, const F& f) {
  const ToDevice host(x);
  T* data = host.view().data<T>();
  for (std::int64_t i = 0; i < x.elements(); ++i) data[i] = f(i);
}

// Values whose sum depends on its order and precision: 24 bits, scattered over 16
// binades. A hash, because millions are made.
inline double value(int rank, std::int64_t i, std::uint64_t stream = 0) {
  auto h = static_cast<std::uint64_t>(i) * 0x9e3779b97f4a7c15u +
           static_cast<std::uint64_t>(rank) * 0xd1342543de82ef95u + stream;
  h = (h ^ (h >> 31)) * 0xbf58476d1ce4e5b9u;
  h ^= h >> 29;
  const auto mantissa = static_cast<double>(static_cast<std::int64_t>(h >> 40)) - 0x1p23;
  return mantissa * 0x1p-31 * static_cast<double>(1u << (h & 15));
}

template <class T>
void fill(const TensorView& x, int rank, std::uint64_t stream = 0) {
  write<T>(x, [&](std::int64_t i) {
    return static_cast<T>(static_cast<Accumulator<T>>(value(rank, i, stream)));
  });
}

// sum or max over ranks in rank order, in the accumulator, rounded once
template <class T>
T reduced(int ranks, std::int64_t i, comm::Reduce reduce = comm::Reduce::sum,
          std::uint64_t stream = 0) {
  using A = Accumulator<T>;
  A total = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    const A term = static_cast<A>(static_cast<T>(static_cast<A>(value(rank, i, stream))));
    total = rank == 0                     ? term
            : reduce == comm::Reduce::sum ? total + term
                                          : std::max(total, term);
  }
  return static_cast<T>(total);
}

template <class T>
bool same_bits(T a, T b) {
  return std::memcmp(&a, &b, sizeof(T)) == 0;
}

// First index in x whose bits differ from f(i), or -1.
template <class T, class F>
std::int64_t first_difference(const TensorView& x, const F& f) {
  const OnHost host(x);
  for (std::int64_t i = 0; i < x.elements(); ++i)
    if (!same_bits(host.view().template data<T>()[i], f(i))) return i;
  return -1;
}

}  // namespace trireme::test
