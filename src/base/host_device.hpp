// TRIREME_HOST_DEVICE marks the formulas that hosts and GPUs of every make run.
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Stands before the type that a function returns. nvcc and hipcc compile such a function
// for both sides, also in a kernel of Kokkos, whose own KOKKOS_INLINE_FUNCTION says the
// same. A host compiler must inline it, so that loops over it become vector code;
// emulated CUDA runs its kernels on the host.
#if defined(__CUDACC__) || defined(__HIPCC__)
#define TRIREME_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define TRIREME_HOST_DEVICE [[gnu::always_inline]] inline
#endif
