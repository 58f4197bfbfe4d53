// What the address sanitizer must be told: switches of stacks, forbidden memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) && !defined(__SANITIZE_ADDRESS__)
#define __SANITIZE_ADDRESS__ 1
#endif
#endif

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace trireme::cuda_emulation {

#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool has_address_sanitizer = true;
inline void forbid_access(const void* address, std::size_t bytes) {
  __asan_poison_memory_region(address, bytes);
}
inline void allow_access(const void* address, std::size_t bytes) {
  __asan_unpoison_memory_region(address, bytes);
}
// `save` is null where the old stack is left for good.
inline void start_switch(void** save, const void* bottom, std::size_t bytes) {
  __sanitizer_start_switch_fiber(save, bottom, bytes);
}
inline void finish_switch(void* saved, const void** old_bottom, std::size_t* old_bytes) {
  __sanitizer_finish_switch_fiber(saved, old_bottom, old_bytes);
}
#else
inline constexpr bool has_address_sanitizer = false;
inline void forbid_access(const void*, std::size_t) {}
inline void allow_access(const void*, std::size_t) {}
inline void start_switch(void**, const void*, std::size_t) {}
inline void finish_switch(void*, const void**, std::size_t*) {}
#endif

}  // namespace trireme::cuda_emulation
