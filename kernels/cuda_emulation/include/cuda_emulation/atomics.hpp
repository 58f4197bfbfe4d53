// Atomic operations: one host thread runs all CUDA threads, so plain updates are atomic.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <type_traits>

namespace trireme::cuda_emulation {

template <class T, class... Allowed>
concept one_of = (std::same_as<T, Allowed> || ...);

// CUDA has no atomics on `unsigned long`, although it is as wide as `unsigned long long`.
using unsigned64 = unsigned long long;

template <class T>
T replace(T* address, T value) {
  const T old = *address;
  *address = value;
  return old;
}

}  // namespace trireme::cuda_emulation

// Integers wrap. The second argument takes no part in deduction, as with CUDA's
// overloads.
template <
    trireme::cuda_emulation::one_of<int, unsigned, unsigned long long, float, double> T>
T atomicAdd(T* address, std::type_identity_t<T> value) {
  if constexpr (std::same_as<T, int>) {
    return trireme::cuda_emulation::replace(
        address,
        static_cast<int>(static_cast<unsigned>(*address) + static_cast<unsigned>(value)));
  } else {
    return trireme::cuda_emulation::replace(address, *address + value);
  }
}
template <trireme::cuda_emulation::one_of<int, unsigned> T>
T atomicSub(T* address, std::type_identity_t<T> value) {
  return trireme::cuda_emulation::replace(
      address,
      static_cast<T>(static_cast<unsigned>(*address) - static_cast<unsigned>(value)));
}
template <trireme::cuda_emulation::one_of<int, unsigned, long long, unsigned long long> T>
T atomicMax(T* address, std::type_identity_t<T> value) {
  return trireme::cuda_emulation::replace(address, *address < value ? value : *address);
}
template <trireme::cuda_emulation::one_of<int, unsigned, long long, unsigned long long> T>
T atomicMin(T* address, std::type_identity_t<T> value) {
  return trireme::cuda_emulation::replace(address, value < *address ? value : *address);
}
template <trireme::cuda_emulation::one_of<int, unsigned, unsigned long long, float> T>
T atomicExch(T* address, std::type_identity_t<T> value) {
  return trireme::cuda_emulation::replace(address, value);
}
template <
    trireme::cuda_emulation::one_of<int, unsigned, unsigned long long, unsigned short> T>
T atomicCAS(T* address, std::type_identity_t<T> compare, std::type_identity_t<T> value) {
  return trireme::cuda_emulation::replace(address,
                                          *address == compare ? value : *address);
}
template <trireme::cuda_emulation::one_of<int, unsigned, unsigned long long> T>
T atomicAnd(T* address, std::type_identity_t<T> value) {
  return trireme::cuda_emulation::replace(address, *address & value);
}
template <trireme::cuda_emulation::one_of<int, unsigned, unsigned long long> T>
T atomicOr(T* address, std::type_identity_t<T> value) {
  return trireme::cuda_emulation::replace(address, *address | value);
}
template <trireme::cuda_emulation::one_of<int, unsigned, unsigned long long> T>
T atomicXor(T* address, std::type_identity_t<T> value) {
  return trireme::cuda_emulation::replace(address, *address ^ value);
}
// Counts up and starts again at 0 after `limit`.
inline unsigned atomicInc(unsigned* address, unsigned limit) {
  return trireme::cuda_emulation::replace(address,
                                          *address >= limit ? 0u : *address + 1u);
}
