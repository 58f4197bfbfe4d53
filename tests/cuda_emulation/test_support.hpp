// What the emulation's own tests share.
// SPDX-License-Identifier: Apache-2.0
// These are launches, arrays on the device, and settings for a while.
#pragma once

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <utility>
#include <vector>

#include "cuda_emulation/control.hpp"

namespace trireme::cuda_emulation {

inline cudaLaunchConfig_t shape(dim3 grid, dim3 block, std::size_t shared_bytes = 0,
                                cudaStream_t stream = nullptr) {
  return {grid, block, shared_bytes, stream, nullptr, 0};
}

// Launches and waits.
template <class... Parameters, class... Arguments>
void run(const cudaLaunchConfig_t& config, void (*kernel)(Parameters...),
         Arguments&&... arguments) {
  ASSERT_EQ(cudaLaunchKernelEx(&config, kernel, std::forward<Arguments>(arguments)...),
            cudaSuccess);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
}

template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(std::size_t size) : size_(size) {
    EXPECT_EQ(cudaMalloc(&data_, size * sizeof(T)), cudaSuccess);
  }
  explicit DeviceArray(const std::vector<T>& values) : DeviceArray(values.size()) {
    EXPECT_EQ(cudaMemcpy(data_, values.data(), bytes(), cudaMemcpyHostToDevice),
              cudaSuccess);
  }
  ~DeviceArray() { EXPECT_EQ(cudaFree(data_), cudaSuccess); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  T* data() const { return data_; }
  std::size_t bytes() const { return size_ * sizeof(T); }
  std::vector<T> values() const {
    std::vector<T> host(size_);
    EXPECT_EQ(cudaMemcpy(host.data(), data_, bytes(), cudaMemcpyDeviceToHost),
              cudaSuccess);
    return host;
  }

 private:
  T* data_ = nullptr;
  std::size_t size_;
};

inline constexpr Order forward{Order::Kind::forward, 0},
    reversed{Order::Kind::reverse, 0};
inline Order shuffled(std::uint64_t seed) { return {Order::Kind::shuffle, seed}; }

// Sets the order of threads and whether streams are lazy; the end of scope puts back what
// was.
class With {
 public:
  explicit With(Order order) : before_(current()) { set_order(order); }
  explicit With(bool lazy) : before_(current()) { set_lazy_streams(lazy); }
  ~With() { put(before_); }
  With(const With&) = delete;
  With& operator=(const With&) = delete;

 private:
  using State = std::pair<Order, bool>;
  static State current() { return {order(), lazy_streams()}; }
  static void put(const State& state) {
    set_order(state.first);
    set_lazy_streams(state.second);
  }
  State before_;
};

}  // namespace trireme::cuda_emulation
