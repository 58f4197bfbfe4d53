// What functions need that use the processor's products of bf16 (AVX512_BF16, AMX).
// SPDX-License-Identifier: Apache-2.0
// They are compiled for it whatever the program is compiled for, and called only where
// has_bf16_products(), or has_amx(). A lambda inside of one would not be.
#pragma once

#if defined(__x86_64__)
#include <immintrin.h>
#if defined(__GNUC__) && !defined(__clang__)  // GCC 12 doubts its own intrinsics' values
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#define TRIREME_HAS_BF16_TARGET 1
#define TRIREME_BF16_TARGET \
  __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")))
#define TRIREME_AMX_TARGET \
  __attribute__((          \
      target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16,amx-tile,amx-bf16")))
#else
#define TRIREME_HAS_BF16_TARGET 0
#endif
